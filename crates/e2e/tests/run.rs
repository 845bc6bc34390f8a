//! `pagetide run` as a user's shell sees it: streams, signals, exit status, children, the report.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::guard::{Run, Running, send};
use e2e::report::Report;
use e2e::temp::{TempDir, serial};
use e2e::{pagetide, proc, programs, wait};
use rustix::process::Signal;

const LIMIT: [&str; 2] = ["--memory-max", "64M"];
const SOON: Duration = Duration::from_secs(120);

fn shell(script: &str) -> Run {
    Run::new(["sh", "-c", script])
}

#[test]
fn exit_status_passes_through() {
    let _serial = serial();
    for status in [0, 1, 37, 255] {
        let run = pagetide::run(&LIMIT, &shell(&format!("exit {status}")));
        let outcome = run.finish(SOON);
        assert_eq!(outcome.status.code(), Some(status), "{}", outcome.stderr);
    }
}

#[test]
fn death_by_signal_is_128_and_the_signal() {
    let _serial = serial();
    for (name, number) in [("KILL", 9), ("SEGV", 11), ("TERM", 15)] {
        let outcome = pagetide::run(&LIMIT, &shell(&format!("kill -{name} $$"))).finish(SOON);
        assert_eq!(
            outcome.status.code(),
            Some(128 + number),
            "{}",
            outcome.stderr
        );
    }
}

#[test]
fn streams_pass_through_unchanged() {
    let _serial = serial();
    let text = "one\ntwo\0three\n".repeat(1000);
    let outcome = pagetide::run(&LIMIT, &Run::new(["cat"]).stdin(&text)).finish(SOON);
    assert!(outcome.status.success());
    assert_eq!(outcome.stdout, text);
    assert_eq!(
        outcome.stderr, "",
        "pagetide writes where the program's errors go"
    );
    let outcome = pagetide::run(&LIMIT, &shell("echo oops >&2")).finish(SOON);
    assert_eq!(
        (outcome.stdout.as_str(), outcome.stderr.as_str()),
        ("", "oops\n")
    );
}

fn with_trap(name: &str) -> Running {
    let script = format!("trap 'echo got; exit 7' {name}; echo ready; while :; do sleep 0.1; done");
    let running = pagetide::run(&LIMIT, &shell(&script)).start();
    wait::until("the trap", SOON, || running.stdout().contains("ready"));
    running
}

#[test]
fn signals_pass_through() {
    let _serial = serial();
    for (signal, name) in [
        (Signal::TERM, "TERM"),
        (Signal::HUP, "HUP"),
        (Signal::USR1, "USR1"),
    ] {
        let running = with_trap(name);
        running.signal(signal);
        let outcome = running.wait(SOON);
        assert_eq!(outcome.stdout, "ready\ngot\n", "{name}");
        assert_eq!(outcome.status.code(), Some(7), "{name}");
    }
}

/// A terminal sends ^C to the program as well: pagetide survives it and tells how the program ends.
#[test]
fn an_interrupt_is_the_programs_own() {
    let _serial = serial();
    let running = with_trap("INT");
    running.signal(Signal::INT);
    let program = running.named("sh").first().copied();
    send(program.expect("the program runs on"), Signal::INT);
    let outcome = running.wait(SOON);
    assert_eq!(
        (outcome.stdout.as_str(), outcome.status.code()),
        ("ready\ngot\n", Some(7))
    );
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let _serial = serial();
    let outcome = pagetide::run(&LIMIT, &Run::new(["/no/such/program"])).finish(SOON);
    assert!(
        matches!(outcome.status.code(), Some(1 | 127)),
        "{}",
        outcome.status
    );
    assert!(
        outcome.stderr.contains("/no/such/program"),
        "{}",
        outcome.stderr
    );
    assert!(outcome.stderr.contains("hint:"), "{}", outcome.stderr);
}

#[test]
fn children_by_fork_and_exec_are_managed_too() {
    let _serial = serial();
    let toucher = programs::c("toucher");
    let script = format!("{toucher} --mib 96 --seconds 120 cold & wait");
    let running = pagetide::run(&["--memory-max", "32M"], &shell(&script)).start();
    let came = wait::poll(SOON, || running.named("toucher").first().copied());
    let child = came.unwrap_or_else(|| panic!("no toucher\n{}", running.state()));
    let shell = proc::number(child, "PPid").and_then(|pid| u32::try_from(pid).ok());
    let shell = shell.expect("the shell waits for it");
    // All of it was touched, most of it is out, and the kernel says so too.
    let mut report = serde_json::Value::Null;
    let held = wait::poll(SOON * 4, || {
        report = pagetide::try_report(shell).unwrap_or_default();
        let number = |name: &str| report[name].as_u64().unwrap_or(0);
        let whole = number("resident_bytes") + number("stored_bytes") > 90 << 20;
        let small = proc::rss_anon(child).is_some_and(|bytes| bytes < 34 << 20);
        (whole && small && report["children"][0] == child).then_some(())
    });
    assert!(
        held.is_some(),
        "the child has {:?} bytes: {report}",
        proc::rss_anon(child)
    );
}

#[test]
fn the_report_tells_the_run() {
    let _serial = serial();
    let folder = TempDir::new();
    let path = folder.file("report.json");
    let grower = programs::c("grower");
    let command = Run::new([grower.as_str(), "--mib", "96"]);
    let options = ["--memory-max", "48M", "--report", path.as_str()];
    let outcome = pagetide::run(&options, &command).finish(SOON * 2);
    assert!(outcome.status.success(), "{}", outcome.stderr);
    let report = Report::read(&folder.path().join("report.json"));
    assert_eq!(report.0["command"][0].as_str(), Some(grower.as_str()));
    assert!(report.number("wall_ms") > 0);
    assert_eq!(report.0["limits"]["max"].as_u64(), Some(48 << 20));
    // The figures are those of the last look before the end: nothing is left after it.
    let stored = report.number("stored_bytes");
    assert!((16 << 20..=96 << 20).contains(&stored), "{}", report.0);
    // What keepers freed still counts until a sweep, and slabs are given back whole.
    assert!(
        report.number("store_used_bytes") <= stored + (8 << 20),
        "{}",
        report.0
    );
    let bins = report.0["page_age"][0]["bins"].as_array();
    let bins = bins.into_iter().flatten();
    let sum: u64 = bins.filter_map(|bin| bin["anon_bytes"].as_u64()).sum();
    assert_eq!(sum, report.number("resident_bytes"), "{}", report.0);
    assert!(report.number("resident_bytes") > 16 << 20, "{}", report.0);
    assert!(report.0["overhead"]["keeper_cpu_ms"].as_u64() > Some(0));
}

#[test]
fn a_dry_run_touches_nothing_and_says_why() {
    let _serial = serial();
    let folder = TempDir::new();
    let path = folder.file("report.json");
    let command = Run::new([programs::c("grower").as_str(), "--mib", "96"]);
    let options = [
        "--memory-max",
        "32M",
        "--dry-run",
        "--report",
        path.as_str(),
    ];
    let outcome = pagetide::run(&options, &command).finish(SOON);
    assert!(outcome.status.success(), "{}", outcome.stderr);
    let report = Report::read(&folder.path().join("report.json"));
    assert_eq!(report.number("evicted_pages"), 0);
    assert!(
        report.0["dry_run"].is_object() || report.0["dry_run"].is_array(),
        "{}",
        report.0
    );
}
