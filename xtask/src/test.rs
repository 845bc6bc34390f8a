//! `cargo xtask test` and `cargo xtask e2e`: the list of steps.

use std::path::PathBuf;
use std::process::Command;

use crate::steps::{Beside, Steps};
use crate::summary::Counts;
use crate::{needs, root, tidy};

fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(args);
    command
}

const CLIPPY: [&str; 5] = ["clippy", "--workspace", "--all-targets", "--quiet", "--"];

/// The part of the guests' tests that is short enough to run each time: the kernel that has what this
/// machine's may lack. All of them: `cargo xtask guest suite`.
const GUEST: [&str; 7] = [
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
    steps.command("lints", cargo(&CLIPPY).args(["-D", "warnings"]));
    let mut doc = cargo(&[
        "doc",
        "--workspace",
        "--no-deps",
        "--document-private-items",
        "--quiet",
    ]);
    steps.command("docs", doc.env("RUSTDOCFLAGS", "-D warnings"));
    steps.run("tidy", tidy_step);
    let unit = ["test", "--workspace", "--exclude", "e2e", "--no-fail-fast"];
    steps.command("unit and property tests", &mut cargo(&unit));
    if with_e2e {
        // A guest is its own machine, and takes what the other tests leave of this one.
        let guest = Beside::start(nice_guest());
        e2e_steps(&mut steps, None, &[]);
        steps.run("guest", || guest?.finish());
    }
    steps.finish()
}

/// The guests' tests as a process that yields to all others.
fn nice_guest() -> Command {
    let mut command = Command::new("nice");
    let exe = std::env::current_exe().unwrap_or_else(|_| "xtask".into());
    command.args(["-n", "19"]).arg(exe).args(["guest", "suite"]);
    command.args(GUEST);
    command
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
        e2e_steps(&mut steps, name, words);
    }
    steps.finish()
}

/// The release binary is what users run, so it is what the tests run. They share two cores and
/// measure memory, so one runs at a time.
fn e2e_steps(steps: &mut Steps, name: Option<&str>, words: &[&str]) {
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
    steps.command("end-to-end tests", &mut test);
}

/// Where the release build puts the program.
pub(crate) fn release_binary() -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    target.join("release/pagetide")
}
