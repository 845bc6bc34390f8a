//! `pagetide demo`, a newcomer's first command: all that it claims is true, it takes half a minute,
//! and nothing remains of it, however it ends.
//!
//! Regression: after a ^C in the middle a zram device stayed, and two programs ran on.
//!
//! Each test has a `/run` of its own, so that it neither finds nor removes a demo of this machine's
//! user. Needs root and zram.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::time::Duration;

use e2e::guard::{Outcome, Run, Running};
use e2e::swap_turn;
use e2e::temp::serial;
use e2e::user::{self, NOBODY};
use e2e::{pagetide, proc, wait};
use rustix::process::Signal;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(90);
/// (If a shell runs the tests in its background, they inherit SIGINT as ignored, and so would the
/// demo.)
const ENTER: &str = "mount -t tmpfs none /run && exec env --default-signal=INT \"$@\"";
/// A word in the command line of each program that the demo starts.
const WORKLOAD: &str = "__demo-workload";

/// Returns a command that runs `pagetide WORDS` with a `/run` of its own. `script` is the shell
/// script around the command and may run further commands with the same `/run`.
fn in_own_run(script: &str, words: &[&str]) -> Run {
    let wrap = [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        script,
        "sh",
    ];
    let own = pagetide::binary();
    let argv = wrap
        .into_iter()
        .chain([own.as_str()])
        .chain(words.iter().copied());
    Run::new(argv)
}

fn json(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", outcome.stdout, outcome.stderr))
}

/// Names of all zram devices of this machine.
fn devices() -> BTreeSet<String> {
    let entries = std::fs::read_dir("/sys/block").expect("sysfs is mounted");
    let names = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("zram")).collect()
}

/// Pids of the processes that the demo has started: its programs and their manager.
fn processes(running: &Running) -> Vec<u32> {
    let is_ours =
        |pid: &u32| proc::read(*pid, "cmdline").is_some_and(|line| line.contains(WORKLOAD));
    running.tree().into_iter().filter(is_ours).collect()
}

/// Starts a demo and waits until both of its programs run. `script`: see [`in_own_run`].
fn start_demo(script: &str) -> Running {
    let running = in_own_run(script, &["demo"]).start();
    wait::until("both programs", LIMIT, || {
        processes(&running).len() >= 2 && running.stdout().contains("2. pagetide run")
    });
    running
}

/// A second demo and `swap off` are refused meanwhile: `swap off` removes only the swap of `swap
/// on`, not the demo's.
#[test]
fn every_claim_holds_in_half_a_minute_and_nothing_is_left() {
    let _turns = (serial(), swap_turn::exclusive());
    let before = devices();
    let script = "mount -t tmpfs none /run; (sleep 4; \"$1\" demo; \"$1\" swap off) & exec \"$@\"";
    let outcome = in_own_run(script, &["demo", "--json"]).finish(LIMIT);
    for refusal in [
        "another pagetide demo is running",
        "no swap that pagetide switched on",
    ] {
        assert!(outcome.stderr.contains(refusal), "{}", outcome.stderr);
    }
    let reported = json(&outcome);
    assert_eq!(
        outcome.status.code(),
        Some(0),
        "{reported:#}{}",
        outcome.stderr
    );
    assert_eq!(reported["ok"], true, "{reported:#}");
    let claims = reported["claims"].as_array().expect("claims");
    assert_eq!(claims.len(), 5, "{reported:#}");
    assert!(
        claims.iter().all(|claim| claim["state"] != "fails"),
        "{reported:#}"
    );
    let truth = reported["truly_cold_bytes"].as_u64().unwrap_or(0);
    let swapped = reported["measured"]["after"]["swapped"]
        .as_u64()
        .unwrap_or(0);
    assert!(
        swapped >= truth / 100 * 99,
        "the kernel's figure: {reported:#}"
    );
    assert!(reported["measured"]["zram"].is_string(), "{reported:#}");
    assert_eq!(devices(), before);
    eprintln!("the demo took {:?}", outcome.took);
}

#[test]
fn a_signal_ends_it_and_nothing_is_left() {
    let _turns = (serial(), swap_turn::exclusive());
    let before = devices();
    for signal in [Signal::INT, Signal::TERM] {
        let running = start_demo(ENTER);
        assert_ne!(devices(), before, "it has a device of its own");
        // The signal is sent twice, as by an impatient user.
        running.signal(signal);
        running.signal(signal);
        let ours = processes(&running);
        let outcome = running.wait(LIMIT);
        assert_eq!(outcome.status.code(), Some(1), "{}", outcome.stderr);
        assert!(
            outcome.stderr.contains("stopped before"),
            "{}",
            outcome.stderr
        );
        let gone = || ours.iter().all(|pid| !proc::is_alive(*pid));
        wait::until("the end of all that it started", LIMIT, gone);
        assert_eq!(devices(), before);
    }
}

/// Regression: `swap off` silently removed the demo's zram if there was also one of `swap on`.
#[test]
fn after_a_kill_its_programs_end_and_swap_off_takes_its_zram_away() {
    let _turns = (serial(), swap_turn::exclusive());
    let before = devices();
    // The shell stays, because it has the /run with the demo's record. `swap off` is refused until
    // the managers that the demo started have ended.
    let script = "mount -t tmpfs none /run && \"$@\"; \"$1\" swap status; \
        \"$1\" swap on --size 64M; until \"$1\" swap off; do sleep 0.3; done; \
        exec \"$1\" swap off";
    let running = start_demo(script);
    let demo = |pid: &u32| {
        // Excludes the shell: its command line ends with the same words.
        let words = format!("{}\0demo\0", e2e::pagetide::binary());
        proc::read(*pid, "cmdline").is_some_and(|line| line == words)
    };
    let ours = processes(&running);
    let pid = running
        .tree()
        .into_iter()
        .find(demo)
        .expect("the demo runs");
    e2e::guard::send(pid, Signal::KILL);
    let outcome = running.wait(LIMIT);
    assert_eq!(
        outcome.status.code(),
        Some(0),
        "{}{}",
        outcome.stdout,
        outcome.stderr
    );
    assert!(
        outcome.stdout.contains("made by pagetide"),
        "{}",
        outcome.stdout
    );
    let removed = outcome.stdout.matches("is removed").count();
    assert_eq!(removed, 2, "{}", outcome.stdout);
    let gone = || ours.iter().all(|pid| !proc::is_alive(*pid));
    wait::until("the end of all that it started", LIMIT, gone);
    assert_eq!(devices(), before);
}

#[test]
fn a_user_without_rights_gets_a_hint() {
    let _turns = (serial(), swap_turn::exclusive());
    let folder = e2e::temp::TempDir::public();
    let copy = pagetide::public_copy(&folder);
    let run = user::run(NOBODY, [copy.as_str(), "demo"]);
    let outcome = run.finish(LIMIT);
    assert_eq!(
        outcome.status.code(),
        Some(3),
        "{}{}",
        outcome.stdout,
        outcome.stderr
    );
    assert!(outcome.stderr.contains("hint: "), "{}", outcome.stderr);
    let says_how = ["sudo pagetide demo", "run as root"]
        .iter()
        .any(|words| outcome.stderr.contains(words));
    assert!(says_how, "{}", outcome.stderr);
}
