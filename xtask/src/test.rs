//! `cargo xtask test`: the list of steps.

use std::process::Command;

use crate::steps::{Beside, Steps};
use crate::summary::Counts;
use crate::units::{self, Which};
use crate::{cargo, e2e, needs, tidy};

const CLIPPY: [&str; 5] = ["clippy", "--workspace", "--all-targets", "--quiet", "--"];

/// The part of the guests' tests that is short enough to run each time: the kernel that has what this
/// machine's may lack. All of them: `cargo xtask guest suite`.
const GUEST: [&str; 10] = [
    "guest",
    "suite",
    "-k",
    "6.12",
    "00-facts",
    "10-report",
    "11-ages",
    "12-swap",
    "19-commands",
    "41-serve",
];

/// Runs everything, or everything but the end-to-end tests; whether all of it passed.
pub(crate) fn run(with_e2e: bool) -> bool {
    let mut steps = Steps::default();
    steps.run("needs", || needs::ensure().map(|()| Counts::default()));
    steps.command("format", &mut cargo(&["fmt", "--all", "--check"]));
    steps.run("tidy", tidy_step);
    if with_e2e {
        // End-to-end tests wait most of the time. What only builds or is a machine of its own takes what they leave.
        let mut beside = Vec::new();
        e2e::all(&mut steps, || {
            beside = vec![("guest", nice(&GUEST)), ("beside", nice(&["beside"]))];
        });
        for (name, beside) in beside {
            steps.run(name, || beside?.finish());
        }
    } else {
        checked(&mut steps);
        steps.run("tests of pure crates", || units::run(Which::Pure));
    }
    steps.run("unit and property tests", || units::run(Which::Machine));
    steps.finish()
}

/// What needs the processor alone; whether all of it passed.
pub(crate) fn run_beside() -> bool {
    let mut steps = Steps::default();
    checked(&mut steps);
    steps.run("unit tests, built", units::build);
    steps.run("tests of pure crates", || units::run(Which::Pure));
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
    // The guest takes what was built for the end-to-end tests: cargo would wait for who builds beside it.
    Beside::start(command.env("PAGETIDE_BUILT", "1"))
}

fn tidy_step() -> Result<Counts, String> {
    match tidy::problems() {
        found if found.is_empty() => Ok(Counts::default()),
        found => Err(format!("\n  {}", found.join("\n  "))),
    }
}
