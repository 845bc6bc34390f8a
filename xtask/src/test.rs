//! `cargo xtask test` and `cargo xtask e2e`: the list of steps.

use std::path::PathBuf;
use std::process::Command;

use crate::steps::{Beside, Steps, run_counted};
use crate::summary::Counts;
use crate::units::{self, Which};
use crate::{cargo, needs, root, tidy};

const CLIPPY: [&str; 5] = ["clippy", "--workspace", "--all-targets", "--quiet", "--"];

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
    let mut which = vec!["test", "--package", "e2e", "--no-fail-fast"];
    let mut filter = None;
    match name {
        Some(name) if root().join(format!("crates/e2e/tests/{name}.rs")).is_file() => {
            which.extend(["--test", name]);
        }
        Some(name) => {
            which.extend(["--test", "*"]);
            filter = Some(name);
        }
        None => {}
    }
    if !e2e_built(steps, &which) {
        return;
    }
    let mut test = cargo(&which);
    test.args(["--", "--test-threads=1"]).args(filter);
    test.args(words);
    test.env("PAGETIDE_BIN", release_binary());
    test.env("PAGETIDE_EXAMPLES", target().join("debug/examples"));
    steps.run("end-to-end tests", || run_counted(&mut test, begun));
}

/// Builds what the end-to-end tests need, before anything is built beside them: whoever asked cargo for it then would
/// wait for that. The release build ends with one thread (the linker's), so the tests are built beside it.
fn e2e_built(steps: &mut Steps, which: &[&str]) -> bool {
    let release = release_build().spawn();
    // By the tests' profile, so that all below it is built once.
    let mut examples = cargo(&["build", "--profile", "test"]);
    examples.args(["--package", "host", "--examples"]);
    let built = steps.command("examples, built", &mut examples)
        && steps.command("end-to-end tests, built", cargo(which).arg("--no-run"));
    let released = steps.run("release build", || {
        let status = release.and_then(|mut release| release.wait());
        match status {
            Ok(status) if status.success() => Ok(Counts::default()),
            Ok(status) => Err(format!("cargo ended with {status}")),
            Err(error) => Err(format!("cargo cannot be run: {error}")),
        }
    });
    built && released
}

/// Builds the program as users do.
pub(crate) fn release_build() -> Command {
    cargo(&[
        "build",
        "--release",
        "--package",
        "cli",
        "--bin",
        "pagetide",
    ])
}

/// Where the release build puts the program.
pub(crate) fn release_binary() -> PathBuf {
    target().join("release/pagetide")
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into)
}
