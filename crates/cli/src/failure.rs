//! How a command that fails ends.
//!
//! Invariant: told once, as `pagetide: <what failed>: <why>` and `  hint: <what to do>`. A reader
//! that closes our output early is no failure.

use std::io::{self, Write};

use daemon::control::ControlError;
use daemon::options::OptionsError;
use daemon::{Error, ExitCode};

use crate::view::text::plain;

/// What to tell, and the exit code.
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
    /// A failure of kind 1.
    pub(crate) fn new(what: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure {
            what: what.into(),
            hint: hint.into(),
            exit: ExitCode::Failure as u8,
        }
    }

    /// Bad usage: 2.
    pub(crate) fn usage(what: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure {
            exit: ExitCode::Usage as u8,
            ..Failure::new(what, hint)
        }
    }

    /// A missing privilege or kernel feature: 3.
    pub(crate) fn missing(what: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure {
            exit: ExitCode::Missing as u8,
            ..Failure::new(what, hint)
        }
    }

    /// What a command of ours told on its standard error before it ended with a code; none if it said nothing.
    pub(crate) fn of_command(told: &str, code: Option<i32>) -> Option<Failure> {
        let start = |lead| {
            told.lines()
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

    /// What failed, and why.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }

    /// What to do, a line each.
    #[must_use]
    pub fn hint(&self) -> &str {
        &self.hint
    }

    /// The exit code: 1 a failure, 2 bad usage, 3 a missing privilege or feature of the kernel.
    #[must_use]
    pub const fn exit(&self) -> u8 {
        self.exit
    }

    /// Not a failure at all: ends with 0 and says nothing.
    fn none() -> Failure {
        Failure {
            exit: 0,
            ..Failure::new("", "")
        }
    }

    /// Tells it on standard error; the exit code to end with.
    pub(crate) fn tell(&self) -> u8 {
        if self.exit != 0 {
            // Nobody is left to be told when standard error is gone.
            let _ = io::stderr().write_all(self.text().as_bytes());
        }
        self.exit
    }

    /// As it is told. Words of it may be another process's: a manager's, or who passes for one.
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
            // It may be another process's word, too: a failure is no success.
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

/// Writing to standard output failed.
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

    /// (The story: whoever takes a manager's name could move root's cursor, and end root's command with success.)
    #[test]
    fn the_words_of_others_move_no_cursor_and_end_nothing_well() {
        let error = r#"{"what":"\u001b]0;x\u0007a","hint":"b\u001b[2J","exit":0}"#;
        let error: Error = serde_json::from_str(error).expect("an error of another process");
        let failure = Failure::from(error);
        assert_eq!(failure.exit(), 1);
        assert_eq!(failure.text(), "pagetide: ?]0;x?a\n  hint: b?[2J\n");
    }
}
