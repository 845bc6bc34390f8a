//! `pagetide resize`: reclaims first, then sets the limit; restores it if that costs too much, does
//! not fit, or is stopped.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::guard::{Outcome, Run, Running};
use e2e::memcg::MemoryGroup;
use e2e::temp::serial;
use e2e::zram::Swap;
use e2e::{pagetide, proc, wait};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(90);
const MIB: u64 = 1 << 20;
/// File of the memory limit (cgroup version 1).
const LIMIT_FILE: &str = "memory.limit_in_bytes";

/// Starts a Python program that fills 60 MiB with pages of different content, in the variable `b`,
/// and then executes the Python code `rest`.
fn start_program(group: &MemoryGroup, rest: &str) -> Running {
    let text = format!(
        "import ctypes, mmap, time\n\
         b = mmap.mmap(-1, 60 << 20)\n\
         for at in range(0, 60 << 20, 4096): b[at:at + 8] = at.to_bytes(8, 'little')\n\
         {rest}\n\
         time.sleep(600)\n"
    );
    let running = group.run(&Run::new(["python3", "-c", &text])).start();
    wait::until("the program has its memory", LIMIT, || {
        group.number("memory.usage_in_bytes") > 60 * MIB
    });
    running
}

/// The command `pagetide resize` of this group.
fn command(group: &MemoryGroup, options: &[&str]) -> Run {
    let path = group.path();
    pagetide::command([&["resize", "--cgroup", path.as_str()], options].concat())
}

/// Runs `pagetide resize` of this group to its end.
fn resize(group: &MemoryGroup, options: &[&str]) -> Outcome {
    command(group, options).finish(LIMIT)
}

#[test]
fn idle_memory_is_paged_out_and_the_limit_is_set() {
    let _serial = serial();
    let _swap = Swap::new(256);
    let group = MemoryGroup::new();
    let former = group.number(LIMIT_FILE);
    let mut running = start_program(&group, "");
    let options = ["--memory-max", "24M", "--look", "1s", "--watch", "2s"];
    let tried = resize(&group, &[&options[..], &["--dry-run"]].concat());
    assert_eq!(tried.status.code(), Some(0), "{}", tried.stderr);
    assert!(tried.stdout.contains("would page out"), "{}", tried.stdout);
    let reported = "of swap is free, which is enough";
    assert!(tried.stdout.contains(reported), "{}", tried.stdout);
    assert_eq!(group.number(LIMIT_FILE), former);
    assert!(group.number("memory.usage_in_bytes") > 60 * MIB);
    let done = resize(&group, &options);
    assert_eq!(
        done.status.code(),
        Some(0),
        "{}{}",
        done.stdout,
        done.stderr
    );
    assert_eq!(group.number(LIMIT_FILE), 24 * MIB);
    assert!(
        done.stdout.contains("watched 2s: it cost"),
        "{}",
        done.stdout
    );
    assert!(running.ended().is_none(), "it runs on");
    // If ^C comes while `resize` watches, `resize` restores the former limit.
    let watching = command(
        &group,
        &["--memory-max", "20M", "--look", "1s", "--watch", "10m"],
    )
    .start();
    wait::until("the limit is lowered", LIMIT, || {
        group.number(LIMIT_FILE) == 20 * MIB
    });
    watching.signal(Signal::INT);
    let stopped = watching.wait(LIMIT);
    assert_eq!(stopped.status.code(), Some(1), "{}", stopped.stderr);
    assert!(
        stopped.stderr.contains("the limit is 24 MiB again"),
        "{}",
        stopped.stderr
    );
    assert_eq!(group.number(LIMIT_FILE), 24 * MIB);
    // A higher limit needs no reclaim, no swap and no watch.
    let raised = resize(&group, &["--memory-max", "300M"]);
    assert_eq!(raised.status.code(), Some(0), "{}", raised.stderr);
    assert_eq!(group.number(LIMIT_FILE), 300 * MIB);
    running.kill_and_reap();
}

#[test]
fn a_limit_that_costs_too_much_or_does_not_fit_is_restored() {
    let _serial = serial();
    let _swap = Swap::new(256);
    let group = MemoryGroup::new();
    let former = group.number(LIMIT_FILE);
    // The program is idle until the limit is set, and then uses all its memory again and again.
    let loops = format!(
        "while int(open('{}/{LIMIT_FILE}').read()) > 1 << 30: time.sleep(0.05)\n\
         while True:\n    for at in range(0, 60 << 20, 4096): b[at]",
        group.path()
    );
    let mut running = start_program(&group, &loops);
    let dear = resize(
        &group,
        &[
            "--memory-max",
            "40M",
            "--look",
            "1s",
            "--watch",
            "1m",
            "--cost",
            "0.01%",
        ],
    );
    assert_eq!(
        dear.status.code(),
        Some(1),
        "{}{}",
        dear.stdout,
        dear.stderr
    );
    let reported = "the limit is none again, as before: it cost";
    assert!(dear.stderr.contains(reported), "{}", dear.stderr);
    assert_eq!(group.number(LIMIT_FILE), former, "{}", dear.stderr);
    assert!(running.ended().is_none(), "it runs on");
    running.kill_and_reap();
    let group = MemoryGroup::new();
    let locks = "assert ctypes.CDLL(None).mlockall(1) == 0";
    let mut running = start_program(&group, locks);
    std::thread::sleep(Duration::from_millis(500));
    let locked = resize(
        &group,
        &["--memory-max", "24M", "--look", "1s", "--watch", "2s"],
    );
    assert_eq!(locked.status.code(), Some(1), "{}", locked.stdout);
    assert!(
        locked.stderr.contains("cannot make room in"),
        "{}",
        locked.stderr
    );
    assert_eq!(group.number(LIMIT_FILE), former, "{}", locked.stderr);
    assert!(running.ended().is_none(), "it runs on");
    running.kill_and_reap();
}

/// Regression: PostgreSQL, php-fpm and any pre-fork server could not be resized: madvise(2) does
/// not page out pages that several processes map, and the command gave up, though the kernel
/// reclaims such pages as the limit is set.
#[test]
fn shared_memory_is_reclaimed_as_the_limit_is_set() {
    let _serial = serial();
    let _swap = Swap::new(256);
    let group = MemoryGroup::new();
    let both = "import os; os.fork()\nfor at in range(0, 60 << 20, 4096): b[at]";
    let mut running = start_program(&group, both);
    let has_it = |pid: &u32| proc::number(*pid, "RssShmem") > Some(59 * MIB);
    wait::until("two map it", LIMIT, || {
        group.pids().iter().filter(|pid| has_it(pid)).count() == 2
    });
    let done = resize(
        &group,
        &["--memory-max", "24M", "--look", "1s", "--watch", "2s"],
    );
    assert!(done.status.success(), "{}{}", done.stdout, done.stderr);
    assert_eq!(group.number(LIMIT_FILE), 24 * MIB);
    assert!(running.ended().is_none(), "it runs on");
    running.kill_and_reap();
}

#[test]
fn targets_that_cannot_be_resized_are_refused() {
    let group = MemoryGroup::new();
    let absent = format!("{}-absent", group.path());
    for (words, reported) in [
        (&["--cgroup", absent.as_str()], "no control group"),
        (&["--cgroup", "/"], "root of all control groups"),
    ] {
        let words = [&["resize"], &words[..], &["--memory-max", "24M"]].concat();
        let done = pagetide::command(words).finish(LIMIT);
        assert!(!done.status.success(), "{}", done.stdout);
        assert!(done.stderr.contains(reported), "{}", done.stderr);
    }
}
