//! `pagetide serve` abused: by programs that fork and end at any moment, and by who asks for much and wants it no more.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use e2e::guard::{Run, Running};
use e2e::page_cache::{self, read_by};
use e2e::sleeper::Sleeper;
use e2e::temp::{TempDir, serial};
use e2e::tenants::Tree;
use e2e::zram::Swap;
use e2e::{pagetide, proc, programs, wait};
use rustix::process::Signal;
use serde_json::Value;

const MIB: u64 = 1 << 20;
const SOON: Duration = Duration::from_secs(60);
const TRY_AGAIN: i32 = 11;

/// Its memory, bytes.
fn resident(tree: &Tree) -> u64 {
    proc::number(tree.pid(), "VmRSS").unwrap_or(0)
}

/// Its descriptors, but for the files of claims: each of these is opened at the first process that is claimed there.
fn open_files(tree: &Tree) -> usize {
    let open = std::fs::read_dir(format!("/proc/{}/fd", tree.pid())).expect("it runs");
    let links = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let others = links.filter(|link| !link.starts_with("/run/pagetide/claims"));
    others.count()
}

/// What it says is of what it was asked for, a line at most each, and how it began; not of everybody who has gone. It complains of nothing.
fn says_little(tree: &Tree, asked: usize) {
    let (said, complained) = (tree.said(), tree.complained());
    assert!(complained.is_empty(), "{complained}");
    assert!(said.lines().count() <= asked + 5, "{said}");
}

fn pids(tree: &Tree, tenant: &str) -> Vec<u32> {
    let text = tree.read(&format!("{tenant}/cgroup.procs"));
    text.lines().filter_map(|pid| pid.parse().ok()).collect()
}

/// 500 processes at once, then none, three times: all are of their tenant, and nothing of them is left.
#[test]
fn a_fork_bomb_stays_in_its_tenant() {
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "500ms"]);
    tree.make("bomb");
    tree.make("kept");
    let kept = Sleeper::start(tree.inside("kept"), 16);
    let script = "n=0; while [ $n -lt 500 ]; do sleep 60 & n=$((n+1)); done; echo all; wait";
    let mut before = 0;
    for round in 0..3 {
        let words = ["sh", "-c", script].map(str::to_owned);
        let bomb = Run::new(tree.inside("bomb").into_iter().chain(words)).start();
        wait::until("all have begun", SOON, || bomb.stdout().contains("all"));
        assert_eq!(pids(&tree, "bomb").len(), 501);
        let told = || {
            let words = ["report", "/bomb", "--json", "--root", tree.root()];
            let outcome = pagetide::command(words).finish(SOON);
            let report: Value = serde_json::from_str(&outcome.stdout).unwrap_or_default();
            report["processes"].as_array().map_or(0, Vec::len)
        };
        wait::until("all are told", SOON, || told() == 501);
        tree.try_write("bomb/memory.reclaim", "8m").ok();
        for pid in pids(&tree, "bomb") {
            e2e::guard::send(pid, Signal::KILL);
        }
        wait::until("none is left", SOON, || pids(&tree, "bomb").is_empty());
        wait::until("none is told", SOON, || told() == 0);
        if round == 0 {
            before = resident(&tree);
        }
    }
    let grown = resident(&tree).saturating_sub(before);
    assert!(grown < 8 * MIB, "grew by {grown} bytes");
    std::fs::remove_dir(tree.at("bomb")).expect("nobody is in it");
    let _ = kept.touch();
}

/// MiB that take longer to leave than those who ask below wait.
const MUCH: u64 = 768;

/// A tenant `a` with so much.
fn large() -> (Tree, Sleeper) {
    let tree = Tree::serve(&[]);
    tree.make("a");
    let sleeper = Sleeper::start(tree.inside("a"), MUCH);
    (tree, sleeper)
}

