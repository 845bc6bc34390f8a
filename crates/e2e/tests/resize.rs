//! `pagetide resize`: room first, then the limit; back where it costs too much, does not fit, or is stopped.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::guard::{Outcome, Run, Running};
use e2e::memcg::MemoryGroup;
use e2e::temp::serial;
use e2e::zram::Swap;
use e2e::{pagetide, wait};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(90);
const MIB: u64 = 1 << 20;
const MAX: &str = "memory.limit_in_bytes";

/// 60 MiB of pages that differ, then what `rest` does with `b`.
fn program(group: &MemoryGroup, rest: &str) -> Running {
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

fn command(group: &MemoryGroup, options: &[&str]) -> Run {
    let path = group.path();
    pagetide::command([&["resize", "--cgroup", path.as_str()], options].concat())
}

fn resize(group: &MemoryGroup, options: &[&str]) -> Outcome {
    command(group, options).finish(LIMIT)
}

#[test]
fn what_is_idle_leaves_and_the_limit_is_set() {
    let _serial = serial();
    let _swap = Swap::new(256);
    let group = MemoryGroup::new();
    let former = group.number(MAX);
    let mut running = program(&group, "");
    let options = ["--memory-max", "24M", "--watch", "2s"];
    let tried = resize(&group, &[&options[..], &["--dry-run"]].concat());
    assert_eq!(tried.status.code(), Some(0), "{}", tried.stderr);
    assert!(tried.stdout.contains("would page out"), "{}", tried.stdout);
    assert_eq!(group.number(MAX), former);
    assert!(group.number("memory.usage_in_bytes") > 60 * MIB);
    let done = resize(&group, &options);
    assert_eq!(
        done.status.code(),
        Some(0),
        "{}{}",
        done.stdout,
        done.stderr
    );
    assert_eq!(group.number(MAX), 24 * MIB);
    assert!(
        done.stdout.contains("watched 2s: it cost"),
        "{}",
        done.stdout
    );
    assert!(running.ended().is_none(), "it runs on");
    // ^C while it watches: the limit before, which is the one of now.
    let watching = command(&group, &["--memory-max", "20M", "--watch", "10m"]).start();
    wait::until("the limit is lowered", LIMIT, || {
        group.number(MAX) == 20 * MIB
    });
    watching.signal(Signal::INT);
    let stopped = watching.wait(LIMIT);
    assert_eq!(stopped.status.code(), Some(1), "{}", stopped.stderr);
    assert!(
        stopped.stderr.contains("the limit is 24 MiB again"),
        "{}",
        stopped.stderr
    );
    assert_eq!(group.number(MAX), 24 * MIB);
    // A higher one needs no room, no swap and no watch.
    let raised = resize(&group, &["--memory-max", "300M"]);
    assert_eq!(raised.status.code(), Some(0), "{}", raised.stderr);
    assert_eq!(group.number(MAX), 300 * MIB);
    running.kill_and_reap();
}

#[test]
fn a_limit_that_costs_too_much_or_does_not_fit_goes_back() {
    let _serial = serial();
    let _swap = Swap::new(256);
    let group = MemoryGroup::new();
    let former = group.number(MAX);
    // Idle until the limit is set; then all of it is used again and again.
    let loops = format!(
        "while int(open('{}/{MAX}').read()) > 1 << 30: time.sleep(0.05)\n\
         while True:\n    for at in range(0, 60 << 20, 4096): b[at]",
        group.path()
    );
    let mut running = program(&group, &loops);
    let dear = resize(
        &group,
        &["--memory-max", "40M", "--watch", "1m", "--cost", "0.01%"],
    );
    assert_eq!(
        dear.status.code(),
        Some(1),
        "{}{}",
        dear.stdout,
        dear.stderr
    );
    let told = "the limit is none again, as before: it cost";
    assert!(dear.stderr.contains(told), "{}", dear.stderr);
    assert_eq!(group.number(MAX), former, "{}", dear.stderr);
    assert!(running.ended().is_none(), "it runs on");
    running.kill_and_reap();
    let group = MemoryGroup::new();
    let locks = "assert ctypes.CDLL(None).mlockall(1) == 0";
    let mut running = program(&group, locks);
    std::thread::sleep(Duration::from_millis(500));
    let locked = resize(&group, &["--memory-max", "24M", "--watch", "2s"]);
    assert_eq!(locked.status.code(), Some(1), "{}", locked.stdout);
    assert!(
        locked.stderr.contains("cannot make room in"),
        "{}",
        locked.stderr
    );
    assert_eq!(group.number(MAX), former, "{}", locked.stderr);
    assert!(running.ended().is_none(), "it runs on");
    running.kill_and_reap();
}

#[test]
fn what_cannot_be_resized_is_said() {
    let group = MemoryGroup::new();
    let absent = format!("{}-absent", group.path());
    for (words, told) in [
        (&["--cgroup", absent.as_str()], "no control group"),
        (&["--cgroup", "/"], "root of all control groups"),
    ] {
        let words = [&["resize"], &words[..], &["--memory-max", "24M"]].concat();
        let done = pagetide::command(words).finish(LIMIT);
        assert!(!done.status.success(), "{}", done.stdout);
        assert!(done.stderr.contains(told), "{}", done.stderr);
    }
}
