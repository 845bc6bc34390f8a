//! Abuse of `pagetide serve`: by programs that fork and end at any moment, and by clients that make
//! large requests and cancel them.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use e2e::guard::{Run, Running};
use e2e::idle_program::IdleProgram;
use e2e::page_cache::{self, read_by};
use e2e::temp::{TempDir, serial};
use e2e::tenants::Tree;
use e2e::zram::Swap;
use e2e::{pagetide, proc, programs, wait};
use rustix::process::Signal;
use serde_json::Value;

const MIB: u64 = 1 << 20;
const SOON: Duration = Duration::from_secs(60);
/// EAGAIN: less was reclaimed than requested.
const TRY_AGAIN: i32 = 11;

/// Bytes of resident memory of `serve`.
fn resident_bytes(tree: &Tree) -> u64 {
    proc::number(tree.pid(), "VmRSS").unwrap_or(0)
}

/// Number of open descriptors of `serve`, without the lock files by which it claims processes: each
/// of these is opened when the first process that needs it is claimed.
fn open_files(tree: &Tree) -> usize {
    let open = std::fs::read_dir(format!("/proc/{}/fd", tree.pid())).expect("it runs");
    let links = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let others = links.filter(|link| !link.starts_with("/run/pagetide/claims"));
    others.count()
}

/// Checks that `serve` printed at most one line for each of `requested` requests and those about
/// its start, nothing about processes that ended, and no complaint.
fn check_prints_little(tree: &Tree, requested: usize) {
    let (said, complained) = (tree.stdout(), tree.stderr());
    assert!(complained.is_empty(), "{complained}");
    assert!(said.lines().count() <= requested + 5, "{said}");
}

/// Pids in the tenant's cgroup.procs.
fn pids(tree: &Tree, tenant: &str) -> Vec<u32> {
    let text = tree.read(&format!("{tenant}/cgroup.procs"));
    text.lines().filter_map(|pid| pid.parse().ok()).collect()
}

/// 500 processes begin at once and then all end, three times. While they run, all are in their
/// tenant; afterwards no process of them is reported, and `serve` uses hardly more memory.
#[test]
fn a_fork_bomb_stays_in_its_tenant() {
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "500ms"]);
    tree.make("bomb");
    tree.make("kept");
    let kept = IdleProgram::start(tree.inside("kept"), 16);
    let script = "n=0; while [ $n -lt 500 ]; do sleep 60 & n=$((n+1)); done; echo all; wait";
    let mut before = 0;
    for round in 0..3 {
        let words = ["sh", "-c", script].map(str::to_owned);
        let bomb = Run::new(tree.inside("bomb").into_iter().chain(words)).start();
        wait::until("all have begun", SOON, || bomb.stdout().contains("all"));
        assert_eq!(pids(&tree, "bomb").len(), 501);
        let reported = || {
            let words = ["report", "/bomb", "--json", "--root", tree.root()];
            let outcome = pagetide::command(words).finish(SOON);
            let report: Value = serde_json::from_str(&outcome.stdout).unwrap_or_default();
            report["processes"].as_array().map_or(0, Vec::len)
        };
        wait::until("all are told", SOON, || reported() == 501);
        tree.try_write("bomb/memory.reclaim", "8m").ok();
        for pid in pids(&tree, "bomb") {
            e2e::guard::send(pid, Signal::KILL);
        }
        wait::until("none is left", SOON, || pids(&tree, "bomb").is_empty());
        wait::until("none is told", SOON, || reported() == 0);
        if round == 0 {
            before = resident_bytes(&tree);
        }
    }
    let grown = resident_bytes(&tree).saturating_sub(before);
    assert!(grown < 8 * MIB, "grew by {grown} bytes");
    std::fs::remove_dir(tree.at("bomb")).expect("nobody is in it");
    let _ = kept.touch();
}

/// Memory of a large program, MiB: paging it out takes longer than the clients in these tests wait.
const LARGE_MIB: u64 = 768;

