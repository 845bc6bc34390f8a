//! Unit and property tests: built by one selection of crates, run crate by crate.
//!
//! Invariant: cargo is asked for all crates at once, whichever of their tests are to run. The story: asked for some of them
//! alone, it chose other features of what they depend on, and built all of that a second time: 90 s of a processor.

use crate::binaries::{self, Binary};
use crate::summary::Counts;

/// Not the examples, which lints check: fourteen of them took as long to build as a crate. Nor tests in docs: there are
/// none, and each crate's would be looked for. Nor the Python package's crate, whose symbols only an interpreter has.
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

/// The crate whose tests make swap, which takes as long as all others of its kind.
const WITH_SWAP: &str = "host";

/// Crates that compute and touch nothing of the machine: their tests may run beside others.
const PURE: [&str; 4] = ["engine", "models", "touches", "sim"];

/// Which tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Which {
    /// Those that may run beside others.
    Pure,
    /// The others. They run when no end-to-end test does: some make control groups and swap.
    Machine,
}

fn is(binary: &Binary, which: Which) -> bool {
    let is_pure = PURE.iter().any(|name| binary.folder.ends_with(name));
    is_pure == (which == Which::Pure)
}

/// Builds all of them.
///
/// # Errors
/// One cannot be built; cargo has said why.
pub(crate) fn build() -> Result<Vec<Binary>, String> {
    binaries::built(&BUILD)
}

/// Runs some of those that were built. (Asked again, cargo would wait for who builds meanwhile.)
///
/// # Errors
/// One cannot be run, or has died.
pub(crate) fn run(all: &[Binary], which: Which) -> Result<Counts, String> {
    let some = |with_swap| {
        let some = all.iter().filter(move |one| is(one, which));
        some.filter(move |one| one.folder.ends_with(WITH_SWAP) == with_swap)
    };
    let what = format!("tests of {which:?} crates");
    if which == Which::Pure {
        return binaries::run(&what, some(false), |_| ());
    }
    // Most of them wait most of the time.
    let (one, other) = std::thread::scope(|scope| {
        let one = scope.spawn(|| binaries::run(&what, some(true), |_| ()));
        let other = binaries::run(&what, some(false), |_| ());
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
