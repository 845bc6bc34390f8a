//! End-to-end tests: the program as users have it, on real programs, in four lanes.
//!
//! Invariant: a lane runs one test at a time, since tests measure memory and time and share two cores. Most of them wait most
//! of the time, so there are several: what stands in [`SECOND`], [`THIRD`] and [`FOURTH`] runs beside others, and passes beside
//! busy loops, too. A test that needs swap of its own keeps all away that have swap (`e2e::swap_turn`), so those are the first
//! of the first lane, and tests that share swap are the last of the second and the fourth.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::binaries::{self, Binary};
use crate::steps::{Beside, Running, Steps, finish_all};
use crate::summary::Counts;
use crate::{cargo, guest, needs, root};

/// Files of the first lane with tests that need swap of their own: they come first, while the second has tests without.
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

/// Files of the second lane: those without swap come first. As many as let it end with the others.
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
    // It builds the package, which takes long on a busy machine: what is short does not wait for it.
    "python",
    // These share swap.
    "notice_wrappers",
    "notice_memory",
    "groups",
    "serve_abuse",
    "serve_programs",
];

/// Files of the third lane, which begins when no test needs swap of its own any more: they share it, too.
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

/// Files of the fourth lane, after the guest: those without swap come first.
const FOURTH: [&str; 10] = [
    "serve_page",
    "needed",
    "report_family",
    "report_truth",
    "report_sums",
    "report_refused",
    "report_page",
    "whatif",
    "run_gate",
    // It shares swap.
    "limits",
];

/// Which of [`lanes`] has what is named in no list: the other files of the first lane.
const REST: usize = 1;

/// The part of the guests' tests that is short enough to run each time: the kernel that has what this machine's may lack. All
/// of them: `cargo xtask guest suite`.
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