/// Starts `serve` with a tenant `a`, and a program of `LARGE_MIB` MiB in it.
fn serve_large_program() -> (Tree, IdleProgram) {
    let tree = Tree::serve(&[]);
    tree.make("a");
    let idle_program = IdleProgram::start(tree.inside("a"), LARGE_MIB);
    (tree, idle_program)
}

/// Regression: a process that wrote to memory.reclaim waited until all was reclaimed, whatever
/// signal it got: in the FUSE protocol, `serve` had declared that such a write cannot be
/// interrupted.
#[test]
fn a_large_request_can_be_interrupted() {
    let _serial = serial();
    let _swap = Swap::shared();
    let (tree, _idle_program) = serve_large_program();
    let file = tree.at("a/memory.reclaim").to_string_lossy().into_owned();
    let script = format!("echo 100g > {file}");
    // The client is interrupted so early that its reclaim cannot be over, however fast page-out is.
    let words = ["timeout", "0.05", "sh", "-c", &script];
    let ended = Run::new(words).finish(SOON);
    assert_eq!(ended.status.code(), Some(124), "{}", ended.stderr);
    let left = tree.number("a/memory.current");
    assert!(left > LARGE_MIB / 8 * MIB, "{left}");
    // The first request is cancelled, and the next one is served: only in part, if the tree had not
    // been scanned since.
    wait::until("the next gets what it asks for", SOON, || {
        tree.try_write("a/memory.reclaim", "1m") == Ok(())
    });
}

/// Regression: after the command was interrupted, `serve` went on with its reclaim to the last
/// page.
#[test]
fn an_interrupted_command_stops_its_reclaim() {
    let _serial = serial();
    let _swap = Swap::shared();
    let (tree, _idle_program) = serve_large_program();
    let own = pagetide::binary();
    let words = [
        "timeout",
        "0.15",
        &own,
        "reclaim",
        "/a",
        "--all",
        "--root",
        tree.root(),
    ];
    let ended = Run::new(words).finish(SOON);
    assert_eq!(ended.status.code(), Some(124), "{}", ended.stderr);
    // One batch of pages may still be in progress.
    let mut left = 0;
    wait::until("nothing more leaves", SOON, || {
        let before = std::mem::replace(&mut left, tree.number("a/memory.current"));
        std::thread::sleep(Duration::from_millis(500));
        before == left
    });
    assert!(left > LARGE_MIB / 8 * MIB, "{left}");
}

/// Regression: page cache, which is reclaimed first, was dropped in one uninterruptible call:
/// meanwhile no other client was served, and the writer could not be interrupted.
#[test]
fn a_large_request_for_page_cache_can_be_interrupted_and_delays_no_other() {
    const LARGE_MIB: usize = 1024;
    let _serial = serial();
    let folder = TempDir::new();
    let file = page_cache::file(&folder, LARGE_MIB);
    let tree = Tree::serve(&["--age-every", "1s"]);
    ["a", "b"].iter().for_each(|name| tree.make(name));
    tree.write("node0/workingset_report/page_age_intervals", "2000");
    tree.write("a/memory.workingset.refresh_interval", "N0=500");
    // On a busy machine all may be dropped before the signal comes: such a run proves nothing, and
    // the test tries again.
    assert!((0..4).any(|_| is_cut_short(&tree, &file, LARGE_MIB as u64 * MIB)));
    // The first request is cancelled, and the next is served.
    assert_eq!(tree.try_write("b/memory.reclaim", "1m"), Err(TRY_AGAIN));
}

