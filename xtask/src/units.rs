//! Unit and property tests. All crates are built together, and the tests are run crate by crate.
//!
//! Invariant: one cargo command builds all crates, whichever tests are to run. If only some crates
//! were selected, cargo would choose other features of their dependencies and build these again,
//! which takes 90 s of processor time.

use crate::binaries::{self, Binary, Tries};
use crate::summary::Counts;

/// Examples are left out, because the lints check them and fourteen of them take as long to build
/// as a crate; so are doc tests, which are a separate step. The crate of the Python package is left
/// out because only an interpreter has the symbols that it needs.
const BUILD: [&str; 10] = [
    "test",
    "--workspace",
    "--exclude",
    "e2e",
    "--exclude",
    "python",
    "--lib",
    "--bins",
    "--tests",
    "--no-run",
];

/// The crate with tests that make swap, which take as long as all other tests of
/// [`Which::Machine`].
const WITH_SWAP: &str = "host";

/// Crates whose tests only compute and change nothing on the machine, so they may run beside
/// others.
const PURE: [&str; 3] = ["engine", "touches", "sim"];

/// Which tests to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Which {
    /// Tests that may run beside others.
    Pure,
    /// The other tests. They run while no end-to-end test runs, because some make control groups
    /// and swap.
    Machine,
}

fn is(binary: &Binary, which: Which) -> bool {
    let is_pure = PURE.iter().any(|name| binary.folder.ends_with(name));
    is_pure == (which == Which::Pure)
}

/// Builds all unit tests.
///
/// # Errors
/// If one cannot be built; cargo has printed why.
pub(crate) fn build() -> Result<Vec<Binary>, String> {
    binaries::built(&BUILD)
}

/// Runs some of the tests that were built. (A second cargo command would wait for builds that run
/// at the same time.)
///
/// # Errors
/// If a binary cannot be run, or was killed.
pub(crate) fn run(all: &[Binary], which: Which) -> Result<Counts, String> {
    let some = |with_swap| {
        let some = all.iter().filter(move |one| is(one, which));
        some.filter(move |one| one.folder.ends_with(WITH_SWAP) == with_swap)
    };
    let what = format!("tests of {which:?} crates");
    if which == Which::Pure {
        return binaries::run(&what, Tries::One, some(false), |_| ());
    }
    // These tests mostly wait, so the crate with swap runs beside the others.
    let (one, other) = std::thread::scope(|scope| {
        let one = scope.spawn(|| binaries::run(&what, Tries::One, some(true), |_| ()));
        let other = binaries::run(&what, Tries::One, some(false), |_| ());
        let panicked = |_| Err("their thread has panicked".to_owned());
        (one.join().unwrap_or_else(panicked), other)
    });
    match (one, other) {
        (Ok(mut counts), Ok(others)) => {
            counts.add(others);
            Ok(counts)
        }
        (Err(one), Err(other)) => Err(format!("{one}; {other}")),
        (Err(why), _) | (_, Err(why)) => Err(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_crate_is_of_one_kind() {
        let of = |folder: &str| {
            let line = format!(
                r#"{{"manifest_path":"{folder}/Cargo.toml","target":{{"name":"a"}},"profile":{{"test":true}},"executable":"/a"}}"#
            );
            Binary::of_line(&line).expect("a test binary")
        };
        assert!(is(&of("/w/crates/host"), Which::Machine));
        assert!(is(&of("/w/crates/sim"), Which::Pure));
        assert!(is(&of("/w/xtask"), Which::Machine));
        assert!(!is(&of("/w/crates/engine"), Which::Machine));
    }
}
