//! `pagetide serve --listen`: figures of tenants are the kernel's.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::sleeper::Sleeper;
use e2e::temp::{TempDir, serial};
use e2e::tenants::Tree;
use e2e::web::{Place, float, listening, samples, value};
use e2e::zram::Swap;
use e2e::{proc, wait};

const SOON: Duration = Duration::from_secs(60);

/// Whatever is told of a tenant is what its processes have, in memory, by age and in swap.
#[test]
fn figures_are_those_of_the_kernel() {
    let _serial = serial();
    let _swap = Swap::shared();
    let folder = TempDir::new();
    let (tree, place) = listening(&folder, &["--age-every", "500ms"]);
    tree.make("web");
    tree.make("web/a");
    let sleeper = Sleeper::start(tree.inside("web/a"), 64);
    let anon = |tenant: &str| {
        value(
            &place,
            &format!(r#"pagetide_resident_bytes{{tenant="{tenant}",node="0",type="anon"}}"#),
        )
    };
    wait::until("it is seen", SOON, || {
        let rss = float(sleeper.status("RssAnon"));
        rss > 64e6 && (anon("/web/a") - rss).abs() < 0.02 * rss
    });
    // Of a tenant and all below it.
    wait::until("so those above have it", SOON, || {
        anon("/web") >= anon("/web/a") && anon("/") >= anon("/web")
    });
    let age = |edge: &str| {
        value(
            &place,
            &format!(
                r#"pagetide_page_age_bytes{{tenant="/web/a",node="0",type="anon",le="{edge}"}}"#
            ),
        )
    };
    wait::until("it grows old", SOON, || {
        age("5") < 4e6 && age("+Inf") > 64e6
    });

    tree.write("web/a/memory.reclaim", "32m");
    let swapped = r#"pagetide_swapped_bytes{tenant="/web/a"}"#;
    wait::until("what left is told", SOON, || {
        let out = float(sleeper.status("VmSwap"));
        out > 32e6 && (value(&place, swapped) - out).abs() < 0.02 * out
    });
    let steals = value(
        &place,
        r#"pagetide_steals_total{tenant="/web",reason="proactive"}"#,
    );
    assert!(steals * 4096.0 >= 32e6, "{steals}");
    let _ = sleeper.touch();
    let refaults = r#"pagetide_refaults_total{tenant="/web/a",type="anon"}"#;
    wait::until("what came back is told", SOON, || {
        value(&place, refaults) >= 0.98 * steals
    });
    let stat = tree.line("web/a/memory.stat", "workingset_refault_anon");
    wait::until("as in its files", SOON, || {
        value(&place, refaults) >= float(stat)
    });
    assert!(
        value(
            &place,
            r#"pagetide_pressure_seconds_total{tenant="/web/a",share="some"}"#
        ) > 0.0
    );
    assert!(value(&place, "pagetide_walk_seconds_count") > 2.0);

    shares_are_a_whole(&tree, &place);
}

/// Processor time is shared out as a whole.
fn shares_are_a_whole(tree: &Tree, place: &Place) {
    let told = samples(&place.get("/metrics").body);
    let cpu = told
        .iter()
        .filter(|(name, _)| name.starts_with("pagetide_overhead_cpu"));
    let cpu: f64 = cpu.map(|(_, seconds)| seconds).sum();
    let kernels = proc::processor_seconds(tree.pid()).expect("it runs");
    assert!(cpu > 0.0 && cpu <= kernels + 0.02, "{cpu} s of {kernels}");
}
