//! What tenants wait for: `memory.pressure`; what becomes of `memory.soft_limit`; that swap is full.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use e2e::guard::Run;
use e2e::programs;
use e2e::sleeper::Sleeper;
use e2e::temp::{TempDir, serial};
use e2e::tenants::{Tree, gives_what_is_cold, known};
use e2e::wait;
use e2e::zram::Swap;

const MIB: u64 = 1 << 20;
const SOON: Duration = Duration::from_secs(180);

/// Microseconds of its first line.
fn total(text: &str) -> u64 {
    let first = text.lines().next().unwrap_or_default();
    assert!(first.starts_with("some avg10="), "{text:?}");
    let total = first.rsplit("total=").next();
    total
        .and_then(|total| total.parse().ok())
        .expect("a number")
}

/// Version 1 tells no pressure of a group; `memory.pressure` was refused there.
#[test]
fn who_waits_for_swap_is_under_pressure() {
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "500ms"]);
    for name in ["waits", "idle", "waits/below"] {
        tree.make(name);
    }
    let begin = Instant::now();
    for name in ["waits", "idle", "."] {
        assert_eq!(total(&tree.read(&format!("{name}/memory.pressure"))), 0);
    }
    let waits = known(&tree, "waits/below", 64);
    let idle = known(&tree, "idle", 16);
    tree.write("waits/memory.reclaim", "48m");
    // (A page may come back meanwhile, of those that lie about the program: once 3 us were told.)
    let only_out = total(&tree.read("waits/memory.pressure"));
    let _ = waits.touch();
    // The kernel sums its counters every two seconds.
    wait::until("it has waited", SOON, || {
        total(&tree.read("waits/memory.pressure")) > 100 * only_out
    });
    let waited = total(&tree.read("waits/memory.pressure"));
    assert!(u128::from(waited) < begin.elapsed().as_micros());
    assert!(!tree.read("waits/memory.pressure").contains("avg10=0.00"));
    assert_eq!(total(&tree.read("idle/memory.pressure")), 0);
    assert!(total(&tree.read("memory.pressure")) > 0, "the root's");
    let _ = idle.touch();
}

/// The story: swap filled up in the second week; policies and limits had no effect any more, and nobody was told.
#[test]
fn that_swap_is_full_is_said() {
    let _serial = serial();
    let _swap = Swap::new(8);
    let folder = TempDir::new();
    let file = gives_what_is_cold(&folder);
    let tree = Tree::serve(&["--config", &file]);
    tree.make("a");
    let _idle = Sleeper::start(tree.inside("a"), 64);
    wait::until("it is said", SOON, || {
        tree.said().contains("/a keeps its pages: no free swap")
    });
    // It is tried again and again, and said once a minute.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(tree.said().matches("no free swap").count(), 1);
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

/// The story: clearing the bits of a program of 1 GiB would have held it up for longer than it may be, so they stayed set, and all of its pages were
/// in use for ever. Where no wall is (`memory.high` on version 1, the host's lack of memory) it gave nothing.
#[test]
fn who_is_too_large_for_its_bits_to_be_cleared_gives_too() {
    const ALL: u64 = 1024;
    let _serial = serial();
    let _swap = Swap::shared();
    // Nobody may be held up for longer than 5 ms at this interval, which is some 80,000 pages. Here are 262,144, a tenth of which is used.
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
