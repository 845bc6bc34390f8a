//! The Python package, installed from the repository, returns what the program prints, byte for
//! byte. A sweep on two workers of Ray returns the same bytes as a serial run, and loses no result
//! when a worker or the driver is killed.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::guard::Run;
use e2e::pagetide::binary;
use e2e::python::{Python, workspace};
use e2e::temp::serial;
use rustix::process::Signal;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);
/// Number of experiments in the sweep: a quarter of them is still more than one, and three sweeps
/// take only seconds.
const EXPERIMENTS: u64 = 24;

/// There is one test only, because installing the package takes long.
#[test]
fn the_package_gives_the_programs_bytes_and_sweeps_lose_nothing() {
    let _serial = serial();
    let python = Python::installed();
    let examples = workspace().join("examples").to_string_lossy().into_owned();

    // The program is stopped, so that two reports on it are the same.
    let idle_program = Run::new(["sleep", "1000"]).start();
    idle_program.signal(Signal::STOP);
    let pid = idle_program.pid().to_string();
    let words = [binary().as_str(), &examples, &pid].map(str::to_owned);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let folder = python.folder().to_string_lossy().into_owned();
    let same = python
        .script("tests/python/same.py", &words)
        .env("FOLDER", &folder);
    let same = same.finish(LIMIT);
    assert!(same.status.success(), "{}{}", same.stdout, same.stderr);
    assert_eq!(same.stdout, "same\n");
    drop(idle_program);

    let scenario = format!("{examples}/half-memory.toml");
    let count = EXPERIMENTS.to_string();
    let words = [&folder, &scenario, &count].map(String::as_str);
    let killed = python.done("tests/python/killed.py", &words, LIMIT);
    let line = killed.stdout.lines().last().unwrap_or_default();
    let reported: Value = serde_json::from_str(line).expect("it tells what it did");
    assert_eq!(reported["experiments"], EXPERIMENTS);
    assert!(
        reported["kept_of_killed_driver"].as_u64() >= Some(EXPERIMENTS / 4),
        "{reported}"
    );
    let words = ["--workers", "1", "--seeds", "2"];
    let example = python.done("examples/sweep.py", &words, LIMIT);
    let rows = example.stdout.lines().filter(|line| line.contains(" to "));
    assert_eq!(rows.count(), 5 * 2 * 2, "{}", example.stdout);
}
