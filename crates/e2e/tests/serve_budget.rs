//! A tenant whose scans are dear is scanned rarely, and the ages of all others are on time.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use e2e::guard::{Run, Running};
use e2e::temp::serial;
use e2e::tenants::Tree;
use e2e::wait;
use e2e::{pagetide, programs};
use rustix::process::Signal;

const MIB: u64 = 1 << 20;
/// Dear tenants, and page tables of each: a scan of one takes some 100 ms of a processor or more.
const DEAR: usize = 8;
const TABLES: &str = "8000";
/// The plain tenant's memory.
const PLAIN_MIB: u64 = 32;
/// The interval is a second; beside busy loops a scan takes several times as long.
const ON_TIME: Duration = Duration::from_secs(6);
const LIMIT: Duration = Duration::from_secs(60);

fn start(tree: &Tree, tenant: &str, pages: &str, stride_kib: &str) -> Running {
    tree.make(tenant);
    let mut argv = tree.inside(tenant);
    argv.extend([
        programs::c("tables"),
        pages.to_owned(),
        stride_kib.to_owned(),
    ]);
    Run::new(argv).start()
}

/// Regression: eight tenants with a page in each of 30,000 tables made scans of all rarer, and what a small tenant beside them had
/// used was not known for 10 to 22 s.
#[test]
fn tenants_that_are_dear_to_scan_are_late_and_others_are_not() {
    let _serial = serial();
    let tree = Tree::serve(&["--age-every", "1s"]);
    let edges = "node0/workingset_report/page_age_intervals";
    tree.write(edges, "2000,5000,10000,60000");
    let pages = (PLAIN_MIB * MIB / 4096).to_string();
    let plain = start(&tree, "plain", &pages, "4");
    tree.write("plain/memory.workingset.refresh_interval", "N0=1000");
    let names: Vec<String> = (0..DEAR).map(|number| format!("dear{number}")).collect();
    let dear: Vec<Running> = names
        .iter()
        .map(|name| start(&tree, name, TABLES, "2048"))
        .collect();
    wait::until("dear tenants are late", LIMIT, || {
        names
            .iter()
            .all(|name| tree.said().contains(&format!("/{name}: scans are rarer")))
    });
    for _ in 0..3 {
        plain.signal(Signal::STOP);
        wait::until("what is not used grows old", LIMIT, || {
            tree.youngest("plain") < MIB
        });
        plain.signal(Signal::CONT);
        let begin = Instant::now();
        wait::until("what is used is young", LIMIT, || {
            tree.youngest("plain") > PLAIN_MIB * MIB / 2
        });
        let took = begin.elapsed();
        assert!(took < ON_TIME, "known after {took:?}");
    }
    let said = tree.said();
    assert!(!said.contains("/plain: scans are rarer"), "{said}");
    wait::until("its report says so", LIMIT, || {
        let words = ["report", "/dear0", "--root", tree.root()];
        let report = pagetide::command(words).finish(LIMIT).stdout;
        report.contains("ages are as of the last one")
    });
    drop((plain, dear));
}
