//! `cargo xtask test`: the list of steps.

use std::process::Command;

use crate::steps::{Beside, Steps};
use crate::summary::Counts;
use crate::units::{self, Which};
use crate::{cargo, e2e, needs, tidy};

const CLIPPY: [&str; 5] = ["clippy", "--workspace", "--all-targets", "--quiet", "--"];

/// Runs everything, or everything but the end-to-end tests; whether all of it passed.
pub(crate) fn run(with_e2e: bool) -> bool {
    let mut steps = Steps::default();
    steps.run("needs", || {
        needs::ensure_packages().map(|()| Counts::default())
    });
    steps.command("format", &mut cargo(&["fmt", "--all", "--check"]));
    steps.run("tidy", tidy_step);
    if with_e2e {
        // End-to-end tests wait most of the time. What only builds and computes takes what they leave.
        e2e::all(&mut steps, true, || vec![("beside", nice(&["beside"]))]);
    } else {
        checked(&mut steps);
        steps.run("tests of pure crates", || {
            units::run(&units::build()?, Which::Pure)
        });
    }
    steps.run("unit and property tests", || {
        units::run(&units::build()?, Which::Machine)
    });
    steps.finish()
}

/// What needs the processor alone; whether all of it passed. Tests run beside what reads the code: one of them is a single thread for a
/// minute and a half.
pub(crate) fn run_beside() -> bool {
    let mut steps = Steps::default();
    let mut built = Vec::new();
    steps.run("unit tests, built", || {
        built = units::build()?;
        Ok(Counts::default())
    });
    let tests = std::thread::spawn(move || match built.is_empty() {
        true => Err("they are not built".to_owned()),
        false => units::run(&built, Which::Pure),
    });
    checked(&mut steps);
    steps.run("tests of pure crates", || {
        let ended = tests.join();
        ended.unwrap_or_else(|_| Err("their thread has panicked".to_owned()))
    });
    steps.finish()
}

/// What reads the code and runs nothing of it.
fn checked(steps: &mut Steps) {
    steps.command("lints", cargo(&CLIPPY).args(["-D", "warnings"]));
    let mut doc = cargo(&[
        "doc",
        "--workspace",
        "--no-deps",
        "--document-private-items",
        "--quiet",
    ]);
    steps.command("docs", doc.env("RUSTDOCFLAGS", "-D warnings"));
}

/// This program as a process that yields to all others.
fn nice(words: &[&str]) -> Result<Beside, String> {
    let mut command = Command::new("nice");
    let exe = std::env::current_exe().unwrap_or_else(|_| "xtask".into());
    command.args(["-n", "19"]).arg(exe).args(words);
    Beside::start(&mut command)
}

fn tidy_step() -> Result<Counts, String> {
    match tidy::problems() {
        found if found.is_empty() => Ok(Counts::default()),
        found => Err(format!("\n  {}", found.join("\n  "))),
    }
}
