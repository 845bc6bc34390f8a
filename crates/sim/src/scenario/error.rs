//! The error of an experiment file that cannot be run: file, line, reason, and what the user can
//! do.

use std::fmt;

/// An error in an experiment file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// Name of the file.
    pub file: String,
    /// Number of the line, from 1; `None` if the error is about the whole file.
    pub line: Option<usize>,
    /// What is wrong.
    pub what: String,
    /// What the user can do.
    pub hint: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.what),
            None => write!(f, "{}: {}", self.file, self.what),
        }
    }
}

impl std::error::Error for ScenarioError {}

/// The name and the text of a file. The text serves to find the line of a byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    pub(super) name: &'a str,
    pub(super) text: &'a str,
}

impl Source<'_> {
    /// Makes an error about the text at byte `at`.
    pub(super) fn error(
        self,
        at: Option<usize>,
        what: impl Into<String>,
        hint: impl Into<String>,
    ) -> ScenarioError {
        let line = |at: usize| {
            let before = self.text.as_bytes().iter().take(at);
            before.filter(|byte| **byte == b'\n').count() + 1
        };
        ScenarioError {
            file: self.name.to_owned(),
            line: at.map(line),
            what: what.into(),
            hint: hint.into(),
        }
    }

    /// Converts an error of the TOML library.
    pub(super) fn toml(self, error: &toml::de::Error) -> ScenarioError {
        let what = error.message().trim().replace('\n', "; ");
        let hint = if what.contains("unknown field") || what.contains("unknown variant") {
            let known = |what: &str| {
                let names = what.rsplit_once("expected ")?.1;
                let names = names.trim_start_matches("one of ").split(", ");
                let names = names.map(|n| n.trim_matches(['`', ' ']).to_owned());
                let wrong = what.split('`').nth(1)?.to_owned();
                Some((names.collect::<Vec<_>>(), wrong))
            };
            known(&what)
                .and_then(|(names, wrong)| {
                    let near = crate::nearest::nearest(&wrong, names.iter().map(String::as_str))?;
                    Some(format!("did you mean `{near}`?"))
                })
                .unwrap_or("docs/simulator.md lists all keys and their values".to_owned())
        } else if what.contains("missing field") {
            "add it; docs/simulator.md says what it takes".to_owned()
        } else {
            "correct that line; docs/simulator.md has examples".to_owned()
        };
        self.error(error.span().map(|span| span.start), what, hint)
    }
}