/// Runs those of all files, or of one file, or with one name; whether all passed.
pub(crate) fn run(name: Option<&str>, words: &[&str]) -> bool {
    let mut steps = Steps::default();
    match name {
        None => {
            if steps.run("needs", || needs::ensure_packages().map(none)) {
                all(&mut steps, false, Vec::new);
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

/// All in lanes, and the guest within the fourth if it is wanted. `beside` is called when all tests are built and others may build where
/// they were, and says what runs beside the lanes.
pub(crate) fn all(steps: &mut Steps, with_guest: bool, beside: impl FnOnce() -> Vec<Running>) {
    let venvs = std::thread::spawn(needs::ensure_venvs);
    let release = release_build().stdin(Stdio::null()).spawn();
    let tests = built(steps, &test_words(&names()));
    let [alone, rest, second, third, fourth] = lanes(tests.unwrap_or_default());
    // The release build has a folder of its own, and ends with one thread (the linker's).
    let mut running = match alone.is_empty() {
        true => Vec::new(),
        false => beside(),
    };
    let is_released = released(steps, release);
    steps.run("Python packages", || {
        let ended = venvs.join();
        ended.unwrap_or_else(|_| Err("their thread has panicked".to_owned()))?;
        Ok(Counts::default())
    });
    if is_released && !alone.is_empty() {
        let second = other_lane("second", &[], &second);
        let fourth = fourth_lane(&fourth, with_guest);
        steps.run("end-to-end tests with swap of their own", || {
            lane(&alone, &[])
        });
        let third = other_lane("third", &[], &third);
        // These are waited for first.
        running.insert(0, ("those of the fourth lane", fourth));
        running.insert(0, ("those of the third lane", third));
        running.insert(0, ("those of the second lane", second));
        steps.run("other end-to-end tests", || lane(&rest, &[]));
    }
    finish_all(steps, running);
}

/// The two parts of the first lane, and the others, in the order in which they run.
fn lanes(mut tests: Vec<Binary>) -> [Vec<Binary>; 5] {
    tests.sort_by_key(|one| (place(&one.name), one.name.clone()));
    let mut lanes = [const { Vec::new() }; 5];
    for one in tests {
        lanes[place(&one.name).0].push(one);
    }
    lanes
}

/// Where those are.
fn files(tests: &[Binary]) -> Vec<PathBuf> {
    tests.iter().map(|one| one.file.clone()).collect()
}

/// Starts the fourth lane of [`all`].
fn fourth_lane(tests: &[Binary], with_guest: bool) -> Result<Beside, String> {
    let guest = with_guest.then(|| "--guest".into());
    let words: Vec<OsString> = guest.into_iter().collect();
    other_lane("fourth", &words, tests)
}

/// Starts a lane of this name, a process of its own, with these words and binaries.
fn other_lane(name: &str, words: &[OsString], tests: &[Binary]) -> Result<Beside, String> {
    let exe = std::env::current_exe();
    let mut command =
        Command::new(exe.map_err(|error| format!("this program is not found: {error}"))?);
    command
        .arg(format!("{name}-lane"))
        .args(words)
        .args(files(tests));
    // The guest takes what was built for the tests: cargo would wait for who builds beside it.
    command.env("PAGETIDE_BUILT", "1");
    Beside::start(command.env("PAGETIDE_LANE", name))
}

/// A lane of [`all`] of this name with these binaries, after the guest if it is wanted; whether all passed.
pub(crate) fn run_lane(name: &str, files: &[&str], with_guest: bool) -> bool {
    let mut steps = Steps::default();
    let tests = of_files(files);
    if with_guest {
        // The guest's clock is the machine's: held at the lowest priority beside busy loops, its waits were over before it
        // had booted.
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

/// Runs the tests of one lane, with these words for each binary.
fn lane(binaries: &[Binary], words: &[&str]) -> Result<Counts, String> {
    binaries::run("end-to-end tests", binaries.iter(), |command| {
        given(command.arg("--test-threads=1").args(words));
    })
}

/// A step that counts nothing.
fn none((): ()) -> Counts {
    Counts::default()
}

/// The lane of a file ([`lanes`]), and where it stands there.
fn place(name: &str) -> (usize, usize) {
    let lanes = [&ALONE[..], &[], &SECOND, &THIRD, &FOURTH];
    let at = |files: &&[&str]| files.iter().position(|file| *file == name);
    let found = (0..).zip(lanes.iter().map(at));
    let found = found.filter_map(|(lane, at)| Some((lane, at?))).next();
    found.unwrap_or((REST, 0))
}

/// Those of one file, or with one name.
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

/// The folder of their crate.
fn folder() -> PathBuf {
    root().join("crates/e2e")
}

/// The names of all files of tests, sorted.
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

/// What is built by the tests' profile selects the same crates as unit tests do (`units`), and names what is to be built of
/// them. The story: of some crates alone, cargo built nearly all below `host` a second time, with other features.
const OF_ALL_CRATES: [&str; 3] = ["--workspace", "--exclude", "python"];

/// What cargo is asked for to build these files of tests. The programs that only measure are examples: they are not built.
fn test_words(names: &[String]) -> Vec<String> {
    let mut words: Vec<String> = ["test", "--no-run"].map(str::to_owned).to_vec();
    words.extend(OF_ALL_CRATES.map(str::to_owned));
    for name in names {
        words.extend(["--test".to_owned(), name.clone()]);
    }
    words
}

/// The release binary is what users run, so it is what the tests run.
fn given(command: &mut Command) -> &mut Command {
    command.env("PAGETIDE_BIN", release_binary());
    command.env("PAGETIDE_EXAMPLES", examples());
    // Packages are made by this program: cargo would wait for who builds beside the tests.
    let own = std::env::current_exe().unwrap_or_else(|_| "xtask".into());
    command.env("PAGETIDE_XTASK", own)
}

/// Builds the examples and these tests, beside the release build and before anything else is built: whoever asked cargo for
/// them then would wait for that. The tests' binaries; none if one cannot be built.
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

/// Waits for the release build; whether it is done.
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

/// Builds the program that tests need and users do not: by the tests' profile, so that all below it is built once.
pub(crate) fn examples_build() -> Command {
    let mut build = cargo(&["build", "--profile", "test"]);
    build.args(OF_ALL_CRATES).args(["--example", "wall"]);
    build
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
    fn lanes_are_of_files_that_there_are() {
        let names = names();
        for name in ALONE.iter().chain(&SECOND).chain(&THIRD).chain(&FOURTH) {
            assert!(names.iter().any(|one| one == name), "{name}");
        }
        // All are asked for by name.
        let words = test_words(&names);
        assert_eq!(
            words.iter().filter(|word| *word == "--test").count(),
            names.len()
        );
        assert_eq!((place("poor_hosts"), place("demo")), ((2, 0), (0, 5)));
        assert_eq!(place("wall"), (REST, 0));
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
