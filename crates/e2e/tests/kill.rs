//! Kills at random instants: of pagetide, and of keepers. The programs run on, no byte is lost, and
//! another pagetide takes over.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::guard::{Run, Running, send, tail};
use e2e::hostile::Hostile;
use e2e::temp::serial;
use e2e::wait::{self, Chance};
use e2e::{pagetide, proc, programs};
use rustix::process::{Pid, Signal, WaitOptions, getpid, set_child_subreaper, waitpid};

const SOON: Duration = Duration::from_secs(120);
const SECONDS: u64 = 40;

/// The managed hostile process, once it works.
fn target_of(running: &Running, hostile: &Hostile) -> u32 {
    wait::until("the workload under pagetide", SOON, || hostile.ops() > 50);
    let parent = running.pid().to_string();
    let is = |pid: &u32| proc::status(*pid, "PPid").is_some_and(|found| found == parent);
    let found = running.named("hostile").into_iter().find(is);
    found.unwrap_or_else(|| panic!("no target\n{}", running.state()))
}

/// Orphans come to this process, so that how they end can be asked.
fn adopt_orphans() {
    set_child_subreaper(Some(getpid())).expect("a process may adopt its orphans");
}

/// The exit status of a process that was re-parented to this one.
fn status_of_orphan(pid: u32, limit: Duration) -> Option<i32> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    wait::poll(limit, || match waitpid(Some(pid), WaitOptions::NOHANG) {
        Ok(found) => found.map(|(_, status)| status.exit_status().unwrap_or(-1)),
        Err(_) => Some(-2),
    })
}

#[test]
fn pagetide_killed_ten_times_and_adopted_again() {
    let _serial = serial();
    adopt_orphans();
    let mut chance = Chance::from_env("pagetide_killed_ten_times_and_adopted_again");
    let hostile = Hostile::new(SECONDS, chance.below(1 << 32), &[]);
    let first = pagetide::run(&pagetide::EVICT_FAST, hostile.run()).start();
    let target = target_of(&first, &hostile);
    let mut managers = vec![first];
    for round in 1..=10 {
        let seen = hostile.ops();
        std::thread::sleep(chance.millis(20, 1500));
        managers.last_mut().expect("there is one").kill_and_reap();
        let killed_at = hostile.ops();
        wait::until(
            &format!("round {round}: progress without a manager"),
            SOON,
            || hostile.ops() > killed_at.max(seen) || !proc::is_alive(target),
        );
        std::thread::sleep(chance.millis(10, 500));
        if !proc::is_alive(target) {
            break; // its time was up, or it failed: its status tells
        }
        let mut adopt = vec!["adopt".to_owned(), target.to_string()];
        adopt.extend(pagetide::EVICT_FAST.map(str::to_owned));
        managers.push(pagetide::command(adopt).start());
        let managed = wait::poll(SOON, || {
            (pagetide::try_report(target).is_some() || !proc::is_alive(target)).then_some(())
        });
        let manager = managers.last_mut().expect("there is one");
        assert!(
            managed.is_some(),
            "round {round}: adopt does nothing\n{}",
            manager.state()
        );
        if let Some(status) = manager.ended() {
            let alive = proc::is_alive(target);
            assert!(
                !alive,
                "round {round}: adopt ended with {status}: {}",
                manager.stderr()
            );
        }
    }
    let rounds = managers.len();
    let status = status_of_orphan(target, Duration::from_secs(SECONDS) + SOON * 2);
    let said = managers[0].stderr();
    assert_eq!(
        status,
        Some(0),
        "the workload ended wrong\n{}",
        tail(&said, 4000)
    );
    assert!(rounds > 5, "the workload was over after {rounds} managers");
    assert!(
        managers[0].stdout().starts_with("OK ops="),
        "{}",
        managers[0].stdout()
    );
}

/// The serving keeper and its standby, once both are there: the one that was killed last is named
/// until its place is taken. None if the target has ended.
fn live_keepers(target: u32) -> Option<Vec<u32>> {
    let mut found = Vec::new();
    wait::until("two keepers", SOON, || {
        let report = pagetide::try_report(target).unwrap_or_default();
        let pids = report["keepers"].as_array().into_iter().flatten();
        found = pids
            .filter_map(|pid| u32::try_from(pid.as_u64()?).ok())
            .filter(|pid| proc::is_keeper(*pid) && proc::is_alive(*pid))
            .collect();
        found.len() == 2 || !proc::is_alive(target)
    });
    (found.len() == 2).then_some(found)
}

