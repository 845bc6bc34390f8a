//! `pagetide serve --listen`: the figures of tenants agree with the kernel's.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::idle_program::IdleProgram;
use e2e::temp::{TempDir, serial};
use e2e::tenants::{Tree, start_scanned};
use e2e::web::{ListenAddress, float, listening, samples, value};
use e2e::zram::Swap;
use e2e::{proc, wait};

const SOON: Duration = Duration::from_secs(60);

/// Each counter exists for a tenant alone, and with all tenants below it. A parent's own value plus
/// its children's equals its total, for resident, paged-out and refaulted pages. The size of a
/// tenant on a NUMA node is the kernel's, too.
#[test]
fn figures_of_a_tenant_and_its_children_sum_up() {
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "500ms"]);
    ["web", "web/a", "web/b"]
        .iter()
        .for_each(|name| tree.make(name));
    let all = [("web", 32), ("web/a", 48), ("web/b", 16)]
        .map(|(name, mib)| (name, start_scanned(&tree, name, mib)));
    for (name, size) in [("web/a", "24m"), ("web/b", "8m")] {
        tree.write(&format!("{name}/memory.reclaim"), size);
    }
    tree.write("web/memory.reclaim", "16m");
    let _ = all[1].1.touch();
    let names = [
        "anon",
        "pgsteal",
        "pgsteal_proactive",
        "workingset_refault_anon",
    ];
    let of = |file: &str| names.map(|name| tree.line(file, name));
    wait::until("what came back is seen", SOON, || {
        of("web/a/memory.stat")[3] * 4096 >= 24 << 20
    });
    let [own, whole] = ["web/memory.stat.local", "web/memory.stat"].map(of);
    let below = ["web/a/memory.stat", "web/b/memory.stat"].map(of);
    for (at, name) in names.into_iter().enumerate() {
        let sum = own[at] + below[0][at] + below[1][at];
        assert!(
            whole[at] == sum && sum > 0,
            "{name}: {} of {sum}",
            whole[at]
        );
        assert_eq!(
            of("web/a/memory.stat.local")[at],
            below[0][at],
            "{name}: it has none below"
        );
    }
    let out: u64 = all.iter().map(|(_, one)| one.status("VmSwap")).sum();
    let stolen = (whole[1] - whole[3]) * 4096;
    assert!(
        stolen.abs_diff(out) * 50 <= out,
        "{stolen} left for good, of {out} in swap"
    );
    // The sizes are compared one scan later, as all pages of a tenant have just been swapped in.
    let on_node = || {
        all.each_ref().map(|(name, _)| {
            let reported = tree.read(&format!("{name}/memory.numa_stat"));
            let anon = reported
                .lines()
                .find_map(|line| line.strip_prefix("anon N0="));
            let anon = anon.and_then(|bytes| bytes.trim().parse::<u64>().ok());
            let those = all.iter().filter(|(at, _)| at.starts_with(name));
            let kernels: u64 = those.map(|(_, one)| one.status("RssAnon")).sum();
            (anon.expect("a number"), kernels)
        })
    };
    let same = wait::poll(SOON, || {
        let is = |(reported, kernels): (u64, u64)| reported.abs_diff(kernels) * 50 <= kernels;
        on_node().into_iter().all(is).then_some(())
    });
    assert!(
        same.is_some(),
        "told of the node, and the kernel's: {:?} in {:?}",
        on_node(),
        all.each_ref().map(|(name, _)| name)
    );
}

/// Every figure of a tenant is the sum over its processes: resident, by age, and in swap.
#[test]
fn figures_are_those_of_the_kernel() {
    let _serial = serial();
    let _swap = Swap::shared();
    let folder = TempDir::new();
    let (tree, place) = listening(&folder, &["--age-every", "500ms"]);
    tree.make("web");
    tree.make("web/a");
    let idle_program = IdleProgram::start(tree.inside("web/a"), 64);
    let anon = |tenant: &str| {
        value(
            &place,
            &format!(r#"pagetide_resident_bytes{{tenant="{tenant}",node="0",type="anon"}}"#),
        )
    };
    wait::until("it is seen", SOON, || {
        let rss = float(idle_program.status("RssAnon"));
        rss > 64e6 && (anon("/web/a") - rss).abs() < 0.02 * rss
    });
    // The figures of a parent include all tenants below it.
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
        let out = float(idle_program.status("VmSwap"));
        out > 32e6 && (value(&place, swapped) - out).abs() < 0.02 * out
    });
    let steals = value(
        &place,
        r#"pagetide_steals_total{tenant="/web",reason="proactive"}"#,
    );
    assert!(steals * 4096.0 >= 32e6, "{steals}");
    let _ = idle_program.touch();
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

    check_cpu_parts(&tree, &place);
}

/// Checks that the parts of processor time sum up to all processor time that `serve` used.
fn check_cpu_parts(tree: &Tree, place: &ListenAddress) {
    let reported = samples(&place.get("/metrics").body);
    let cpu = reported
        .iter()
        .filter(|(name, _)| name.starts_with("pagetide_overhead_cpu"));
    let cpu: f64 = cpu.map(|(_, seconds)| seconds).sum();
    let kernels = proc::processor_seconds(tree.pid()).expect("it runs");
    // The kernel counts hundredths of a second for each process: for `serve` and up to four access
    // workers.
    assert!(cpu > 0.0 && cpu <= kernels + 0.06, "{cpu} s of {kernels}");
}
