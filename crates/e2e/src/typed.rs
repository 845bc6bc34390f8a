//! Runs the commands of a page of the docs as they are written, one after the other in one shell.
//!
//! Invariant: the shell has a `/run` of its own, so it neither finds nor removes swap that a user
//! of this machine has switched on. A test may replace a text in the page (a port, a process, a
//! time); that text must be in the page, so a test fails if the page has changed.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use crate::guard::Run;
use crate::pagetide;
use crate::temp::TempDir;

/// Time limit for all commands of a page.
const LIMIT: Duration = Duration::from_secs(240);

/// The commands of a page.
#[derive(Debug)]
pub struct Page {
    commands: Vec<Command>,
    /// A script that runs before the first command.
    first: String,
}

/// A command of a page.
#[derive(Debug)]
struct Command {
    /// The command as the page has it.
    written: String,
    /// The command as it is run.
    typed: String,
}

/// The output of a page's commands.
#[derive(Debug)]
pub struct Typed {
    /// Each command as the page has it, and its output.
    all: Vec<(String, String)>,
    /// The script and all its output, for messages.
    reported: String,
}

impl Page {
    /// Takes as commands the indented lines of `text` that `is_typed` accepts. A line that ends
    /// with `|` continues in the next line.
    #[must_use]
    pub fn new(text: &str, is_typed: impl Fn(&str) -> bool) -> Page {
        let indented = text.lines().filter_map(|line| line.strip_prefix("    "));
        let mut commands: Vec<String> = Vec::new();
        for line in indented.map(|line| line.strip_prefix("$ ").unwrap_or(line)) {
            match commands.last_mut() {
                Some(before) if before.ends_with('|') => {
                    before.push('\n');
                    before.push_str(line);
                }
                _ if is_typed(line) => commands.push(line.to_owned()),
                _ => {}
            }
        }
        let command = |written: String| Command {
            typed: written.clone(),
            written,
        };
        Page {
            commands: commands.into_iter().map(command).collect(),
            first: String::new(),
        }
    }

    /// Replaces the text `of` by `other` in all commands.
    ///
    /// # Panics
    /// If `of` is not in the page.
    #[must_use]
    pub fn substitute(mut self, of: &str, other: &str) -> Page {
        let has = |command: &Command| command.typed.contains(of);
        assert!(self.commands.iter().any(has), "the page has no `{of}`");
        for command in &mut self.commands {
            command.typed = command.typed.replace(of, other);
        }
        self
    }

    /// Replaces each command by what `change` returns for it.
    #[must_use]
    pub fn each(mut self, change: impl Fn(&str) -> String) -> Page {
        for command in &mut self.commands {
            command.typed = change(&command.typed);
        }
        self
    }

    /// Adds a script that runs before the first command.
    #[must_use]
    pub fn first(mut self, script: &str) -> Page {
        self.first.push_str(script);
        self
    }

    /// The script that runs all commands; it prints a line with the command's number before the
    /// output of each command.
    fn script(&self) -> String {
        let folder = pagetide::binary();
        let folder = Path::new(&folder).parent().expect("a directory");
        let mut script = format!(
            "mount -t tmpfs none /run || exit 99\nsudo() {{ \"$@\"; }}\nPATH={}:$PATH\n{}\n",
            folder.display(),
            self.first
        );
        for (at, command) in self.commands.iter().enumerate() {
            let _ = write!(
                script,
                "echo; echo '=== {at}'\n{}\ns=$?; echo; echo \"=== ended with $s\"\n",
                command.typed
            );
        }
        script
    }

    /// Runs all commands, in `folder`.
    ///
    /// # Panics
    /// If a command fails, or the page has none.
    #[must_use]
    pub fn run_in(self, folder: &TempDir) -> Typed {
        let script = self.script();
        // The script is in a file: among the shell's arguments, `pgrep -f` would find the shell.
        let file = TempDir::new();
        let file = (file.file("typed"), file);
        std::fs::write(&file.0, &script).expect("a file");
        let words = format!(
            "cd {} && exec unshare --mount --propagation private timeout -k 20 200 bash {}",
            folder.path().display(),
            file.0
        );
        let done = Run::new(["sh", "-c", &words]).finish(LIMIT);
        let reported = format!("{script}\n{}\n{}", done.stdout, done.stderr);
        let printed: Vec<&str> = done.stdout.split("\n=== ").collect();
        assert!(!self.commands.is_empty(), "nothing to type");
        assert_eq!(printed.len(), 1 + 2 * self.commands.len(), "{reported}");
        let ended = printed.iter().skip(2).step_by(2);
        let mut all = Vec::new();
        for ((command, ended), text) in
            (self.commands.into_iter().zip(ended)).zip(printed.iter().skip(1).step_by(2))
        {
            let written = command.written;
            assert!(
                ended.starts_with("ended with 0"),
                "{written}: {ended}: {reported}"
            );
            all.push((written, (*text).to_owned()));
        }
        Typed { all, reported }
    }
}

impl Typed {
    /// Output of the first command that contains `words`.
    ///
    /// # Panics
    /// If the page has no such command.
    #[must_use]
    pub fn of(&self, words: &str) -> &str {
        let found = self.all.iter().find(|(written, _)| written.contains(words));
        let (_, printed) = found.unwrap_or_else(|| panic!("the page has no `{words}`"));
        printed
    }

    /// The script of all commands and their output, for messages.
    #[must_use]
    pub fn reported(&self) -> &str {
        &self.reported
    }
}
