//! End-to-end tests: they run the program as users have it, on real programs, in four lanes that
//! run at the same time.
//!
//! Invariant: a lane runs one test at a time, because tests measure memory and time and share two
//! processors. There are several lanes because most tests mostly wait. The files in [`SECOND`],
//! [`THIRD`] and [`FOURTH`] run beside other tests, and must pass beside busy loops, too. While a
//! test that needs swap of its own runs, no other test with swap may run (`e2e::swap_turn`). So
//! such tests come first in the first lane, and tests that share swap come last in the second and
//! the fourth.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::binaries::{self, Binary, Tries};
use crate::steps::{Beside, Running, Steps, finish_all};
use crate::summary::Counts;
use crate::{cargo, guest, needs, root};

/// Files of the first lane whose tests need swap of their own. They come first: meanwhile the
/// second lane runs tests without swap.
const ALONE: [&str; 9] = [
    "programs",
    "hostile",
    "redis",
    "odd_targets",
    "swap",
    "demo",
    "serve_limits",
    "serve_pressure",
    "resize",
];

/// Files of the second lane; those without swap come first. There are as many as let this lane end
/// at the same time as the others.
const SECOND: [&str; 19] = [
    "poor_hosts",
    "package",
    "shipped",
    "ages_checker",
    "serve_ages",
    "serve_metrics",
    "serve_budget",
    "serve_floods",
    "serve_begins",
    "serve_strain",
    "serve_group_shapes",
    "fuzz",
    "stuck",
    // Builds the package, which takes long on a busy machine, so short tests come before it.
    "python",
    // The following share swap.
    "notice_wrappers",
    "notice_memory",
    "groups",
    "serve_abuse",
    "serve_programs",
];

/// Files of the third lane, which also shares swap: it starts when all tests with swap of their own
/// have ended.
const THIRD: [&str; 10] = [
    "policies",
    "report_swapped",
    "recency",
    "serve_reports",
    "run_in_place",
    "reclaim_older_than",
    "serve_host",
    "serve_cache",
    "tutorial",
    "howtos",
];

/// Files of the fourth lane, which first runs the guest; those without swap come first.
const FOURTH: [&str; 11] = [
    "serve_page",
    "needed",
    "report_family",
    "report_truth",
    "report_sums",
    "report_refused",
    "report_page",
    "whatif",
    "run_gate",
    // The following share swap.
    "serve_kernel_reclaim",
    "limits",
];

/// Index in [`lanes`] of the files that no list names: the second part of the first lane.
const REST: usize = 1;

/// Guest tests that are short enough for every run, under a kernel with features that this
/// machine's may lack. `cargo xtask guest suite` runs all guest tests.
const GUEST: [&str; 8] = [
    "-k",
    "6.12",
    "00-facts",
    "10-report",
    "11-ages",
    "12-swap",
    "19-commands",
    "41-serve",
];

/// Runs the tests of all files (without `name`), of one file, or with one name. Returns whether all
/// passed.
pub(crate) fn run(name: Option<&str>, words: &[&str]) -> bool {
    let mut steps = Steps::default();
    match name {
        None => {
            if steps.run("needs", || needs::ensure_packages().map(none)) {
                all(&mut steps, false, Order::Together, || None);
            }
        }
        Some(name) => {
            if steps.run("needs", || needs::ensure().map(none)) {
                some(&mut steps, name, words);
            }
        }
    }
    steps.finish()
}

/// Whether steps that may run beside others do so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// They do, which takes less time.
    Together,
    /// Each waits for the one before it: a test shares the machine with no other test.
    InTurn,
}

/// Runs all tests in lanes; with `with_guest`, the fourth lane first runs the guest's tests.
/// `beside` is called when all tests are built and cargo's folder is free for other builds; it
/// returns a step that runs beside the lanes.
pub(crate) fn all(
    steps: &mut Steps,
    with_guest: bool,
    order: Order,
    beside: impl FnOnce() -> Option<Running>,
) {
    let venvs = std::thread::spawn(needs::ensure_venvs);
    let release = release_build().stdin(Stdio::null()).spawn();
    let tests = built(steps, &test_words(&names()));
    let [alone, rest, second, third, fourth] = lanes(tests.unwrap_or_default());
    let mut running = Vec::new();
    // Steps that run at the same time are waited for in the opposite order of their start.
    let mut begin = |steps: &mut Steps, one: Running| match order {
        Order::Together => running.insert(0, one),
        Order::InTurn => finish_all(steps, vec![one]),
    };
    // The release build has a folder of its own, and its last part uses one thread (the linker's).
    if let Some(one) = (!alone.is_empty()).then(beside).flatten() {
        begin(steps, one);
    }
    let is_released = released(steps, release);
    steps.run("Python packages", || {
        let ended = venvs.join();
        ended.unwrap_or_else(|_| Err("their thread has panicked".to_owned()))?;
        Ok(Counts::default())
    });
    if is_released && !alone.is_empty() {
        let fourth = fourth_lane(&fourth, with_guest);
        begin(steps, ("those of the fourth lane", fourth));
        let second = other_lane("second", &[], &second);
        begin(steps, ("those of the second lane", second));
        steps.run("end-to-end tests with swap of their own", || {
            lane(&alone, &[])
        });
        let third = other_lane("third", &[], &third);
        begin(steps, ("those of the third lane", third));
        steps.run("other end-to-end tests", || lane(&rest, &[]));
    }
    finish_all(steps, running);
}

