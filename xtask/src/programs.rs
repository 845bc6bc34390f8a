//! The programs that tests, packages and measurements use, and the commands that build them.

use std::path::PathBuf;
use std::process::Command;

use crate::{cargo, root};

/// The crates that builds with the tests' profile select. If only some crates were selected, cargo
/// would choose other features of their dependencies and build these again, which takes 90 s of
/// processor time. Of the Python package only an interpreter has the symbols that it needs.
pub(crate) const OF_ALL_CRATES: &str = "--workspace --exclude python";

/// Returns cargo's target folder.
pub(crate) fn target() -> PathBuf {
    let folder = std::env::var_os("CARGO_TARGET_DIR");
    let folder = folder.map_or_else(|| root().join("target"), PathBuf::from);
    std::path::absolute(&folder).unwrap_or(folder)
}

/// Returns the command that builds the program with all commands, as packages have it. It also
/// selects the Python package, of which nothing is built: otherwise some shared dependencies would
/// have fewer features, and the test of that package would build nearly everything again.
pub(crate) fn release_build() -> Command {
    cargo("build --release --package cli --package python --features cli/simulator --bin pagetide")
}

/// Returns the path of the release build's program.
pub(crate) fn release_binary() -> PathBuf {
    target().join("release/pagetide")
}

/// Returns the command that builds programs that only the tests need. It uses the tests' profile,
/// so that all dependencies are built once.
pub(crate) fn examples_build() -> Command {
    cargo(&format!(
        "build --profile test {OF_ALL_CRATES} --example hard_limit"
    ))
}

/// Returns the folder of the examples.
pub(crate) fn examples() -> PathBuf {
    target().join("debug/examples")
}
