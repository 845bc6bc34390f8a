//! If the scans of one tenant are costly, only that tenant is scanned rarely, and the ages of all
//! others are on time. If pagetide's own memory is limited, only the largest processes of the
//! largest tenants are not read.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use e2e::guard::{Run, Running};
use e2e::temp::serial;
use e2e::tenants::Tree;
use e2e::wait;
use e2e::{pagetide, programs};
use rustix::process::Signal;

const MIB: u64 = 1 << 20;
/// Number of costly tenants.
const COSTLY_TENANTS: usize = 8;
/// Number of page tables of each costly tenant, with one page in each: a scan of one tenant takes
/// some 10 ms of a processor.
const TABLES: &str = "8000";
/// Share of a processor for scans: the costly tenants exceed it also on a fast and idle machine.
/// (With the default, 10%, they did not on one.)
const BUDGET: &str = "2%";
/// Memory of the tenant that is cheap to scan, MiB.
const PLAIN_MIB: u64 = 32;
/// Longest accepted time until a use is known: the interval is 1 s, and beside busy loops a scan
/// takes several times as long.
const ON_TIME: Duration = Duration::from_secs(6);
const LIMIT: Duration = Duration::from_secs(60);

/// Makes a tenant and starts a program in it that touches `pages` pages, `stride_kib` KiB apart.
fn start(tree: &Tree, tenant: &str, pages: &str, stride_kib: &str) -> Running {
    tree.make(tenant);
    start_in(tree, tenant, pages, stride_kib)
}

/// Starts one more program in an existing tenant.
fn start_in(tree: &Tree, tenant: &str, pages: &str, stride_kib: &str) -> Running {
    let mut argv = tree.inside(tenant);
    argv.extend([
        programs::c("tables"),
        pages.to_owned(),
        stride_kib.to_owned(),
    ]);
    Run::new(argv).start()
}

/// Regression: eight tenants with one page in each of 30,000 page tables made all scans rarer.
/// Accesses of a small tenant beside them were known only after 10 to 22 s.
#[test]
fn tenants_that_are_costly_to_scan_do_not_delay_others() {
    let _serial = serial();
    let tree = Tree::serve(&["--age-every", "1s", "--look-budget", BUDGET]);
    let edges = "node0/workingset_report/page_age_intervals";
    tree.write(edges, "2000,5000,10000,60000");
    let pages = (PLAIN_MIB * MIB / 4096).to_string();
    let plain = start(&tree, "plain", &pages, "4");
    tree.write("plain/memory.workingset.refresh_interval", "N0=1000");
    let names: Vec<String> = (0..COSTLY_TENANTS)
        .map(|number| format!("dear{number}"))
        .collect();
    let dear: Vec<Running> = names
        .iter()
        .map(|name| start(&tree, name, TABLES, "2048"))
        .collect();
    wait::until("dear tenants are late", LIMIT, || {
        names.iter().all(|name| {
            tree.stdout()
                .contains(&format!("/{name} is scanned less often"))
        })
    });
    for _ in 0..3 {
        plain.signal(Signal::STOP);
        wait::until("what is not used grows old", LIMIT, || {
            tree.youngest_bytes("plain") < MIB
        });
        plain.signal(Signal::CONT);
        let begin = Instant::now();
        wait::until("what is used is young", LIMIT, || {
            tree.youngest_bytes("plain") > PLAIN_MIB * MIB / 2
        });
        let took = begin.elapsed();
        assert!(took < ON_TIME, "known after {took:?}");
    }
    let said = tree.stdout();
    assert!(!said.contains("/plain is scanned less often"), "{said}");
    wait::until("its report says so", LIMIT, || {
        let words = ["report", "/dear0", "--root", tree.root()];
        let report = pagetide::command(words).finish(LIMIT).stdout;
        report.contains("ages are as of the last one")
    });
    drop((plain, dear));
}

/// Starts a program with `mib` MiB of adjacent pages in a tenant.
fn start_dense(tree: &Tree, tenant: &str, mib: u64) -> Running {
    start_in(tree, tenant, &(mib * MIB / 4096).to_string(), "4")
}

/// Regression: with a tenant of 641 MiB, a `serve` that was allowed 300 MiB was killed within three
/// seconds. Now the memory for ages is limited, and each tenant has a fair share of it: of a larger
/// tenant only some ages are known, and its report says how much has unknown ages.
#[test]
fn tenants_too_large_for_pagetides_own_memory_are_known_in_part() {
    let _serial = serial();
    // 1 MiB is enough for the ages of about 42,000 pages, 164 MiB.
    let tree = Tree::serve(&["--age-every", "1s", "--own-memory", "1M"]);
    let edges = "node0/workingset_report/page_age_intervals";
    tree.write(edges, "2000,5000,10000,60000");
    for name in ["small", "big"] {
        tree.make(name);
        let refresh = format!("{name}/memory.workingset.refresh_interval");
        tree.write(&refresh, "N0=1000");
    }
    let running = [
        start_dense(&tree, "small", 32),
        start_dense(&tree, "big", 64),
    ];
    let is_young = |tenant: &str, mib: u64| tree.youngest_bytes(tenant) > mib * MIB * 9 / 10;
    wait::until("both are known", LIMIT, || {
        is_young("small", 32) && is_young("big", 64)
    });
    let report = || -> serde_json::Value {
        let report = pagetide::command(["report", "/big", "--root", tree.root(), "--json"]);
        serde_json::from_str(&report.finish(LIMIT).stdout).expect("JSON")
    };
    let needs = || report()["needed"]["bytes"].as_u64();
    wait::until("its need is known", LIMIT, || needs().is_some());
    let large = start_dense(&tree, "big", 256);
    let says = || {
        let said = tree.stdout();
        let line = said.lines().find(|line| line.contains("are not read"));
        line.map(str::to_owned)
    };
    wait::until("it is said", LIMIT, || says().is_some());
    let line = says().expect("it was said");
    assert!(line.contains("/big: 1 of its processes, 25"), "{line}");
    assert!(is_young("small", 32) && is_young("big", 64) && !is_young("big", 128));
    let report = report();
    let unknown = report["unknown_age_bytes"].as_u64().expect("a number");
    assert!((256 * MIB..270 * MIB).contains(&unknown), "{unknown}");
    assert!(
        report["unknown_because"]
            .to_string()
            .contains("own memory is limited")
    );
    // The needed size counts all pages of unknown age, as they may be in use.
    wait::until("its need counts all of it", LIMIT, || {
        needs().is_some_and(|bytes| bytes > 300 * MIB)
    });
    large.signal(Signal::KILL);
    drop(large);
    let other = start_dense(&tree, "big", 48);
    wait::until("there is room again", LIMIT, || is_young("big", 112));
    drop((running, other));
}
