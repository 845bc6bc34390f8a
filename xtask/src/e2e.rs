//! End-to-end tests: the program as users have it, on real programs, in two lanes.
//!
//! Invariant: a lane runs one test at a time, since tests measure memory and time and share two cores. Most of them wait most
//! of the time, so there are two: what stands in [`SECOND`] runs beside all others, and passes beside busy loops, too.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::binaries::{self, Binary};
use crate::steps::{Beside, Steps, run_counted};
use crate::summary::Counts;
use crate::{cargo, needs, root};

/// Files whose tests need no swap: whoever takes its own away has the pages of others brought back, and those of the first
/// lane count what is out.
const SECOND: [&str; 12] = [
    "poor_hosts",
    "package",
    "shipped",
    "ages_checker",
    "serve_ages",
    "report_family",
    "report_truth",
    "report_sums",
    "whatif",
    "report_page",
    "python",
    "serve_page",
];
/// All of them: the programs that only measure are examples, so nothing but tests is built.
const BUILD: [&str; 6] = ["test", "--package", "e2e", "--test", "*", "--no-run"];

/// Runs those of all files, or of one file, or with one name; whether all passed.
pub(crate) fn run(name: Option<&str>, words: &[&str]) -> bool {
    let mut steps = Steps::default();
    let is_ready = steps.run("needs", || needs::ensure().map(|()| Counts::default()));
    if is_ready {
        match name {
            None => all(&mut steps, || ()),
            Some(name) => some(&mut steps, name, words),
        }
    }
    steps.finish()
}

/// All in two lanes. `begun` is called when all is built, and others may build.
pub(crate) fn all(steps: &mut Steps, begun: impl FnOnce()) {
    if !built(steps, &BUILD) {
        return;
    }
    // Which they are is asked before others build: cargo would wait for those.
    let mut all = match binaries::built(&BUILD) {
        Ok(all) => all,
        Err(why) => {
            steps.run("end-to-end tests", || Err(why));
            return;
        }
    };
    all.sort_by_key(|one| (place(&one.name), one.name.clone()));
    let (second, first): (Vec<Binary>, Vec<Binary>) =
        all.into_iter().partition(|one| place(&one.name).is_some());
    begun();
    let second = std::env::current_exe()
        .map_err(|error| format!("this program is not found: {error}"))
        .and_then(|exe| {
            let mut command = Command::new(exe);
            command
                .arg("second-lane")
                .args(second.iter().map(|one| &one.file));
            Beside::start(command.env("PAGETIDE_LANE", "second"))
        });
    steps.run("end-to-end tests", || lane(&first));
    steps.run("those of the second lane", || second?.finish());
}

/// The second lane of [`all`], a process of its own with these binaries; whether all passed.
pub(crate) fn run_second(files: &[&str]) -> bool {
    let mut steps = Steps::default();
    let binary = |file: &&str| Binary {
        file: file.into(),
        folder: root().join("crates/e2e"),
        name: String::new(),
    };
    let binaries: Vec<Binary> = files.iter().map(binary).collect();
    steps.run("second lane", || lane(&binaries));
    steps.finish()
}

/// Runs the tests of one lane.
fn lane(binaries: &[Binary]) -> Result<Counts, String> {
    binaries::run("end-to-end tests", binaries.iter(), |command| {
        given(command.arg("--test-threads=1"));
    })
}

/// Where a file stands in the second lane.
fn place(name: &str) -> Option<usize> {
    SECOND.iter().position(|second| *second == name)
}

/// Those of one file, or with one name.
fn some(steps: &mut Steps, name: &str, words: &[&str]) {
    let is_file = root().join(format!("crates/e2e/tests/{name}.rs")).is_file();
    let target = if is_file { name } else { "*" };
    let which = [
        "test",
        "--package",
        "e2e",
        "--no-fail-fast",
        "--test",
        target,
    ];
    if !built(steps, &[&which[..], &["--no-run"]].concat()) {
        return;
    }
    let mut test = cargo(&which);
    test.args(["--", "--test-threads=1"]);
    test.args((!is_file).then_some(name)).args(words);
    given(&mut test);
    steps.run("end-to-end tests", || run_counted(&mut test));
}

/// The release binary is what users run, so it is what the tests run.
fn given(command: &mut Command) -> &mut Command {
    command.env("PAGETIDE_BIN", release_binary());
    command.env("PAGETIDE_EXAMPLES", examples());
    // Packages are made by this program: cargo would wait for who builds beside the tests.
    let own = std::env::current_exe().unwrap_or_else(|_| "xtask".into());
    command.env("PAGETIDE_XTASK", own)
}

/// Builds what the end-to-end tests need, before anything is built beside them: whoever asked cargo for it then would
/// wait for that. The release build ends with one thread (the linker's), so the tests are built beside it.
fn built(steps: &mut Steps, which: &[&str]) -> bool {
    let release = release_build().stdin(Stdio::null()).spawn();
    let built = steps.command("examples, built", &mut examples_build())
        && steps.command("end-to-end tests, built", &mut cargo(which));
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

/// Builds the programs that tests need and users do not: by the tests' profile, so that all below it is built once.
pub(crate) fn examples_build() -> Command {
    cargo(&[
        "build",
        "--profile",
        "test",
        "--package",
        "host",
        "--examples",
    ])
}

/// Where those are.
pub(crate) fn examples() -> PathBuf {
    target().join("debug/examples")
}

/// Builds the program as users do. The Python package is named, though nothing of it is built, for its features: without, the
/// test of that package builds nearly all once more, since some of what both depend on has more features there.
pub(crate) fn release_build() -> Command {
    cargo(&[
        "build",
        "--release",
        "--package",
        "cli",
        "--package",
        "python",
        "--bin",
        "pagetide",
    ])
}

/// Where the release build puts the program.
pub(crate) fn release_binary() -> PathBuf {
    target().join("release/pagetide")
}

/// Where cargo builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_lane_is_of_files_that_there_are() {
        for name in SECOND {
            let file = root().join(format!("crates/e2e/tests/{name}.rs"));
            assert!(file.is_file(), "{name}");
        }
        assert_eq!((place("poor_hosts"), place("demo")), (Some(0), None));
    }
}
