//! Targets and moments that no orderly test has: a frozen group, swap that is full before all is out, an id that is
//! used again. Each goes on, or stays as it was, and nothing of ours hangs.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use e2e::guard::Run;
use e2e::sleeper::Sleeper;
use e2e::temp::{TempDir, serial};
use e2e::zram::{self, Swap};
use e2e::{pagetide, programs, wait};

const LIMIT: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;

/// Bytes of it that are out, by the kernel.
fn swapped(sleeper: &Sleeper) -> u64 {
    sleeper.status("VmSwap")
}

/// A group of the v1 freezer, thawed, emptied and removed in `Drop`. (The story: a failed test waited for ever for
/// whom it had killed, as nobody dies frozen.) So it is declared after who is in it.
struct Freezer(PathBuf);

impl Freezer {
    fn new() -> Freezer {
        let name = format!("pagetide-e2e-{}", std::process::id());
        let path = Path::new("/sys/fs/cgroup/freezer").join(name);
        std::fs::create_dir(&path).expect("root can make a group of the freezer");
        Freezer(path)
    }

    fn enter(&self, pid: u32) {
        std::fs::write(self.0.join("cgroup.procs"), pid.to_string()).expect("it may be moved");
    }

    fn set(&self, state: &str) {
        let file = self.0.join("freezer.state");
        std::fs::write(&file, state).expect("a state");
        let is_there = || std::fs::read_to_string(&file).is_ok_and(|now| now.trim() == state);
        wait::until(state, LIMIT, is_there);
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.join("freezer.state"), "THAWED");
        let pids = std::fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        for pid in pids.lines() {
            let _ = std::fs::write("/sys/fs/cgroup/freezer/cgroup.procs", pid);
        }
        let _ = wait::poll(LIMIT, || std::fs::remove_dir(&self.0).ok());
    }
}

#[test]
fn a_frozen_group_is_looked_at_and_parked() {
    let _serial = serial();
    let _swap = Swap::new(256);
    let running = Sleeper::start([], 96);
    let freezer = Freezer::new();
    freezer.enter(running.pid());
    freezer.set("FROZEN");
    let pid = running.pid().to_string();
    let report = pagetide::command(["report", &pid, "--for", "2s", "--json"]).finish(LIMIT);
    assert_eq!(report.status.code(), Some(0), "{}", report.stderr);
    let reclaim = pagetide::command(["reclaim", &pid, "--all"]).finish(LIMIT);
    assert_eq!(reclaim.status.code(), Some(0), "{}", reclaim.stderr);
    assert!(swapped(&running) > 90 * MIB, "{}", reclaim.stdout);
    let back = pagetide::command(["detach", &pid, "--bring-back"]).finish(LIMIT);
    assert_eq!(back.status.code(), Some(0), "{}", back.stderr);
    // They are read into the swap cache, and mapped when it runs and touches them.
    assert!(back.stdout.contains("asked back in"), "{}", back.stdout);
    freezer.set("THAWED");
    let _ = running.touch();
    // A manager is there before the group freezes, and while.
    let attach = ["attach", &pid, "--evict-older-than", "1s", "--every", "1s"];
    let words = attach.into_iter().chain(["--age-every", "500ms"]);
    let manager = pagetide::command(words).start();
    wait::until("its manager", LIMIT, || {
        !manager.stderr().is_empty() || swapped(&running) > 0
    });
    freezer.set("FROZEN");
    wait::until("all is out while frozen", LIMIT, || {
        swapped(&running) > 90 * MIB
    });
    freezer.set("THAWED");
    let _ = running.touch();
}

/// Whether swap can be full here: where others have some, which is not ours to take away, all finds room there. Then that is what is asserted.
fn is_alone() -> bool {
    zram::areas() == 1
}

/// A device that takes no more though it has places. (The story: what it refused was told to be out, and stayed in memory.)
#[test]
fn compressed_memory_that_is_full() {
    let _serial = serial();
    let swap = Swap::new(512);
    swap.limit(4);
    let is_alone = is_alone();
    let running = Sleeper::start([], 256);
    let pid = running.pid().to_string();
    let reclaim = pagetide::command(["reclaim", &pid, "--all"]).finish(LIMIT);
    let said = format!("{}{}", reclaim.stdout, reclaim.stderr);
    assert!(swap.memory_used() <= 5 * MIB);
    if is_alone {
        assert!(said.contains("swap is full"), "{said}");
        assert_eq!(reclaim.status.code(), Some(1), "{said}");
        // What was on its way when it became full.
        assert!(swapped(&running) < 128 * MIB, "{said}");
    }
    let _ = running.touch();
}