/// (The story: who wrote to memory.reclaim slept until all was done, whatever signal it got: the kernel had been told that it cannot be
/// interrupted.)
#[test]
fn who_asks_for_much_can_be_interrupted() {
    let _serial = serial();
    let _swap = Swap::shared();
    let (tree, _sleeper) = large();
    let file = tree.at("a/memory.reclaim").to_string_lossy().into_owned();
    let script = format!("echo 100g > {file}");
    // So soon that it cannot be over, however fast memory leaves here.
    let words = ["timeout", "0.05", "sh", "-c", &script];
    let ended = Run::new(words).finish(SOON);
    assert_eq!(ended.status.code(), Some(124), "{}", ended.stderr);
    let left = tree.number("a/memory.current");
    assert!(left > MUCH / 8 * MIB, "{left}");
    // What was asked for is over, and the next is answered: with less than it asked for, where the first had not looked yet.
    wait::until("the next gets what it asks for", SOON, || {
        tree.try_write("a/memory.reclaim", "1m") == Ok(())
    });
}

/// (The story: the command was gone, and `serve` went on to the last page.)
#[test]
fn a_command_that_is_interrupted_stops_what_it_asked_for() {
    let _serial = serial();
    let _swap = Swap::shared();
    let (tree, _sleeper) = large();
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
    // A batch may be under way.
    let mut left = 0;
    wait::until("nothing more leaves", SOON, || {
        let before = std::mem::replace(&mut left, tree.number("a/memory.current"));
        std::thread::sleep(Duration::from_millis(500));
        before == left
    });
    assert!(left > MUCH / 8 * MIB, "{left}");
}

/// (The story: page cache that goes first went in one step: nobody was answered meanwhile, and who had asked could not be interrupted.)
#[test]
fn who_asks_for_much_page_cache_can_be_interrupted_and_holds_nobody_up() {
    const MUCH: usize = 1024;
    let _serial = serial();
    let folder = TempDir::new();
    let file = page_cache::file(&folder, MUCH);
    let tree = Tree::serve(&["--age-every", "1s"]);
    ["a", "b"].iter().for_each(|name| tree.make(name));
    tree.write("node0/workingset_report/page_age_intervals", "2000");
    tree.write("a/memory.workingset.refresh_interval", "N0=500");
    // All may have gone before the signal came, on a busy machine: that says nothing, and it is tried again.
    assert!((0..4).any(|_| is_cut_short(&tree, &file, MUCH as u64 * MIB)));
    // What was asked for is over, and the next is answered.
    assert_eq!(tree.try_write("b/memory.reclaim", "1m"), Err(TRY_AGAIN));
}

/// Whether some of so much page cache of `a` is left when who has asked for all of it is interrupted; others are answered meanwhile.
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
        // As soon as that may be: the kernel drops a GiB in 30 to 150 ms.
        let words = ["timeout", "0.008", "sh", "-c", &script];
        let ended = Run::new(words).finish(SOON);
        is_done.store(true, Ordering::Relaxed);
        let left = tree.number("a/memory.current");
        // Who could not be interrupted would have been waited for until all was gone.
        let is_interrupted = ended.status.code() == Some(124);
        let is_cut_short = !is_interrupted || left > 8 * MIB;
        (asks.join().expect("it was answered"), is_cut_short)
    });
    assert!(answers > 1, "{answers} answers");
    is_cut_short
}

/// A sleeper of 4 MiB with this number, which nobody has any more.
struct Again(Running, u32);

impl Again {
    fn start(pid: u32) -> Again {
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
        Again(running, pid)
    }

    /// It has every byte.
    fn check(&self) {
        let lines = || self.0.stdout().lines().count();
        let before = lines();
        e2e::guard::send(self.1, Signal::USR1);
        wait::until("it has touched its memory", SOON, || lines() > before);
    }
}

/// Processes that end while they are walked, reclaimed, moved and limited; others begin at once with their numbers. Nothing of the former is
/// done to these, nothing of either is left, and nobody is told of each.
#[test]
fn who_ends_at_any_moment_leaves_nothing() {
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "100ms"]);
    ["a", "b"].iter().for_each(|name| tree.make(name));
    let mut before = 0;
    for number in 0..30u64 {
        let one = Sleeper::start(tree.inside("a"), 16);
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
        let next = Again::start(pid);
        std::thread::sleep(Duration::from_millis(120));
        assert_eq!(proc::number(pid, "VmSwap"), Some(0), "round {number}");
        for tenant in ["a", "b"] {
            assert!(!pids(&tree, tenant).contains(&pid), "round {number}");
        }
        next.check();
        tree.write("a/memory.max", "max");
        // What it opens at its first looks stays open.
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
    says_little(&tree, 30);
}
