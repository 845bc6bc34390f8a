//! Test binaries: built by cargo, and run by us one after the other, which cargo does for one selection only.

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
    /// Where its crate is, and where cargo would run it.
    pub(crate) folder: PathBuf,
    /// Of the target: for an integration test that of its file.
    pub(crate) name: String,
}

impl Binary {
    /// From a line of what cargo says; none if it tells of anything else.
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

    /// Its command, in its folder.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.file);
        command.current_dir(&self.folder);
        command
    }
}

/// Builds what `words` choose, `--no-run` among them, and says which test binaries that are.
///
/// # Errors
/// One cannot be built; cargo has said why.
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

/// Runs them one after the other, all whatever fails; `given` adds words and environment to each one's command.
///
/// # Errors
/// One cannot be run, or has died, or there was no test at all.
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
    // No test at all would be a success of nothing.
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
        // A program that tests start, a library, and a line of somebody else.
        assert_eq!(
            Binary::of_line(&line(false, r#""/w/target/pagetide""#)),
            None
        );
        assert_eq!(Binary::of_line(&line(true, "null")), None);
        assert_eq!(Binary::of_line("warning: unused"), None);
    }

    #[test]
    fn no_tests_at_all_and_a_binary_that_is_gone_are_failures() {
        assert!(run("tests", std::iter::empty(), |_| ()).is_err());
        let gone = Binary {
            file: "/nonexistent/test".into(),
            folder: "/".into(),
            name: "gone".into(),
        };
        assert!(run("tests", std::iter::once(&gone), |_| ()).is_err());
    }
}
