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

/// How often a test may be run until it passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tries {
    /// A test that fails has failed: it depends on nothing outside itself.
    One,
    /// The only failed test of a binary is run once again, alone: it depends on memory and time of
    /// a machine that others use. It is counted (`Counts::retried`), and its first failure stays in
    /// the output.
    Two,
}

/// Runs all binaries one after the other, even if one fails. `given` adds arguments and environment
/// to each command.
///
/// # Errors
/// If a binary cannot be run or was killed, or if there was no test at all.
pub(crate) fn run<'a>(
    what: &str,
    tries: Tries,
    binaries: impl Iterator<Item = &'a Binary>,
    given: impl Fn(&mut Command),
) -> Result<Counts, String> {
    let mut counts = Counts::default();
    let mut broken = Vec::new();
    for binary in binaries {
        println!("     Running {}", binary.file.display());
        let run = |words: &[&str], failed: &mut Vec<String>| {
            let mut command = binary.command();
            given(command.args(words));
            run_watched(&mut command, failed)
        };
        let mut failed = Vec::new();
        match (run(&[], &mut failed), tries, &failed[..]) {
            (Ok(first), Tries::Two, [name]) if first.failed == 1 => {
                println!("     Running {name} again, alone");
                let again = run(&["--exact", name], &mut Vec::new());
                counts.add(after_second_try(first, again.ok()));
            }
            (Ok(counted), ..) => counts.add(counted),
            (Err(why), ..) => broken.push(why),
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

/// Returns the counts of a binary with one failed test after that test was run again: it has passed
/// if the second run passed one test and failed none.
fn after_second_try(first: Counts, again: Option<Counts>) -> Counts {
    let has_passed = again.is_some_and(|again| (again.passed, again.failed) == (1, 0));
    match has_passed {
        true => Counts {
            passed: first.passed + 1,
            failed: 0,
            retried: 1,
            ..first
        },
        false => first,
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

    /// A test that fails at the first run only, and one that always fails, as a binary that takes
    /// the name of the test for the second run.
    #[test]
    fn a_test_has_a_second_try_where_that_is_allowed() {
        let folder = std::env::temp_dir().join(format!("pagetide-tries-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("there is room");
        let script = |name: &str, second: &str| {
            let first = "test a ... FAILED\ntest result: FAILED. 3 passed; 1 failed;";
            let text = format!(
                "if [ \"$1\" = --exact ]; then printf '{second}'; else printf '{first}\\n'; exit 101; fi\n"
            );
            let file = folder.join(name);
            std::fs::write(&file, "#!/bin/sh\n".to_owned() + &text).expect("there is room");
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&file, mode).expect("it is ours");
            Binary {
                file,
                folder: folder.clone(),
                name: name.to_owned(),
            }
        };
        let passes = script("passes", "test result: ok. 1 passed; 0 failed;\\n");
        let fails = script("fails", "test result: FAILED. 0 passed; 1 failed;\\n");
        let run = |tries, one: &Binary| {
            run("tests", tries, std::iter::once(one), |_| ()).expect("it runs")
        };
        let counts = |tries, one| {
            let counts = run(tries, one);
            (counts.passed, counts.failed, counts.retried)
        };
        assert_eq!(counts(Tries::Two, &passes), (4, 0, 1));
        assert_eq!(counts(Tries::Two, &fails), (3, 1, 0));
        assert_eq!(counts(Tries::One, &passes), (3, 1, 0));
        std::fs::remove_dir_all(&folder).expect("it is ours");
    }

    #[test]
    fn no_tests_and_a_missing_binary_are_failures() {
        assert!(run("tests", Tries::One, std::iter::empty(), |_| ()).is_err());
        let gone = Binary {
            file: "/nonexistent/test".into(),
            folder: "/".into(),
            name: "gone".into(),
        };
        assert!(run("tests", Tries::One, std::iter::once(&gone), |_| ()).is_err());
    }
}
