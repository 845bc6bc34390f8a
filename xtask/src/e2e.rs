//! End-to-end tests: they run the program as users have it, on real programs, in four lanes that
//! run at the same time.
//!
//! Invariant: a lane runs one test at a time, because tests measure memory and time and share two
//! processors. There are several lanes because most tests mostly wait. The files in [`SECOND`],
//! [`THIRD`] and [`FOURTH`] run beside other tests, and must pass beside busy loops, too. While a
//! test that needs swap of its own runs, no other test with swap may run (`e2e::swap_turn`). So
//! such tests come first in the first lane, and tests that share swap come last in the second and
//! the fourth.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::binaries::{self, Binary, Tries};
use crate::counts::Counts;
use crate::programs::{OF_ALL_CRATES, examples, examples_build, release_binary, release_build};
use crate::steps::{Beside, Running, Steps, finish_all};
use crate::{guest, names, needs, root};

/// Files of the first lane whose tests need swap of their own. They come first: meanwhile the
/// second lane runs tests without swap.
const ALONE: &str =
    "programs hostile redis odd_targets swap demo serve_limits serve_pressure resize";
/// Files of the second lane. There are as many as let this lane end at the same time as the others.
/// `python` builds the package, which takes long on a busy machine, so short tests come before it.
/// The files from `notice_wrappers` on share swap.
const SECOND: &str = "poor_hosts package shipped ages_checker serve_ages serve_metrics serve_budget \
    serve_floods serve_begins serve_strain serve_group_shapes fuzz stuck python \
    notice_wrappers notice_memory groups serve_abuse serve_programs";
/// Files of the third lane, which also shares swap: it starts when all tests with swap of their own
/// have ended.
const THIRD: &str = "policies report_swapped recency serve_reports run_in_place reclaim_older_than \
    serve_host serve_cache tutorial howtos";
/// Files of the fourth lane, which first runs the guest. The last two share swap.
const FOURTH: &str = "serve_page needed report_family report_truth report_sums report_refused \
    report_page whatif run_gate serve_kernel_reclaim limits";

/// Index in [`lanes`] of the files that no list names: the second part of the first lane.
const REST: usize = 1;
const LANES: [&str; 5] = [ALONE, "", SECOND, THIRD, FOURTH];

/// Guest tests that are short enough for every run, under a kernel with features that this
/// machine's may lack. `cargo xtask guest suite` runs all guest tests.
const GUEST: &str = "-k 6.12 00-facts 10-report 11-ages 12-swap 19-commands 41-serve";

