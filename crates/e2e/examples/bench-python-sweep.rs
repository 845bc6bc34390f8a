//! `cargo xtask bench python-sweep [--experiments 1000] [--json]`
//!
//! Runs simulated experiments from Python in three ways: one after the other; on two workers of
//! Ray, one of which is killed halfway; and by a driver process that is killed and started again.
//! All must produce the same bytes as the program `pagetide`.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use e2e::bench::{Args, Findings};
use e2e::packages::done;
use e2e::pagetide;
use e2e::python::{Python, workspace};
use e2e::temp::serial;
use serde_json::Value;

/// Time limit of all experiments.
const LIMIT: Duration = Duration::from_secs(3600);
/// One of so many results is compared with what the program `pagetide` prints.
const EVERY: usize = 50;

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("python-sweep", &args);
    let experiments = args.number("--experiments", 1000).to_string();
    let _serial = serial();
    let python = Python::installed();
    let folder = python.folder().to_string_lossy().into_owned();
    let scenario = workspace().join("examples/half-memory.toml");
    let scenario = scenario.to_string_lossy().into_owned();
    // The script checks that the results are the same, that none was computed twice, and that a
    // worker was killed.
    let words = [&folder, &scenario, &experiments].map(String::as_str);
    let outcome = python.done("tests/python/killed.py", &words, LIMIT);
    let line = outcome.stdout.lines().last().unwrap_or_default();
    let reported: Value = serde_json::from_str(line).expect("it tells what it did");
    let number = |name: &str| reported[name].as_f64().expect("a number");
    found.at_least(
        "results that are the serial run's, byte for byte",
        number("experiments"),
        "",
        args.number("--experiments", 1000) as f64,
    );
    found.figure("one after the other", number("serial_s"), "s");
    found.figure(
        "two workers of Ray, one of them killed",
        number("ray_s"),
        "s",
    );
    found.figure(
        "results that a killed driver left, none done again",
        number("kept_of_killed_driver"),
        "",
    );
    let (same, requested) = same_as_the_program(&python.folder().join("ray"), &scenario);
    found.at_least(
        "results asked of the program, the same bytes",
        same as f64,
        "",
        requested as f64,
    );
    found.finish()
}

/// Number of compared results that equal the program's output, and number of all compared results.
fn same_as_the_program(results: &Path, scenario: &str) -> (usize, usize) {
    let index = std::fs::read_to_string(results.join("experiments.jsonl")).expect("it is there");
    let chosen: Vec<Value> = index
        .lines()
        .step_by(EVERY)
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let is_same = |reported: &&Value| {
        let text = |value: &Value| value.as_str().map_or(value.to_string(), str::to_owned);
        let mut words = vec!["sim".to_owned(), "--json".to_owned(), scenario.to_owned()];
        words.extend(["--seed".to_owned(), text(&reported["seed"])]);
        for (key, value) in reported["set"].as_object().expect("what was set") {
            words.extend(["--set".to_owned(), format!("{key}={}", text(value))]);
        }
        let printed = done(&pagetide::command(words)).stdout;
        let file = results.join(format!("{}.json", text(&reported["key"])));
        std::fs::read_to_string(file).is_ok_and(|kept| kept == printed)
    };
    (chosen.iter().filter(is_same).count(), chosen.len())
}