/// A client requests reclaim of `much` bytes of page cache of tenant `a` and is interrupted; other
/// clients must be served meanwhile. Returns whether some of the page cache remains.
fn is_cut_short(tree: &Tree, file: &str, much: u64) -> bool {
    read_by(tree, "a", file);
    assert!(tree.number("a/memory.current") > much / 8 * 7);
    wait::until("it is old", SOON, || {
        let text = tree.read("a/memory.workingset.page_age");
        let old = text
            .lines()
            .last()
            .and_then(|line| line.rsplit_once("file="));
        old.is_some_and(|(_, bytes)| bytes.parse().unwrap_or(0) > much / 8 * 7)
    });
    let reclaim = tree.at("a/memory.reclaim").to_string_lossy().into_owned();
    let script = format!("echo 2g > {reclaim}");
    let is_done = AtomicBool::new(false);
    let (answers, is_cut_short) = std::thread::scope(|scope| {
        let asks = scope.spawn(|| {
            let mut answers = 0;
            while !is_done.load(Ordering::Relaxed) {
                assert!(tree.read("b/memory.stat").contains("pgsteal"));
                answers += 1;
            }
            answers
        });
        // The signal comes as soon as possible: the kernel drops a GiB in 30 to 150 ms.
        let words = ["timeout", "0.008", "sh", "-c", &script];
        let ended = Run::new(words).finish(SOON);
        is_done.store(true, Ordering::Relaxed);
        let left = tree.number("a/memory.current");
        // If the client could not be interrupted, timeout(1) would have waited until all was
        // dropped.
        let is_interrupted = ended.status.code() == Some(124);
        let is_cut_short = !is_interrupted || left > 8 * MIB;
        (asks.join().expect("it was answered"), is_cut_short)
    });
    assert!(answers > 1, "{answers} answers");
    is_cut_short
}

/// A running program of 4 MiB, and its pid, which was that of a process that has ended.
struct ReusedPid(Running, u32);

impl ReusedPid {
    fn start(pid: u32) -> ReusedPid {
        let words = [
            programs::c("with_pid"),
            pid.to_string(),
            programs::c("sleeper"),
            "4".to_owned(),
        ];
        let mut running = Run::new(words).start();
        wait::until("it is filled", SOON, || {
            assert!(running.ended().is_none(), "{}", running.stderr());
            running.stdout().contains("ready")
        });
        assert_eq!(proc::comm(pid).as_deref(), Some("sleeper"));
        ReusedPid(running, pid)
    }

    /// Checks that every byte of the program's memory is right.
    fn check(&self) {
        let lines = || self.0.stdout().lines().count();
        let before = lines();
        e2e::guard::send(self.1, Signal::USR1);
        wait::until("it has touched its memory", SOON, || lines() > before);
    }
}

/// Processes end while they are walked, reclaimed from, moved and limited, and new processes get
/// their pids at once. Nothing meant for an ended process is done to the new one, nothing of either
/// remains in `serve`, and there is not a message for each.
#[test]
fn processes_that_end_at_any_moment_leave_nothing_behind() {
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "100ms"]);
    ["a", "b"].iter().for_each(|name| tree.make(name));
    let mut before = 0;
    for number in 0..30u64 {
        let one = IdleProgram::start(tree.inside("a"), 16);
        let pid = one.pid();
        std::thread::scope(|scope| {
            scope.spawn(|| match number % 3 {
                0 => tree.try_write("a/memory.reclaim", "12m").ok(),
                1 => tree.try_write("b/cgroup.procs", &pid.to_string()).ok(),
                _ => tree.try_write("a/memory.max", "8m").ok(),
            });
            std::thread::sleep(Duration::from_micros(number * 1500));
            e2e::guard::send(pid, Signal::KILL);
        });
        drop(one);
        let next = ReusedPid::start(pid);
        std::thread::sleep(Duration::from_millis(120));
        assert_eq!(proc::number(pid, "VmSwap"), Some(0), "round {number}");
        for tenant in ["a", "b"] {
            assert!(!pids(&tree, tenant).contains(&pid), "round {number}");
        }
        next.check();
        tree.write("a/memory.max", "max");
        // Descriptors that `serve` opens at its first scans stay open, so they are counted before.
        if number == 2 {
            drop(next);
            before = open_files(&tree);
        }
    }
    wait::until("nothing of them is open", SOON, || {
        open_files(&tree) <= before
    });
    wait::until("nothing of them is told", SOON, || {
        tree.line("memory.stat", "anon") < MIB
    });
    check_prints_little(&tree, 30);
}
