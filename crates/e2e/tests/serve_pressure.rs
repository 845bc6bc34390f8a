//! Time for which tenants wait for memory, in `memory.pressure`; that `memory.soft_limit` is
//! stored; that full swap is reported.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use e2e::guard::Run;
use e2e::idle_program::IdleProgram;
use e2e::programs;
use e2e::temp::{TempDir, serial};
use e2e::tenants::{Tree, configuration_reclaiming_cold, start_scanned};
use e2e::wait;
use e2e::zram::Swap;

const MIB: u64 = 1 << 20;
const SOON: Duration = Duration::from_secs(180);

/// The `total` in the first line of a pressure file, microseconds.
fn total_us(text: &str) -> u64 {
    let first = text.lines().next().unwrap_or_default();
    assert!(first.starts_with("some avg10="), "{text:?}");
    let total = first.rsplit("total=").next();
    total
        .and_then(|total| total.parse().ok())
        .expect("a number")
}

/// Regression: the kernel has no pressure of a single group on version 1, and reads of
/// `memory.pressure` failed there.
#[test]
fn a_tenant_that_waits_for_swap_is_under_pressure() {
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "500ms"]);
    for name in ["waits", "idle", "waits/below"] {
        tree.make(name);
    }
    let begin = Instant::now();
    for name in ["waits", "idle", "."] {
        assert_eq!(total_us(&tree.read(&format!("{name}/memory.pressure"))), 0);
    }
    let waits = start_scanned(&tree, "waits/below", 64);
    let idle = start_scanned(&tree, "idle", 16);
    tree.write("waits/memory.reclaim", "48m");
    // (A page may be swapped in meanwhile: once a wait of 3 us was counted.)
    let only_out = total_us(&tree.read("waits/memory.pressure"));
    let _ = waits.touch();
    // The kernel sums its counters every two seconds.
    wait::until("it has waited", SOON, || {
        total_us(&tree.read("waits/memory.pressure")) > 100 * only_out
    });
    let waited = total_us(&tree.read("waits/memory.pressure"));
    assert!(u128::from(waited) < begin.elapsed().as_micros());
    assert!(!tree.read("waits/memory.pressure").contains("avg10=0.00"));
    assert_eq!(total_us(&tree.read("idle/memory.pressure")), 0);
    assert!(total_us(&tree.read("memory.pressure")) > 0, "the root's");
    let _ = idle.touch();
}

/// Regression: swap was full after two weeks. Policies and limits had no effect any more, and no
/// message said so.
#[test]
fn full_swap_is_reported() {
    let _serial = serial();
    let _swap = Swap::new(8);
    let folder = TempDir::new();
    let file = configuration_reclaiming_cold(&folder);
    let tree = Tree::serve(&["--config", &file]);
    tree.make("a");
    let _idle = IdleProgram::start(tree.inside("a"), 64);
    wait::until("it is said", SOON, || {
        tree.stdout().contains("/a is not paged out: no free swap")
    });
    // `serve` retries again and again, but reports that only once a minute.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(tree.stdout().matches("no free swap").count(), 1);
}

#[test]
fn a_soft_limit_is_kept_and_refused_as_others_are() {
    let _serial = serial();
    let mut tree = Tree::serve(&[]);
    tree.make("a");
    assert_eq!(tree.read("a/memory.soft_limit"), "max\n");
    assert!(!tree.at("memory.soft_limit").exists(), "of the root");
    tree.write("a/memory.soft_limit", "16m");
    tree.write("a/memory.low", "4m");
    assert_eq!(tree.try_write("a/memory.soft_limit", "much"), Err(22));
    tree.kill();
    tree.start();
    assert_eq!(tree.number("a/memory.soft_limit"), 16 * MIB);
    assert_eq!(tree.number("a/memory.low"), 4 * MIB);
}

/// Regression: clearing the accessed bits of a program of 1 GiB would have delayed it longer than
/// allowed, so they stayed set, and all of its pages counted as in use for ever. Where only
/// pagetide enforces a limit (`memory.high` on version 1) or the host lacks memory, nothing was
/// reclaimed.
#[test]
fn a_program_too_large_for_clearing_its_bits_is_reclaimed_from() {
    const ALL: u64 = 1024;
    let _serial = serial();
    let _swap = Swap::shared();
    // At this interval clearing may delay a process by 5 ms, enough for about 80,000 pages. This
    // program has 262,144 pages, and uses a tenth.
    let tree = Tree::serve(&["--age-every", "250ms"]);
    tree.make("a");
    let (toucher, all) = (programs::c("toucher"), ALL.to_string());
    let words = [&toucher, "--mib", &all, "--seconds", "600", "hot"];
    let mut busy = Run::new(words).under(tree.inside("a")).start();
    wait::until("it has filled its memory", SOON, || {
        tree.number("a/memory.current") >= ALL * MIB
    });
    tree.write("a/memory.high", "192m");
    wait::until("it is held", SOON, || {
        tree.number("a/memory.current") <= 200 * MIB
    });
    assert!(busy.ended().is_none());
    busy.kill_and_reap();
}
