//! The Python package, installed from the repository: what it gives is what the program prints, byte for byte; a sweep on two
//! workers of Ray gives the serial run's bytes, and loses nothing when a worker or the driver is killed.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::guard::Run;
use e2e::pagetide::binary;
use e2e::python::{Python, workspace};
use e2e::temp::serial;
use rustix::process::Signal;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);
/// Experiments of the sweep: enough that a quarter of them is some, few enough that three sweeps take seconds.
const EXPERIMENTS: u64 = 24;

/// One test, for the package is installed once.
#[test]
fn the_package_gives_the_programs_bytes_and_sweeps_lose_nothing() {
    let _serial = serial();
    let python = Python::installed();
    let examples = workspace().join("examples").to_string_lossy().into_owned();

    // Stopped, so that two reports of it tell the same.
    let sleeper = Run::new(["sleep", "1000"]).start();
    sleeper.signal(Signal::STOP);
    let pid = sleeper.pid().to_string();
    let words = [binary().as_str(), &examples, &pid].map(str::to_owned);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let folder = python.folder().to_string_lossy().into_owned();
    let same = python
        .script("tests/python/same.py", &words)
        .env("FOLDER", &folder);
    let same = same.finish(LIMIT);
    assert!(same.status.success(), "{}{}", same.stdout, same.stderr);
    assert_eq!(same.stdout, "same\n");
    drop(sleeper);

    let scenario = format!("{examples}/half-memory.toml");
    let count = EXPERIMENTS.to_string();
    let words = [&folder, &scenario, &count].map(String::as_str);
    let killed = python.done("tests/python/killed.py", &words, LIMIT);
    let line = killed.stdout.lines().last().unwrap_or_default();
    let told: Value = serde_json::from_str(line).expect("it tells what it did");
    assert_eq!(told["experiments"], EXPERIMENTS);
    assert!(
        told["kept_of_killed_driver"].as_u64() >= Some(EXPERIMENTS / 4),
        "{told}"
    );
    let words = ["--workers", "1", "--seeds", "2"];
    let example = python.done("examples/sweep.py", &words, LIMIT);
    let rows = example.stdout.lines().filter(|line| line.contains(" to "));
    assert_eq!(rows.count(), 5 * 2 * 2, "{}", example.stdout);
}