/// Returns the two parts of the first lane, then the other lanes; each is in the order in which it
/// runs.
fn lanes(mut tests: Vec<Binary>) -> [Vec<Binary>; 5] {
    tests.sort_by_key(|one| (place(&one.name), one.name.clone()));
    let mut lanes = [const { Vec::new() }; 5];
    for one in tests {
        lanes[place(&one.name).0].push(one);
    }
    lanes
}

/// Returns the paths of the binaries.
fn files(tests: &[Binary]) -> Vec<PathBuf> {
    tests.iter().map(|one| one.file.clone()).collect()
}

/// Starts the fourth lane of [`all`].
fn fourth_lane(tests: &[Binary], with_guest: bool) -> Result<Beside, String> {
    let guest = with_guest.then(|| "--guest".into());
    let words: Vec<OsString> = guest.into_iter().collect();
    other_lane("fourth", &words, tests)
}

/// Starts the lane of this name as a separate process, with these arguments and binaries.
fn other_lane(name: &str, words: &[OsString], tests: &[Binary]) -> Result<Beside, String> {
    let exe = std::env::current_exe();
    let mut command =
        Command::new(exe.map_err(|error| format!("this program is not found: {error}"))?);
    command
        .arg(format!("{name}-lane"))
        .args(words)
        .args(files(tests));
    // The guest uses what was built for the tests: cargo would wait for other builds.
    command.env("PAGETIDE_BUILT", "1");
    Beside::start(command.env("PAGETIDE_LANE", name))
}

/// Runs the lane of this name with these binaries, after the guest's tests if `with_guest`. Returns
/// whether all passed.
pub(crate) fn run_lane(name: &str, files: &[&str], with_guest: bool) -> bool {
    let mut steps = Steps::default();
    let tests = of_files(files);
    if with_guest {
        // The guest's clock is the machine's: at the lowest priority beside busy loops, its
        // timeouts passed before it had booted.
        steps.run("guest", || guest::suite(&GUEST));
    }
    steps.run(&format!("{name} lane"), || lane(&tests, &[]));
    steps.finish()
}

fn of_files(files: &[&str]) -> Vec<Binary> {
    let binary = |file: &&str| Binary {
        file: file.into(),
        folder: folder(),
        name: String::new(),
    };
    files.iter().map(binary).collect()
}

/// Runs the tests of one lane; each binary gets the arguments `words`.
fn lane(binaries: &[Binary], words: &[&str]) -> Result<Counts, String> {
    binaries::run("end-to-end tests", Tries::Two, binaries.iter(), |command| {
        given(command.arg("--test-threads=1").args(words));
    })
}

/// Returns the counts of a step that runs no tests.
fn none((): ()) -> Counts {
    Counts::default()
}

/// Returns the lane of a file (index in [`lanes`]), and its position there.
fn place(name: &str) -> (usize, usize) {
    let lanes = [&ALONE[..], &[], &SECOND, &THIRD, &FOURTH];
    let at = |files: &&[&str]| files.iter().position(|file| *file == name);
    let found = (0..).zip(lanes.iter().map(at));
    let found = found.filter_map(|(lane, at)| Some((lane, at?))).next();
    found.unwrap_or((REST, 0))
}

/// Runs the tests of one file, or with one name.
fn some(steps: &mut Steps, name: &str, words: &[&str]) {
    let mut names = names();
    let is_file = names.iter().any(|one| one == name);
    names.retain(|one| !is_file || one == name);
    let release = release_build().stdin(Stdio::null()).spawn();
    let tests = built(steps, &test_words(&names));
    let is_released = released(steps, release);
    if let (Some(tests), true) = (tests, is_released) {
        let wanted = (!is_file).then_some(name).into_iter();
        let words: Vec<&str> = wanted.chain(words.iter().copied()).collect();
        steps.run("end-to-end tests", || lane(&tests, &words));
    }
}

