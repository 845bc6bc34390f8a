//! Test binaries: cargo builds them, and xtask runs them one after the other. (cargo itself can run
//! only those of one selection.)

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cargo;
use crate::counts::Counts;
use crate::steps::run_watched;

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

    /// Returns the command that runs the binary in its folder. A shell without job control starts
    /// background jobs with SIGINT and SIGQUIT ignored, and programs inherit that: tests that send
    /// ^C to a program would wait for ever, so both signals have their default action.
    fn command(&self) -> Command {
        let mut command = Command::new("env");
        command.arg("--default-signal=INT,QUIT").arg(&self.file);
        command.current_dir(&self.folder);
        command
    }
}

/// Builds what the arguments `words` of cargo choose (`--no-run` is among them), and returns the
/// test binaries.
///
/// # Errors
/// If one cannot be built; cargo has printed why.
pub(crate) fn built(words: &str) -> Result<Vec<Binary>, String> {
    let mut command = cargo(words);
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
    tries: Tries,
    binaries: impl IntoIterator<Item = &'a Binary>,
    given: impl Fn(&mut Command),
) -> Result<Counts, String> {
    let mut counts = Counts::default();
    let mut broken = Vec::new();
    for binary in binaries {
        println!("     Running {}", binary.file.display());
        let run = |words: &[&str], failed: &mut Vec<String>| {
            let mut command = binary.command();
            given(command.args(words));
            run_watched(&binary.file.to_string_lossy(), &mut command, failed)
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
        broken.push("no tests were found".to_owned());
    }
    match broken.is_empty() {
        true => Ok(counts),
        false => Err(format!("{}, after {}", broken.join(", "), counts.sum())),
    }
}

/// Returns the counts of a binary with one failed test after that test was run again: it has passed
/// if the second run passed one test and failed none.
fn after_second_try(first: Counts, again: Option<Counts>) -> Counts {
    match again.is_some_and(|again| (again.passed, again.failed) == (1, 0)) {
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
                r#"{{"manifest_path":"/w/crates/sim/Cargo.toml","target":{{"name":"curves"}},"profile":{{"test":{test}}},"executable":{file}}}"#
            )
        };
        let found = Binary::of_line(&line(true, r#""/w/target/sim-1""#)).expect("a test binary");
        assert_eq!(
            (&*found.name, found.folder),
            ("curves", "/w/crates/sim".into())
        );
        // An executable that tests start, a library, and a line that is not from cargo.
        let others = [
            line(false, r#""/w/target/pagetide""#),
            line(true, "null"),
            "hm".to_owned(),
        ];
        assert!(others.iter().all(|line| Binary::of_line(line).is_none()));
    }

    /// Runs a script as a test binary.
    fn run_script(name: &str, tries: Tries, script: &str) -> Result<Counts, String> {
        let file = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("there is room");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&file, mode).expect("it is ours");
        let binary = Binary {
            file: file.clone(),
            folder: "/".into(),
            name: name.to_owned(),
        };
        let counts = run(tries, [&binary], |_| ());
        std::fs::remove_file(&file).expect("it is ours");
        counts
    }

    #[test]
    fn a_test_has_a_second_try_where_that_is_allowed() {
        let run = |second: &str, tries| {
            let script = format!(
                "[ \"$1\" != --exact ] || {{ echo 'test result: {second};'; exit; }}\n\
                 printf 'test a ... FAILED\\ntest result: FAILED. 3 passed; 1 failed;\\n'; exit 101"
            );
            let counts = run_script("tries", tries, &script).expect("it runs");
            (counts.passed, counts.failed, counts.retried)
        };
        assert_eq!(run("ok. 1 passed; 0 failed", Tries::Two), (4, 0, 1));
        assert_eq!(run("FAILED. 0 passed; 1 failed", Tries::Two), (3, 1, 0));
        assert_eq!(run("ok. 1 passed; 0 failed", Tries::One), (3, 1, 0));
    }

    /// Regression: `cargo xtask test &` in a script made the test of `resize` wait for the end of a
    /// program to which it had sent SIGINT.
    #[test]
    fn no_test_has_sigint_ignored() {
        let script = "trap '' INT QUIT; exec env --default-signal=INT,QUIT cat /proc/self/status";
        let done = Command::new("sh").args(["-c", script]).output();
        let status = String::from_utf8(done.expect("sh runs").stdout).expect("text");
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = u64::from_str_radix(mask.expect("a mask").trim(), 16).expect("a number");
        // SIGINT is 2, and SIGQUIT is 3.
        assert_eq!(mask & (1 << 1 | 1 << 2), 0);
    }

    #[test]
    fn no_tests_and_a_missing_binary_are_failures() {
        assert!(run(Tries::One, &[], |_| ()).is_err());
        let gone = Binary {
            file: "/nonexistent/test".into(),
            folder: "/".into(),
            name: "gone".into(),
        };
        assert!(run(Tries::One, [&gone], |_| ()).is_err());
    }
}
