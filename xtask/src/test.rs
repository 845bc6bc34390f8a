//! `cargo xtask test` and `cargo xtask e2e`: the list of steps.

use std::path::PathBuf;
use std::process::Command;

use crate::steps::{Beside, Steps, run_counted};
use crate::summary::Counts;
use crate::{needs, root, tidy};

fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(args);
    command
}

const CLIPPY: [&str; 5] = ["clippy", "--workspace", "--all-targets", "--quiet", "--"];

const UNIT: [&str; 5] = ["test", "--workspace", "--exclude", "e2e", "--no-fail-fast"];

/// The part of the guests' tests that is short enough to run each time: the kernel that has what this
/// machine's may lack. All of them: `cargo xtask guest suite`.
const GUEST: [&str; 9] = [
    "guest",
    "suite",
    "-k",
    "6.12",
    "00-facts",
    "10-report",
    "11-ages",
    "12-swap",
    "19-commands",
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
        e2e_steps(&mut steps, None, &[], &mut || {
            beside = vec![("guest", nice(&GUEST)), ("built beside", nice(&["beside"]))];
        });
        for (name, beside) in beside {
            steps.run(name, || beside?.finish());
        }
    } else {
        built(&mut steps);
    }
    steps.command("unit and property tests", &mut cargo(&UNIT));
    steps.finish()
}

/// What needs the compiler alone; whether all of it passed.
pub(crate) fn run_beside() -> bool {
    let mut steps = Steps::default();
    built(&mut steps);
    // They run when nothing else does: some make control groups and swap.
    steps.command("unit tests, built", cargo(&UNIT).arg("--no-run"));
    steps.finish()
}

fn built(steps: &mut Steps) {
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
    Beside::start(command)
}

fn tidy_step() -> Result<Counts, String> {
    match tidy::problems() {
        found if found.is_empty() => Ok(Counts::default()),
        found => Err(format!("\n  {}", found.join("\n  "))),
    }
}

/// Runs the end-to-end tests, all or those of one file or with one name.
pub(crate) fn run_e2e(name: Option<&str>, words: &[&str]) -> bool {
    let mut steps = Steps::default();
    if steps.run("needs", || needs::ensure().map(|()| Counts::default())) {
        e2e_steps(&mut steps, name, words, &mut || ());
    }
    steps.finish()
}

/// The release binary is what users run, so it is what the tests run. They share two cores and
/// measure memory, so one runs at a time. `begun` is called when all is built and the first one runs.
fn e2e_steps(steps: &mut Steps, name: Option<&str>, words: &[&str], begun: &mut dyn FnMut()) {
    let build = [
        "build",
        "--release",
        "--package",
        "cli",
        "--bin",
        "pagetide",
    ];
    if !steps.command("release build", &mut cargo(&build)) {
        return;
    }
    let mut test = cargo(&["test", "--package", "e2e", "--no-fail-fast"]);
    let mut filter = None;
    match name {
        Some(name) if root().join(format!("crates/e2e/tests/{name}.rs")).is_file() => {
            test.args(["--test", name]);
        }
        Some(name) => {
            test.args(["--test", "*"]);
            filter = Some(name);
        }
        None => {}
    }
    test.args(["--", "--test-threads=1"]).args(filter);
    test.args(words);
    test.env("PAGETIDE_BIN", release_binary());
    steps.run("end-to-end tests", || run_counted(&mut test, begun));
}

/// Where the release build puts the program.
pub(crate) fn release_binary() -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    target.join("release/pagetide")
}
