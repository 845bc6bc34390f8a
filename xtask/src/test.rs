//! The steps of `cargo xtask test`.

use std::process::Command;

use crate::e2e::Order;
use crate::steps::{Beside, Steps};
use crate::summary::Counts;
use crate::units::{self, Which};
use crate::{cargo, e2e, needs, tidy};

const CLIPPY: [&str; 5] = ["clippy", "--workspace", "--all-targets", "--quiet", "--"];

/// Runs all checks; without an order for the end-to-end tests, all except those. Returns whether
/// all passed.
pub(crate) fn run(e2e: Option<Order>) -> bool {
    let mut steps = Steps::default();
    steps.run("needs", || {
        needs::ensure_packages().map(|()| Counts::default())
    });
    steps.command("format", &mut cargo(&["fmt", "--all", "--check"]));
    steps.run("tidy", tidy_step);
    if let Some(order) = e2e {
        // End-to-end tests wait most of the time; steps that only build and compute use the rest of
        // the processors' time.
        e2e::all(&mut steps, true, order, || {
            Some(("beside", nice(&["beside"])))
        });
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

/// Runs the steps that need only the processor; returns whether all passed. Tests run beside the
/// checks of the code: one of these is a single thread for a minute and a half.
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

/// Runs the checks that only read the code.
fn checked(steps: &mut Steps) {
    steps.command("lints", cargo(&CLIPPY).args(["-D", "warnings"]));
    // The program with fewer features, which no test builds: that of `cargo install`, and the
    // smallest.
    for (name, feature) in [
        ("lints of the default program", None),
        (
            "lints of the smallest program",
            Some("--no-default-features"),
        ),
    ] {
        let mut lints = cargo(&["clippy", "-p", "cli", "--quiet"]);
        lints.args(feature).args(["--", "-D", "warnings"]);
        steps.command(name, &mut lints);
    }
    let mut doc = cargo(&[
        "doc",
        "--workspace",
        "--no-deps",
        "--document-private-items",
        "--quiet",
    ]);
    steps.command("docs", doc.env("RUSTDOCFLAGS", "-D warnings"));
    let examples = ["test", "--doc", "--quiet", "-p", "pagetide-engine"];
    let pagetables = ["-p", "pagetide-pagetables"];
    steps.command("examples of READMEs", cargo(&examples).args(pagetables));
}

/// Starts this program as a process of the lowest priority.
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
