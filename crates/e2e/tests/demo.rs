//! `pagetide demo`, a newcomer's first command: every claim holds, in half a minute, and nothing is left
//! behind, however it ends.
//!
//! The story: a ^C in the middle left the newcomer with a zram device and two programs that ran on.
//!
//! Each test has a `/run` of its own, so that it neither finds nor removes a demo of this machine's user.
//! Needs root and zram.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::time::Duration;

use e2e::guard::{Outcome, Run, Running};
use e2e::swap_turn;
use e2e::temp::serial;
use e2e::{pagetide, proc, wait};
use rustix::process::Signal;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(90);
/// (Tests run in the background of a shell have SIGINT ignored, and so would the demo.)
const ENTER: &str = "mount -t tmpfs none /run && exec env --default-signal=INT \"$@\"";
/// Of the demo's own program, in its command line.
const WORKLOAD: &str = "__demo-workload";

/// `pagetide WORDS` with a `/run` of its own; `then` is another one in the same.
fn inside(script: &str, words: &[&str]) -> Run {
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

/// zram devices of this machine.
fn devices() -> BTreeSet<String> {
    let entries = std::fs::read_dir("/sys/block").expect("sysfs is mounted");
    let names = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("zram")).collect()
}

/// The demo's own processes, its programs and their manager.
fn processes(running: &Running) -> Vec<u32> {
    let is_ours =
        |pid: &u32| proc::read(*pid, "cmdline").is_some_and(|line| line.contains(WORKLOAD));
    running.tree().into_iter().filter(is_ours).collect()
}

/// Starts a demo, and waits until both of its programs run.
fn started(script: &str) -> Running {
    let running = inside(script, &["demo"]).start();
    wait::until("both programs", LIMIT, || {
        processes(&running).len() >= 2 && running.stdout().contains("2. pagetide run")
    });
    running
}

/// Also beside a second one, which is refused, as is `swap off`: what the demo swaps on is not that of `swap on`.
#[test]
fn every_claim_holds_in_half_a_minute_and_nothing_is_left() {
    let _turns = (serial(), swap_turn::alone());
    let before = devices();
    let script = "mount -t tmpfs none /run; (sleep 4; \"$1\" demo; \"$1\" swap off) & exec \"$@\"";
    let outcome = inside(script, &["demo", "--json"]).finish(LIMIT);
    for refusal in [
        "another pagetide demo is at work",
        "no swap that pagetide switched on",
    ] {
        assert!(outcome.stderr.contains(refusal), "{}", outcome.stderr);
    }
    let told = json(&outcome);
    assert_eq!(outcome.status.code(), Some(0), "{told:#}{}", outcome.stderr);
    assert_eq!(told["ok"], true, "{told:#}");
    let claims = told["claims"].as_array().expect("claims");
    assert_eq!(claims.len(), 5, "{told:#}");
    assert!(
        claims.iter().all(|claim| claim["state"] != "fails"),
        "{told:#}"
    );
    let truth = told["truly_cold_bytes"].as_u64().unwrap_or(0);
    let swapped = told["measured"]["after"]["swapped"].as_u64().unwrap_or(0);
    assert!(swapped >= truth / 100 * 99, "the kernel's figure: {told:#}");
    assert!(told["measured"]["zram"].is_string(), "{told:#}");
    assert_eq!(devices(), before);
    eprintln!("the demo took {:?}", outcome.took);
}

#[test]
fn a_signal_ends_it_and_nothing_is_left() {
    let _turns = (serial(), swap_turn::alone());
    let before = devices();
    for signal in [Signal::INT, Signal::TERM] {
        let running = started(ENTER);
        assert_ne!(devices(), before, "it has a device of its own");
        // Twice, as impatient people do.
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

/// (Its zram went without a word where there was one of `swap on`, too.)
#[test]
fn after_a_kill_its_programs_end_and_swap_off_takes_its_zram_away() {
    let _turns = (serial(), swap_turn::alone());
    let before = devices();
    // The shell stays: it has the /run that the record is in.
    let script = "mount -t tmpfs none /run && \"$@\"; \"$1\" swap status; \
        \"$1\" swap on --size 64M && \"$1\" swap off; exec \"$1\" swap off";
    let running = started(script);
    let demo = |pid: &u32| {
        // Not the shell, whose words end alike.
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
fn who_may_not_make_swap_is_told_what_to_do() {
    let _turns = (serial(), swap_turn::alone());
    let wrap = [
        "setpriv",
        "--reuid",
        "65534",
        "--regid",
        "65534",
        "--clear-groups",
    ];
    let folder = e2e::temp::TempDir::public();
    let copy = folder.file("pagetide");
    std::fs::copy(pagetide::binary(), &copy).expect("a program can be copied");
    let run = Run::new(wrap.into_iter().chain([copy.as_str(), "demo"]));
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
