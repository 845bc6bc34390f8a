//! Test binaries: cargo builds them, and xtask runs them one after the other. (cargo itself can run
//! only those of one selection.)

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cargo;
use crate::steps::run_watched;
use crate::summary::Counts;

/// One test binary.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Binary {
    pub(crate) file: PathBuf,
    /// Folder of its crate, which is the working folder when cargo runs it.
    pub(crate) folder: PathBuf,
    /// Name of the target; for an integration test the name of its file.
    pub(crate) name: String,
}

impl Binary {
    /// Parses a line of cargo's messages; `None` if it is not about a test binary.
    pub(crate) fn of_line(line: &str) -> Option<Binary> {
        let said: Value = serde_json::from_str(line).ok()?;
        if said["profile"]["test"] != true {
            return None;
        }
        let folder = Path::new(said["manifest_path"].as_str()?).parent()?;
        Some(Binary {
            file: said["executable"].as_str()?.into(),
            folder: folder.to_path_buf(),
            name: said["target"]["name"].as_str()?.to_owned(),
        })
    }

    /// Returns the command that runs the binary in its folder.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.file);
        command.current_dir(&self.folder);
        command
    }
}

/// Builds what the arguments `words` of cargo choose (`--no-run` is among them), and returns the
/// test binaries.
///
/// # Errors
/// If one cannot be built; cargo has printed why.
pub(crate) fn built(words: &[impl AsRef<str>]) -> Result<Vec<Binary>, String> {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    let mut command = cargo(&words);
    command.arg("--message-format=json-render-diagnostics");
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cargo cannot be run: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo ended with {}", output.status));
    }
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(said.lines().filter_map(Binary::of_line).collect())
}

/// Runs all binaries one after the other, even if one fails. `given` adds arguments and environment
/// to each command.
///
/// # Errors
/// If a binary cannot be run or was killed, or if there was no test at all.
pub(crate) fn run<'a>(
    what: &str,
    binaries: impl Iterator<Item = &'a Binary>,
    given: impl Fn(&mut Command),
) -> Result<Counts, String> {
    let mut counts = Counts::default();
    let mut broken = Vec::new();
    for binary in binaries {
        println!("     Running {}", binary.file.display());
        let mut command = binary.command();
        given(&mut command);
        match run_watched(&mut command) {
            Ok(counted) => counts.add(counted),
            Err(why) => broken.push(why),
        }
    }
    // A step without any test fails.
    if counts == Counts::default() && broken.is_empty() {
        broken.push(format!("no {what} were found"));
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
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/sim/Cargo.toml","target":{{"name":"curves"}},"profile":{{"test":{test}}},"executable":{file}}}"#
            )
        };
        let found = Binary::of_line(&line(true, r#""/w/target/sim-1""#)).expect("a test binary");
        assert_eq!(found.folder, Path::new("/w/crates/sim"));
        assert_eq!(found.name, "curves");
        // An executable that tests start, a library, and a line that is not from cargo are no test
        // binaries.
        assert_eq!(
            Binary::of_line(&line(false, r#""/w/target/pagetide""#)),
            None
        );
        assert_eq!(Binary::of_line(&line(true, "null")), None);
        assert_eq!(Binary::of_line("warning: unused"), None);
    }

    #[test]
    fn no_tests_and_a_missing_binary_are_failures() {
        assert!(run("tests", std::iter::empty(), |_| ()).is_err());
        let gone = Binary {
            file: "/nonexistent/test".into(),
            folder: "/".into(),
            name: "gone".into(),
        };
        assert!(run("tests", std::iter::once(&gone), |_| ()).is_err());
    }
}
