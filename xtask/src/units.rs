//! Unit and property tests: built by one selection of crates, run crate by crate.
//!
//! Invariant: cargo is asked for all crates at once, whichever of their tests are to run. The story: asked for some of them
//! alone, it chose other features of what they depend on, and built all of that a second time: 90 s of a processor.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cargo;
use crate::steps::run_counted;
use crate::summary::Counts;

/// Not the examples, which lints check: fourteen of them took as long to build as a crate. Nor tests in docs: there are
/// none, and each crate's would be looked for.
const BUILD: [&str; 9] = [
    "test",
    "--workspace",
    "--exclude",
    "e2e",
    "--lib",
    "--bins",
    "--tests",
    "--no-run",
    "--message-format=json-render-diagnostics",
];

/// Crates that compute and touch nothing of the machine: their tests may run beside others.
const PURE: [&str; 4] = ["engine", "models", "touches", "sim"];

/// Which tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Which {
    /// Those that may run beside others.
    Pure,
    /// The others. They run when nothing else does: some make control groups and swap.
    Machine,
}

/// A test binary.
#[derive(PartialEq, Eq, Debug)]
struct Binary {
    file: PathBuf,
    /// Where its crate is, and where cargo would run it.
    folder: PathBuf,
}

impl Binary {
    /// From a line of what cargo says; none if it tells of anything else.
    fn of_line(line: &str) -> Option<Binary> {
        let said: Value = serde_json::from_str(line).ok()?;
        if said["profile"]["test"] != true {
            return None;
        }
        let folder = Path::new(said["manifest_path"].as_str()?).parent()?;
        Some(Binary {
            file: said["executable"].as_str()?.into(),
            folder: folder.to_path_buf(),
        })
    }

    fn is(&self, which: Which) -> bool {
        let is_pure = PURE.iter().any(|name| self.folder.ends_with(name));
        is_pure == (which == Which::Pure)
    }
}

/// Builds all of them.
///
/// # Errors
/// One cannot be built; cargo has said why.
pub(crate) fn build() -> Result<Counts, String> {
    binaries().map(|_| Counts::default())
}

fn binaries() -> Result<Vec<Binary>, String> {
    let output = cargo(&BUILD).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cargo cannot be run: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo ended with {}", output.status));
    }
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(said.lines().filter_map(Binary::of_line).collect())
}

/// Runs some of them, one after the other, all whatever fails.
///
/// # Errors
/// One cannot be built or run, or has died.
pub(crate) fn run(which: Which) -> Result<Counts, String> {
    let mut counts = Counts::default();
    let mut broken = Vec::new();
    for binary in binaries()?.iter().filter(|one| one.is(which)) {
        println!("     Running {}", binary.file.display());
        let mut command = Command::new(&binary.file);
        command.current_dir(&binary.folder);
        match run_counted(&mut command, &mut || ()) {
            Ok(counted) => counts.add(counted),
            Err(why) => broken.push(why),
        }
    }
    // No test at all would be a success of nothing.
    if counts == Counts::default() && broken.is_empty() {
        broken.push(format!("no tests of {which:?} crates were found"));
    }
    match broken.is_empty() {
        true => Ok(counts),
        false => Err(format!(
            "{}, after {} passed, {} failed",
            broken.join(", "),
            counts.passed,
            counts.failed
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_binaries_are_found_in_what_cargo_says() {
        let line = |test: bool, file: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/sim/Cargo.toml","profile":{{"test":{test}}},"executable":{file}}}"#
            )
        };
        let found = Binary::of_line(&line(true, r#""/w/target/sim-1""#)).expect("a test binary");
        assert_eq!(found.folder, Path::new("/w/crates/sim"));
        assert!(found.is(Which::Pure) && !found.is(Which::Machine));
        // A program that tests start, a library, and a line of somebody else.
        assert_eq!(
            Binary::of_line(&line(false, r#""/w/target/pagetide""#)),
            None
        );
        assert_eq!(Binary::of_line(&line(true, "null")), None);
        assert_eq!(Binary::of_line("warning: unused"), None);
    }

    #[test]
    fn each_crate_is_of_one_kind() {
        let of = |folder: &str| Binary {
            file: PathBuf::new(),
            folder: folder.into(),
        };
        assert!(of("/w/crates/host").is(Which::Machine));
        assert!(of("/w/xtask").is(Which::Machine));
        assert!(of("/w/crates/engine").is(Which::Pure));
    }
}
