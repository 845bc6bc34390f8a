//! Runs commands of this machine with a time limit. If a command fails, the error has its output.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Returns a command that timeout(1) kills with all its children, because any of them may keep its
/// output open. timeout(1) makes them a process group of their own, which does not get signals from
/// the terminal's keys. So setpriv(1) has the kernel signal timeout(1) when this process ends.
pub(super) fn limited(program: &str, limit: Duration) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "TERM", "timeout", "--kill-after=5"])
        .arg(limit.as_secs().to_string())
        .arg(program)
        .stdin(Stdio::null());
    command
}

/// Returns what a command prints.
///
/// # Errors
/// If the command fails: the command, how it ended and the end of its output.
pub(super) fn output<A: AsRef<OsStr>>(
    program: &str,
    args: impl IntoIterator<Item = A>,
    folder: &Path,
    limit: Duration,
) -> Result<Vec<u8>, String> {
    let output = limited(program, limit)
        .args(args)
        .current_dir(folder)
        .output()
        .map_err(|error| format!("cannot start {program} by setpriv(1): {error}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let how = match output.status.code() {
        Some(124) => format!("was not done after {} s", limit.as_secs()),
        Some(127) => "is not there".to_owned(),
        _ => format!("ended with {}", output.status),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said.lines().collect();
    let last = lines[lines.len().saturating_sub(5)..].join("\n  ");
    Err(format!("{program} {how}:\n  {last}"))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn shell(script: &str, seconds: u64) -> Result<Vec<u8>, String> {
        let limit = Duration::from_secs(seconds);
        output("sh", ["-c", script], Path::new("/"), limit)
    }

    #[test]
    fn a_command_that_fails_is_an_error_with_its_words() {
        assert_eq!(shell("echo a", 60), Ok(b"a\n".to_vec()));
        let why = shell("echo why >&2; exit 3", 60).unwrap_err();
        assert!(why.contains("sh ended") && why.contains("why"), "{why}");
    }

    #[test]
    fn a_command_that_hangs_or_is_not_there_is_an_error() {
        let begin = Instant::now();
        let why = shell("sleep 60; true", 1).unwrap_err();
        assert!(why.contains("not done after 1 s"), "{why}");
        assert!(
            begin.elapsed() < Duration::from_secs(50),
            "its child held us"
        );
        let args: [&str; 0] = [];
        let why = output(
            "no-such-command",
            args,
            Path::new("/"),
            Duration::from_secs(9),
        );
        assert!(why.unwrap_err().contains("is not there"));
    }
}