#[test]
fn keepers_killed_are_replaced() {
    let _serial = serial();
    let mut chance = Chance::from_env("keepers_killed_are_replaced");
    // Without children: one target, so that the keepers are its own.
    let more = [
        "--ops",
        "verify,rewrite,copy,idle,move,dontneed,pipe,thread,signal",
    ];
    let hostile = Hostile::new(25, chance.below(1 << 32), &more);
    let running = pagetide::run(&pagetide::EVICT_FAST, hostile.run()).start();
    let target = target_of(&running, &hostile);
    for round in 1..=8 {
        std::thread::sleep(chance.millis(20, 1000));
        if !proc::is_alive(target) {
            break;
        }
        let Some(keepers) = live_keepers(target) else {
            break; // its time was up; its status tells
        };
        let at = usize::try_from(chance.below(keepers.len() as u64)).expect("small");
        send(keepers[at], Signal::KILL);
        let seen = hostile.ops();
        wait::until(
            &format!("round {round}: progress after a keeper's death"),
            SOON,
            || hostile.ops() > seen + 20 || !proc::is_alive(target),
        );
    }
    let outcome = running.wait(Duration::from_secs(25) + SOON * 2);
    assert_eq!(
        outcome.status.code(),
        Some(0),
        "{}",
        tail(&outcome.stderr, 4000)
    );
}

/// Threads that give memory back without a pause and move it to and fro, and one that needs its own and
/// forks. A child's table was mapped where such a thread had just moved from; the thread moved back, over
/// it, and when the child was gone the keeper unmapped the table and the program's memory with it.
fn stampede(milliseconds: &str) -> Run {
    let more = ["--ms", milliseconds, "--remap", "50", "--fork", "200"];
    let argv = [programs::c("stampede")].into_iter();
    Run::new(argv.chain(more.map(str::to_owned)))
}

#[test]
fn pagetide_killed_in_a_stampede() {
    let _serial = serial();
    adopt_orphans();
    let mut running = pagetide::run(&pagetide::EVICT_FAST, &stampede("4000")).start();
    wait::until("the stampede", SOON, || running.stdout().contains("begun"));
    let target = running.named("stampede")[0];
    std::thread::sleep(Duration::from_millis(500));
    running.kill_and_reap();
    let status = status_of_orphan(target, SOON);
    assert_eq!(status, Some(0), "{}", tail(&running.stderr(), 4000));
}

#[test]
fn keepers_killed_in_a_stampede() {
    let _serial = serial();
    let mut chance = Chance::from_env("keepers_killed_in_a_stampede");
    let running = pagetide::run(&pagetide::EVICT_FAST, &stampede("5000")).start();
    wait::until("the stampede", SOON, || running.stdout().contains("begun"));
    let target = running.named("stampede")[0];
    for _ in 0..5 {
        std::thread::sleep(chance.millis(20, 700));
        let Some(keepers) = live_keepers(target) else {
            break;
        };
        send(keepers[0], Signal::KILL);
    }
    let outcome = running.wait(SOON);
    let said = tail(&outcome.stderr, 4000);
    assert_eq!(outcome.status.code(), Some(0), "{said}");
}

/// A child's userfaultfd and table were in the keepers' descriptors alone. With both killed, the last
/// copy closed: what the child had not touched since the fork read as zeros.
#[test]
fn both_keepers_killed_while_a_forked_child_is_served() {
    let _serial = serial();
    let mut chance = Chance::from_env("both_keepers_killed_while_a_forked_child_is_served");
    let run = Run::new([programs::c("orphanage")]);
    let options = [
        "--evict-older-than",
        "100ms",
        "--every",
        "200ms",
        "--age-every",
        "100ms",
    ];
    for round in 1..=3 {
        let running = pagetide::run(&options, &run).start();
        wait::until("it fills its memory", SOON, || {
            running.stdout().contains("filled")
        });
        let target = running.named("orphanage")[0];
        wait::until("its memory is out", SOON, || {
            proc::rss_anon(target).unwrap_or(0) < 8 << 20
        });
        send(target, Signal::USR1);
        wait::until("it forks", SOON, || running.stdout().contains("forked"));
        // A look of the manager, 50 ms, is how long the child's descriptors are the keepers' alone.
        std::thread::sleep(chance.millis(150, 600));
        let keepers = running.keepers();
        assert!(keepers.len() >= 2, "round {round}: {keepers:?}");
        keepers.iter().for_each(|pid| send(*pid, Signal::KILL));
        let outcome = running.wait(SOON);
        assert_eq!(
            outcome.status.code(),
            Some(0),
            "round {round}: {}",
            tail(&outcome.stderr, 4000)
        );
    }
}
