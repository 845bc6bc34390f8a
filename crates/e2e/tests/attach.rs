//! `attach` and `detach`: a process that already runs, and is left as if never touched.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::guard::{Run, Running, send, tail};
use e2e::hostile::Hostile;
use e2e::temp::serial;
use e2e::wait::{self, Chance};
use e2e::{pagetide, proc, programs};
use rustix::process::Signal;

const SOON: Duration = Duration::from_secs(120);
const MIB: u64 = 1 << 20;

/// A process with 128 MiB, full and in use.
fn toucher(pattern: &str) -> Running {
    let argv = [
        programs::c("toucher").as_str(),
        "--mib",
        "128",
        "--seconds",
        "120",
        "--think-us",
        "200",
        pattern,
    ]
    .map(str::to_owned);
    let running = Run::new(argv).start();
    let full = || proc::rss_anon(running.pid()).is_some_and(|bytes| bytes > 127 * MIB);
    wait::until("128 MiB", SOON, full);
    running
}

fn attach(target: u32, options: &[&str]) -> Running {
    let mut words = vec!["attach".to_owned()];
    words.extend(options.iter().map(|word| (*word).to_owned()));
    words.push(target.to_string());
    let manager = pagetide::command(words).start();
    let small = || proc::rss_anon(target).is_some_and(|bytes| bytes < 80 * MIB);
    let came = wait::poll(SOON, || small().then_some(()));
    assert!(
        came.is_some(),
        "attach does not evict\n{}\n{}",
        manager.state(),
        e2e::autopsy::describe(target)
    );
    manager
}

struct Before {
    size: Option<u64>,
    maps: usize,
    threads: Option<u64>,
}

fn footprint(pid: u32) -> Before {
    Before {
        size: proc::number(pid, "VmSize"),
        maps: proc::maps(pid).len(),
        threads: proc::number(pid, "Threads"),
    }
}

fn assert_untouched(target: &Running, before: &Before) {
    let pid = target.pid();
    wait::until("the keepers are gone", SOON, || target.keepers().is_empty());
    let after = footprint(pid);
    assert_eq!(
        after.size,
        before.size,
        "size changed: {:#?}",
        proc::maps(pid)
    );
    assert_eq!(
        after.maps,
        before.maps,
        "mappings changed: {:#?}",
        proc::maps(pid)
    );
    assert_eq!(after.threads, before.threads);
    assert!(!proc::has_userfaultfd_range(pid), "a userfaultfd is left");
    assert_eq!(proc::number(pid, "TracerPid"), Some(0));
    let resident = proc::rss_anon(pid);
    assert!(
        resident.is_some_and(|bytes| bytes > 127 * MIB),
        "not everything is back: {resident:?}"
    );
}

#[test]
fn interrupt_detaches_cleanly() {
    let _serial = serial();
    let target = toucher("uniform");
    let before = footprint(target.pid());
    let manager = attach(target.pid(), &["--memory-max", "48M"]);
    assert!(
        !target.keepers().is_empty(),
        "no keeper\n{}",
        target.state()
    );
    manager.signal(Signal::INT);
    let outcome = manager.wait(SOON);
    assert!(
        matches!(outcome.status.code(), Some(0 | 130)),
        "{}: {}",
        outcome.status,
        outcome.stderr
    );
    assert_untouched(&target, &before);
}

#[test]
fn detach_gives_everything_back() {
    let _serial = serial();
    let target = toucher("zipf");
    let before = footprint(target.pid());
    let manager = attach(target.pid(), &["--memory-max", "48M"]);
    let outcome = pagetide::on("detach", target.pid());
    assert!(outcome.status.success(), "{}", outcome.stderr);
    assert_untouched(&target, &before);
    let outcome = manager.wait(SOON);
    assert!(
        outcome.status.success(),
        "the manager: {}: {}",
        outcome.status,
        outcome.stderr
    );
    let again = pagetide::on("detach", target.pid());
    assert_eq!(again.status.code(), Some(1), "nothing is managed any more");
    assert!(again.stderr.contains("hint:"), "{}", again.stderr);
}

#[test]
fn detach_after_the_manager_was_killed() {
    let _serial = serial();
    let target = toucher("uniform");
    let before = footprint(target.pid());
    let mut manager = attach(target.pid(), &["--memory-max", "48M"]);
    manager.kill_and_reap();
    assert!(
        !target.keepers().is_empty(),
        "the keeper died with its manager"
    );
    let outcome = pagetide::on("detach", target.pid());
    assert!(outcome.status.success(), "{}", outcome.stderr);
    assert_untouched(&target, &before);
}

#[test]
fn a_keeper_leaves_when_its_target_ends() {
    let _serial = serial();
    let target = toucher("cold");
    let mut manager = attach(target.pid(), &["--memory-max", "48M"]);
    let keepers = target.keepers();
    manager.kill_and_reap();
    send(target.pid(), Signal::KILL);
    wait::until("the keeper is gone, without a manager", SOON, || {
        keepers.iter().all(|pid| !proc::is_alive(*pid))
    });
}

#[test]
fn attach_to_many_threads_at_work() {
    let _serial = serial();
    let mut chance = Chance::from_env("attach_to_many_threads_at_work");
    let hostile = Hostile::new(
        20,
        chance.below(1 << 32),
        &["--threads", "16", "--mib", "96"],
    );
    let target = hostile.run().start();
    wait::until("the workload", SOON, || hostile.ops() > 500);
    for round in 1..=3 {
        let mut words = vec!["attach".to_owned()];
        words.extend(pagetide::EVICT_FAST.map(str::to_owned));
        words.push(target.pid().to_string());
        let manager = pagetide::command(words).start();
        wait::until(&format!("round {round}: managed"), SOON, || {
            pagetide::try_report(target.pid()).is_some() || !proc::is_alive(target.pid())
        });
        std::thread::sleep(chance.millis(500, 2500));
        manager.signal(Signal::INT);
        let outcome = manager.wait(SOON);
        let alive = proc::is_alive(target.pid());
        assert!(
            !alive || outcome.status.success(),
            "round {round}: {}",
            outcome.stderr
        );
    }
    let outcome = target.wait(SOON * 3);
    assert_eq!(
        outcome.status.code(),
        Some(0),
        "{}",
        tail(&outcome.stderr, 4000)
    );
}
