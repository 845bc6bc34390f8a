//! Commands of this machine, run to their end. If one fails, the error says which, and how it
//! ended.

use std::process::{Command, Stdio};

use crate::root;

/// Runs a command and shows its output.
///
/// # Errors
/// If it cannot be started, or fails.
pub(crate) fn done(command: &mut Command) -> Result<(), String> {
    let name = name(command);
    let status = command.stdin(Stdio::null()).status();
    match status.map_err(|error| format!("cannot start {name}: {error}"))? {
        status if status.success() => Ok(()),
        status => Err(format!("{name} ended with {status}")),
    }
}

/// Runs a command in the root of the workspace, unless it has another folder, and returns what it
/// prints.
///
/// # Errors
/// If it cannot be started, or fails; the error has the end of its messages.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>, String> {
    let name = name(command);
    if command.get_current_dir().is_none() {
        command.current_dir(root());
    }
    let output = command.env("LC_ALL", "C").stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot start {name}: {error}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let messages = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = messages.lines().collect();
    let last = lines[lines.len().saturating_sub(5)..].join("\n  ");
    Err(format!("{name} ended with {}:\n  {last}", output.status))
}

/// Does the same for output that is text.
///
/// # Errors
/// As [`output`].
pub(crate) fn text(command: &mut Command) -> Result<String, String> {
    output(command).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

pub(crate) fn name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_says_why() {
        let shell = |script: &str| text(Command::new("sh").args(["-c", script]));
        assert_eq!(shell("echo a"), Ok("a\n".to_owned()));
        let why = shell("echo no >&2; exit 4").expect_err("it failed");
        assert!(
            why.contains("sh ended") && why.contains("no") && why.contains('4'),
            "{why}"
        );
        assert!(done(&mut Command::new("/nonexistent/program")).is_err());
        assert!(done(&mut Command::new("false")).is_err());
    }
}
