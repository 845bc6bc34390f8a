//! The steps of `cargo xtask test`.

use std::process::Command;

use crate::binaries::{self, Binary, Tries};
use crate::counts::Counts;
use crate::e2e::Order;
use crate::programs::OF_ALL_CRATES;
use crate::steps::{Beside, Steps};
use crate::{cargo, e2e, needs, tidy};

/// Crates whose tests only compute and change nothing on the machine, so they may run beside
/// others.
const PURE: [&str; 3] = ["engine", "touches", "sim"];
/// The crate with tests that make swap, which take as long as those of all other crates.
const WITH_SWAP: &str = "host";

/// Runs all checks; without an order for the end-to-end tests, all except those.
///
/// # Errors
/// If one failed.
pub(crate) fn run(e2e: Option<Order>) -> Result<(), String> {
    let mut steps = Steps::default();
    steps.plain("needs", needs::ensure_packages);
    steps.command("format", &mut cargo("fmt --all --check"));
    steps.plain("tidy", tidy::run);
    if let Some(order) = e2e {
        // End-to-end tests wait most of the time; steps that only build and compute use the rest of
        // the processors' time.
        e2e::all(&mut steps, true, order, || Some(("beside", beside())));
    } else {
        checked(&mut steps);
        steps.run("tests of pure crates", || run_pure(&built()?));
    }
    // They run while no end-to-end test runs, because some make control groups and swap.
    steps.run("unit and property tests", || run_others(&built()?));
    steps.finish()
}

/// Starts the steps that need only the processor ([`run_beside`]) as a process of the lowest
/// priority.
fn beside() -> Result<Beside, String> {
    let own = std::env::current_exe().unwrap_or_else(|_| "xtask".into());
    let mut command = Command::new("nice");
    Beside::start(command.args(["-n", "19"]).arg(own).arg("beside"))
}

/// Runs the steps that need only the processor. Tests run beside the checks of the code: one of
/// these is a single thread for a minute and a half.
///
/// # Errors
/// If one failed.
pub(crate) fn run_beside() -> Result<(), String> {
    let mut steps = Steps::default();
    let mut tests = Err("they are not built".to_owned());
    steps.plain("unit tests, built", || {
        tests = Ok(built()?);
        Ok(())
    });
    let tests = std::thread::spawn(move || run_pure(&tests?));
    checked(&mut steps);
    steps.run("tests of pure crates", || {
        let ended = tests.join();
        ended.unwrap_or_else(|_| Err("their thread has panicked".to_owned()))
    });
    steps.finish()
}

/// Runs the checks that only read the code.
fn checked(steps: &mut Steps) {
    for (name, words) in [
        ("lints", "--workspace --all-targets"),
        // The program with fewer features, which no test builds: that of `cargo install`, and the
        // smallest.
        ("lints of the default program", "-p cli"),
        (
            "lints of the smallest program",
            "-p cli --no-default-features",
        ),
    ] {
        let mut lints = cargo(&format!("clippy --quiet {words} -- -D warnings"));
        steps.command(name, &mut lints);
    }
    let mut doc = cargo("doc --workspace --no-deps --document-private-items --quiet");
    steps.command("docs", doc.env("RUSTDOCFLAGS", "-D warnings"));
    let examples = "test --doc --quiet -p pagetide-engine -p pagetide-pagetables";
    steps.command("examples of READMEs", &mut cargo(examples));
}

/// Builds all unit and property tests at once, whichever are to run ([`OF_ALL_CRATES`]). Examples
/// are left out: the lints check them, and fourteen of them take as long to build as a crate.
fn built() -> Result<Vec<Binary>, String> {
    binaries::built(&format!(
        "test --lib --bins --tests --no-run {OF_ALL_CRATES} --exclude e2e"
    ))
}

fn is_pure(binary: &Binary) -> bool {
    PURE.iter().any(|name| binary.folder.ends_with(name))
}

fn run_pure(all: &[Binary]) -> Result<Counts, String> {
    let pure = all.iter().filter(|one| is_pure(one));
    binaries::run(Tries::One, pure, |_| ())
}

/// Runs the tests that are not pure. They mostly wait, so the crate with swap runs beside the
/// others.
fn run_others(all: &[Binary]) -> Result<Counts, String> {
    let others = all.iter().filter(|one| !is_pure(one));
    let (with_swap, others): (Vec<&Binary>, Vec<&Binary>) =
        others.partition(|one| one.folder.ends_with(WITH_SWAP));
    let run = |some| binaries::run(Tries::One, some, |_| ());
    let (one, other) = std::thread::scope(|scope| {
        let one = scope.spawn(|| run(with_swap));
        let other = run(others);
        let panicked = |_| Err("their thread has panicked".to_owned());
        (one.join().unwrap_or_else(panicked), other)
    });
    let mut counts = one?;
    counts.add(other?);
    Ok(counts)
}