/// Runs the tests of all files (without `name`), of one file, or with one name.
///
/// # Errors
/// If a test failed.
pub(crate) fn run(name: Option<&str>, words: &[&str]) -> Result<(), String> {
    let mut steps = Steps::default();
    match name {
        None if steps.plain("needs", needs::ensure_packages) => {
            all(&mut steps, false, Order::Together, || None);
        }
        Some(name) if steps.plain("needs", needs::ensure) => some(&mut steps, name, words),
        _ => (),
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
    let tests = built(steps, &files());
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
    steps.plain("Python packages", || {
        let ended = venvs.join();
        ended.unwrap_or_else(|_| Err("their thread has panicked".to_owned()))
    });
    if is_released && !alone.is_empty() {
        let fourth = other_lane("fourth", with_guest, &fourth);
        begin(steps, ("those of the fourth lane", fourth));
        let second = other_lane("second", false, &second);
        begin(steps, ("those of the second lane", second));
        steps.run("end-to-end tests with swap of their own", || {
            lane(&alone, &[])
        });
        let third = other_lane("third", false, &third);
        begin(steps, ("those of the third lane", third));
        steps.run("other end-to-end tests", || lane(&rest, &[]));
    }
    finish_all(steps, running);
}

/// Returns the lane of a file (index in [`LANES`]), and its position there.
fn place(name: &str) -> (usize, usize) {
    let at = |files: &str| files.split_whitespace().position(|file| file == name);
    let found = (0..).zip(LANES.map(at));
    let mut found = found.filter_map(|(lane, at)| Some((lane, at?)));
    found.next().unwrap_or((REST, 0))
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

/// Starts the lane of this name as a separate process, with these binaries.
fn other_lane(name: &str, with_guest: bool, tests: &[Binary]) -> Result<Beside, String> {
    let own = std::env::current_exe();
    let mut command = Command::new(own.map_err(|why| format!("this program is not found: {why}"))?);
    command.args(["lane", name]);
    command.args(with_guest.then_some("--guest"));
    command.args(tests.iter().map(|one| &one.file));
    // The guest uses what was built for the tests: cargo would wait for other builds.
    command.env("PAGETIDE_BUILT", "1");
    Beside::start(command.env("PAGETIDE_LANE", name))
}

/// Runs the lane of this name with these binaries, after the guest's tests if the first word
/// requests them.
///
/// # Errors
/// If a test failed.
pub(crate) fn run_lane(name: &str, words: &[&str]) -> Result<(), String> {
    let mut steps = Steps::default();
    let files = words.strip_prefix(&["--guest"]).unwrap_or(words);
    if files.len() < words.len() {
        // The guest's clock is the machine's: at the lowest priority beside busy loops, its
        // timeouts passed before it had booted.
        let words: Vec<&str> = GUEST.split(' ').collect();
        steps.run("guest", || guest::suite(&words));
    }
    let binary = |file: &&str| Binary {
        file: file.into(),
        folder: folder(),
        name: String::new(),
    };
    let tests: Vec<Binary> = files.iter().map(binary).collect();
    steps.run(&format!("{name} lane"), || lane(&tests, &[]));
    steps.finish()
}

/// Runs the tests of one lane; each binary gets the arguments `words`.
fn lane(tests: &[Binary], words: &[&str]) -> Result<Counts, String> {
    binaries::run(Tries::Two, tests, |command| {
        command.arg("--test-threads=1").args(words);
        // Tests run the release binary, because users run that.
        command.env("PAGETIDE_BIN", release_binary());
        command.env("PAGETIDE_EXAMPLES", examples());
        // Tests make packages with this program: cargo would wait for builds beside the tests.
        let own = std::env::current_exe().unwrap_or_else(|_| "xtask".into());
        command.env("PAGETIDE_XTASK", own);
    })
}

/// Runs the tests of one file, or with one name.
fn some(steps: &mut Steps, name: &str, words: &[&str]) {
    let mut files = files();
    let is_file = files.iter().any(|one| one == name);
    files.retain(|one| !is_file || one == name);
    let release = release_build().stdin(Stdio::null()).spawn();
    let tests = built(steps, &files);
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

/// Returns the names of all test files.
fn files() -> Vec<String> {
    // Without its folder there are no tests, and that is a failure.
    names(&folder().join("tests"), ".rs").unwrap_or_default()
}

/// Returns cargo's arguments to build these files of tests. Programs that only measure are
/// examples: they are not built.
fn test_words(names: &[String]) -> String {
    let files: String = names.iter().map(|name| format!(" --test {name}")).collect();
    format!("test --no-run {OF_ALL_CRATES}{files}")
}

/// Builds the examples and these files of tests, beside the release build and before anything else:
/// a later cargo would wait for other builds. Returns the test binaries; `None` if one cannot be
/// built.
fn built(steps: &mut Steps, names: &[String]) -> Option<Vec<Binary>> {
    if !steps.command("examples, built", &mut examples_build()) {
        return None;
    }
    let mut built = None;
    steps.plain("end-to-end tests, built", || {
        let mut tests = binaries::built(&test_words(names))?;
        // Another crate may have tests of the same name.
        tests.retain(|one| one.folder.ends_with("e2e"));
        built = Some(tests);
        Ok(())
    });
    built
}

/// Waits for the release build; returns whether it succeeded.
fn released(steps: &mut Steps, release: std::io::Result<Child>) -> bool {
    steps.plain("release build", || {
        let status = release.and_then(|mut release| release.wait());
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("cargo ended with {status}")),
            Err(error) => Err(format!("cargo cannot be run: {error}")),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_of_files_that_there_are() {
        let names = files();
        for name in LANES.iter().flat_map(|lane| lane.split_whitespace()) {
            assert!(names.iter().any(|one| one == name), "{name}");
        }
        // Every test file must be named in cargo's arguments.
        let words = test_words(&names);
        assert_eq!(words.matches("--test").count(), names.len());
        assert_eq!((place("poor_hosts"), place("demo")), ((2, 0), (0, 5)));
        assert_eq!(place("hard_limit"), (REST, 0));
        let of = |name: &String| Binary {
            file: name.into(),
            folder: folder(),
            name: name.clone(),
        };
        let lanes = lanes(names.iter().map(of).collect());
        assert_eq!(lanes.iter().map(Vec::len).sum::<usize>(), names.len());
        assert_eq!(lanes[0][0].name, "programs");
        assert_eq!(lanes[3].len(), THIRD.split_whitespace().count());
    }
}
