//! Memory that a program says it reads in order or at random (MADV_SEQUENTIAL, MADV_RANDOM) leaves before memory that is used
//! as much: its accesses say nothing of the next ones.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::guard::{Run, Running};
use e2e::programs;
use e2e::temp::serial;
use e2e::tenants::Tree;
use e2e::wait;
use e2e::zram::Swap;
use rustix::process::Signal;

const MIB: u64 = 1 << 20;
const SOON: Duration = Duration::from_secs(60);
/// Of each of its two areas.
const AREA: u64 = 48;

/// The program, and where its areas begin.
fn started(prefix: Vec<String>) -> (Running, [u64; 2]) {
    let own = [
        "python3".to_owned(),
        programs::source("advised.py"),
        AREA.to_string(),
    ];
    let running = Run::new(prefix.into_iter().chain(own)).start();
    wait::until("it has written all twice", SOON, || {
        running.stdout().contains("ready")
    });
    let text = running.stdout();
    let mut places = text.split_whitespace().skip(1).map(|word| {
        let hex = word.trim_start_matches("0x");
        u64::from_str_radix(hex, 16).expect("an address")
    });
    let mut next = || places.next().expect("two areas");
    let places = [next(), next()];
    (running, places)
}

/// What the kernel has in swap of the mapping at this address.
fn swapped(pid: u32, start: u64) -> u64 {
    let smaps = std::fs::read_to_string(format!("/proc/{pid}/smaps")).expect("it runs");
    let mut is_it = false;
    for line in smaps.lines() {
        if let Some((first, last)) = line.split(' ').next().and_then(|word| word.split_once('-')) {
            let hex = |text| u64::from_str_radix(text, 16).unwrap_or(0);
            is_it = (hex(first)..hex(last)).contains(&start);
        }
        if let Some(rest) = line.strip_prefix("Swap:").filter(|_| is_it) {
            let kib = rest.trim().trim_end_matches(" kB").parse::<u64>();
            return kib.expect("a number") * 1024;
        }
    }
    panic!("no mapping at {start:x}");
}

#[test]
fn what_is_read_in_order_leaves_before_what_is_used_as_much() {
    let _serial = serial();
    let _swap = Swap::new(512);
    let tree = Tree::serve(&["--age-every", "500ms"]);
    tree.make("a");
    let (running, [advised, plain]) = started(tree.inside("a"));
    let pid = running.pid();
    wait::until("its pages are known", SOON, || {
        tree.line("a/memory.stat", "anon") >= 2 * AREA * MIB
    });
    // Some looks, each of which finds all of both accessed.
    std::thread::sleep(Duration::from_secs(3));
    running.signal(Signal::STOP);
    tree.write("a/memory.reclaim", "32m");
    let out = [advised, plain].map(|start| swapped(pid, start));
    running.signal(Signal::CONT);
    // The rest of the 32 MiB is the interpreter's own, which is idle: older than either.
    assert!(
        out[0] >= 16 * MIB && out[1] <= MIB,
        "{out:?} of {AREA} MiB each"
    );
}