/// Returns the folder of the crate `e2e`.
fn folder() -> PathBuf {
    root().join("crates/e2e")
}

/// Returns the names of all test files, sorted.
fn names() -> Vec<String> {
    let entries = std::fs::read_dir(folder().join("tests"));
    let paths = entries.into_iter().flatten().flatten();
    let paths = paths.map(|entry| entry.path());
    let mut names: Vec<String> = paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "rs"))
        .filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    names
}

/// The crates that builds with the tests' profile select, which are those of the unit tests
/// (`units`). If only some crates were selected, cargo would build nearly everything below `host`
/// again, with other features.
const OF_ALL_CRATES: [&str; 3] = ["--workspace", "--exclude", "python"];

/// Returns cargo's arguments to build these files of tests. Programs that only measure are
/// examples: they are not built.
fn test_words(names: &[String]) -> Vec<String> {
    let mut words: Vec<String> = ["test", "--no-run"].map(str::to_owned).to_vec();
    words.extend(OF_ALL_CRATES.map(str::to_owned));
    for name in names {
        words.extend(["--test".to_owned(), name.clone()]);
    }
    words
}

/// Sets the environment of the tests. They run the release binary, because users run that.
fn given(command: &mut Command) -> &mut Command {
    command.env("PAGETIDE_BIN", release_binary());
    command.env("PAGETIDE_EXAMPLES", examples());
    // Tests make packages with this program: cargo would wait for builds beside the tests.
    let own = std::env::current_exe().unwrap_or_else(|_| "xtask".into());
    command.env("PAGETIDE_XTASK", own)
}

/// Builds the examples and these tests, beside the release build and before anything else: a later
/// cargo would wait for other builds. Returns the test binaries; `None` if one cannot be built.
fn built(steps: &mut Steps, words: &[String]) -> Option<Vec<Binary>> {
    if !steps.command("examples, built", &mut examples_build()) {
        return None;
    }
    let mut built = None;
    steps.run("end-to-end tests, built", || {
        let mut tests = binaries::built(words)?;
        // Another crate may have tests of the same name.
        tests.retain(|one| one.folder.ends_with("e2e"));
        built = Some(tests);
        Ok(Counts::default())
    });
    built
}

/// Waits for the release build; returns whether it succeeded.
fn released(steps: &mut Steps, release: std::io::Result<Child>) -> bool {
    steps.run("release build", || {
        let status = release.and_then(|mut release| release.wait());
        match status {
            Ok(status) if status.success() => Ok(Counts::default()),
            Ok(status) => Err(format!("cargo ended with {status}")),
            Err(error) => Err(format!("cargo cannot be run: {error}")),
        }
    })
}

/// Returns the command that builds programs that only the tests need. It uses the tests' profile,
/// so that all dependencies are built once.
pub(crate) fn examples_build() -> Command {
    let mut build = cargo(&["build", "--profile", "test"]);
    build.args(OF_ALL_CRATES).args(["--example", "hard_limit"]);
    build
}

/// Returns the folder of the examples.
pub(crate) fn examples() -> PathBuf {
    target().join("debug/examples")
}

/// Returns the command that builds the program with all commands, as packages have it. It also
/// selects the Python package, of which nothing is built: otherwise some shared dependencies would
/// have fewer features, and the test of that package would build nearly everything again.
pub(crate) fn release_build() -> Command {
    cargo(&[
        "build",
        "--release",
        "--package",
        "cli",
        "--package",
        "python",
        "--features",
        "cli/simulator",
        "--bin",
        "pagetide",
    ])
}

/// Returns the path of the release build's program.
pub(crate) fn release_binary() -> PathBuf {
    target().join("release/pagetide")
}

/// Returns cargo's target folder.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_of_files_that_there_are() {
        let names = names();
        for name in ALONE.iter().chain(&SECOND).chain(&THIRD).chain(&FOURTH) {
            assert!(names.iter().any(|one| one == name), "{name}");
        }
        // Every test file must be named in cargo's arguments.
        let words = test_words(&names);
        assert_eq!(
            words.iter().filter(|word| *word == "--test").count(),
            names.len()
        );
        assert_eq!((place("poor_hosts"), place("demo")), ((2, 0), (0, 5)));
        assert_eq!(place("hard_limit"), (REST, 0));
        let of = |name: &str| Binary {
            file: name.into(),
            folder: folder(),
            name: name.to_owned(),
        };
        let lanes = lanes(names.iter().map(|name| of(name)).collect());
        assert_eq!(
            lanes.each_ref().map(Vec::len).iter().sum::<usize>(),
            names.len()
        );
        assert_eq!(lanes[0][0].name, ALONE[0]);
        assert_eq!(lanes[3].len(), THIRD.len());
    }
}