/// Real swap, really full: what fits leaves, the rest stays, and who asked is told.
#[test]
fn swap_that_fills_up_on_the_way() {
    let _serial = serial();
    let swap = Swap::new(24);
    let is_alone = is_alone();
    let running = Sleeper::start([], 96);
    let pid = running.pid().to_string();
    let begin = Instant::now();
    let reclaim = pagetide::command(["reclaim", &pid, "--all"]).finish(LIMIT);
    let said = format!("{}{}", reclaim.stdout, reclaim.stderr);
    assert!(
        begin.elapsed() < Duration::from_secs(20),
        "it went on in vain: {said}"
    );
    let out = swapped(&running);
    assert!(out > 16 * MIB, "{out} bytes out: {said}");
    if is_alone {
        assert!(said.contains("swap is full"), "{said}");
        assert_eq!(reclaim.status.code(), Some(1), "{said}");
        assert!(swap.used() <= 24 * MIB && out < 25 * MIB);
    } else {
        assert_eq!(reclaim.status.code(), Some(0), "{said}");
    }
    let _ = running.touch();
    // With swap of somebody else's beside it, all finds room.
    let other = Swap::new(256);
    let reclaim = pagetide::command(["reclaim", &pid, "--all"]).finish(LIMIT);
    let said = format!("{}{}", reclaim.stdout, reclaim.stderr);
    assert_eq!(reclaim.status.code(), Some(0), "{said}");
    assert!(swapped(&running) > 90 * MIB, "{said}");
    let _ = running.touch();
    drop(other);
    // What came back keeps its place in swap until it is written: once, nothing of the next program found room for a minute.
    drop(running);
    let words = [
        "run",
        "--evict-older-than",
        "500ms",
        "--every",
        "500ms",
        "--age-every",
        "250ms",
        "--",
    ];
    let own = std::iter::once(pagetide::binary()).chain(words.map(str::to_owned));
    let managed = Sleeper::start(own, 96);
    wait::until("swap is used up", LIMIT, || swapped(&managed) > 16 * MIB);
    std::thread::sleep(Duration::from_secs(3));
    let _ = managed.touch();
}

/// A manager stays as long as any descendant of its first process. (The story: it answered for whoever got that one's number: `reclaim` of
/// that process parked the descendants, and another manager was refused.)
#[test]
fn a_manager_does_not_speak_for_who_has_its_first_ones_number() {
    let _serial = serial();
    let _swap = Swap::new(256);
    let folder = TempDir::new();
    let script = format!(
        "{pagetide} run --evict-older-than 1h -- sh -c 'echo $$ >{file}; setsid {sleeper} 16 >/dev/null & sleep 3' &
         wait $!; first=$(cat {file})
         {pagetide} stat $first >/dev/null; echo descendants $?
         echo $((first - 1)) >/proc/sys/kernel/ns_last_pid
         {sleeper} 16 >/dev/null & second=$!
         echo same $((first == second))
         {pagetide} stat $second; echo stat $?
         {pagetide} attach --for 1s $second; echo attach $?
         kill -9 $second",
        sleeper = programs::c("sleeper"),
        pagetide = pagetide::binary(),
        file = folder.file("first"),
    );
    // A namespace of its own, where nobody else takes ids.
    let words = ["unshare", "--pid", "--fork", "--mount-proc"];
    // Not by the namespace's first process: whose children are orphans may be anybody's.
    let words = words
        .into_iter()
        .chain(["sh", "-c", "sh -c \"$0\"; exit $?", &script]);
    let outcome = Run::new(words).finish(LIMIT);
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    for word in ["descendants 0", "same 1", "stat 1", "attach 0"] {
        assert!(said.contains(word), "{word}: {said}");
    }
}

/// The program ends while it is managed, and the next process of the machine gets its id: it is nobody's.
#[test]
fn an_id_that_is_used_again_is_another_process() {
    let _serial = serial();
    let _swap = Swap::new(256);
    let script = format!(
        "of() {{ awk -v of=$1: '$1 == of {{ print $2 }}' /proc/$first/status; }}
         {sleeper} 16 >/dev/null & first=$!
         until [ \"$(of VmRSS)\" -gt 16384 ]; do sleep 0.05; done
         {pagetide} attach $first --evict-older-than 1s --every 1s --age-every 500ms & manager=$!
         until [ \"$(of VmSwap)\" -gt 8192 ]; do sleep 0.05; done
         grep VmSwap /proc/$first/status
         kill -9 $first; wait $first 2>/dev/null
         echo $((first - 1)) >/proc/sys/kernel/ns_last_pid
         {sleeper} 16 >/dev/null & second=$!
         sleep 4
         echo same $((first == second)); grep VmSwap /proc/$second/status
         {pagetide} stat $second; echo stat $?
         kill -9 $second; wait $manager; echo manager $?",
        sleeper = programs::c("sleeper"),
        pagetide = pagetide::binary(),
    );
    // A namespace of its own, where nobody else takes ids.
    let words = [
        "unshare",
        "--pid",
        "--fork",
        "--mount-proc",
        "sh",
        "-c",
        &script,
    ];
    let outcome = Run::new(words).finish(LIMIT);
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    let out: Vec<u64> = said
        .lines()
        .filter_map(|line| {
            line.strip_prefix("VmSwap:")?
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        })
        .collect();
    assert!(said.contains("same 1"), "{said}");
    assert!(matches!(out[..], [first, 0] if first > 8 << 10), "{said}");
    assert!(
        said.contains("stat 1") && said.contains("manager 0"),
        "{said}"
    );
}
