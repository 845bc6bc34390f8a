//! The end of a command that fails: message, hint and exit code.
//!
//! Invariant: a failure is printed once, as `pagetide: <what failed>: <why>` and `  hint: <what to
//! do>`. If the reader closes our output early, that is no failure.

use std::io::{self, Write};

use daemon::control::ControlError;
use daemon::options::OptionsError;
use daemon::{Error, ExitCode};

use crate::view::text::plain;

/// What failed, what the user can do, and the exit code.
#[derive(Debug)]
pub struct Failure {
    what: String,
    hint: String,
    exit: u8,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)
    }
}

impl Failure {
    /// Returns a failure with exit code 1.
    pub(crate) fn new(what: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure {
            what: what.into(),
            hint: hint.into(),
            exit: ExitCode::Failure as u8,
        }
    }

    /// Returns a failure of bad usage, with exit code 2.
    pub(crate) fn usage(what: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure {
            exit: ExitCode::Usage as u8,
            ..Failure::new(what, hint)
        }
    }

    /// Returns a failure for a missing privilege or kernel feature, with exit code 3.
    pub(crate) fn missing(what: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure {
            exit: ExitCode::Missing as u8,
            ..Failure::new(what, hint)
        }
    }

    /// Parses the failure that a `pagetide` command printed on standard error before it ended with
    /// exit code `code`; `None` if the text contains no failure.
    pub(crate) fn of_command(reported: &str, code: Option<i32>) -> Option<Failure> {
        let start = |lead| {
            reported
                .lines()
                .filter_map(move |line: &str| line.strip_prefix(lead))
        };
        let what = start("pagetide: ").next_back()?;
        let hint: Vec<&str> = start("  hint: ").collect();
        Some(Failure {
            exit: code
                .and_then(|code| u8::try_from(code).ok())
                .unwrap_or(1)
                .max(1),
            ..Failure::new(what, hint.join("\n"))
        })
    }

    /// Returns what failed, and why.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Returns what the user can do, with one step on each line.
    #[must_use]
    pub fn hint(&self) -> &str {
        &self.hint
    }

    /// Returns the exit code: 1 for a failure, 2 for bad usage, 3 for a missing privilege or kernel
    /// feature.
    #[must_use]
    pub const fn exit(&self) -> u8 {
        self.exit
    }

    /// Returns a value that is no failure: the command ends with 0, and nothing is printed.
    fn none() -> Failure {
        Failure {
            exit: 0,
            ..Failure::new("", "")
        }
    }

    /// Prints the failure on standard error, and returns the exit code.
    pub(crate) fn print(&self) -> u8 {
        if self.exit != 0 {
            // A failed write to standard error cannot be reported.
            let _ = io::stderr().write_all(self.text().as_bytes());
        }
        self.exit
    }

    /// Returns the failure as text. Parts of it may come from another process (a manager, or a
    /// process that pretends to be one), so control characters are removed.
    fn text(&self) -> String {
        let mut text = format!("pagetide: {}\n", plain(&self.what, true));
        for line in self.hint.lines() {
            text += &format!("  hint: {}\n", plain(line, true));
        }
        text
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure {
            what: error.to_string(),
            hint: error.hint().to_owned(),
            // The code may come from another process, and a failure must not end with 0.
            exit: error.exit_code().max(ExitCode::Failure as u8),
        }
    }
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Failure {
        Error::from(error).into()
    }
}

impl From<OptionsError> for Failure {
    fn from(error: OptionsError) -> Failure {
        Error::from(error).into()
    }
}

/// Converts a failed write to standard output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure::none();
        }
        Failure::new(
            format!("cannot write the output: {error}"),
            "is the disk full, or the limit of file sizes low (ulimit -f)?",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a process that took a manager's name could move the cursor of root's terminal,
    /// and make root's command end with success.
    #[test]
    fn words_of_other_processes_move_no_cursor_and_make_no_success() {
        let error = r#"{"what":"\u001b]0;x\u0007a","hint":"b\u001b[2J","exit":0}"#;
        let error: Error = serde_json::from_str(error).expect("an error of another process");
        let failure = Failure::from(error);
        assert_eq!(failure.exit(), 1);
        assert_eq!(failure.text(), "pagetide: ?]0;x?a\n  hint: b?[2J\n");
    }
}
