//! A page of the docs, typed: its commands as they stand there, one after the other in one shell.
//!
//! Invariant: the shell has a `/run` of its own, so it neither finds nor removes swap that a user of this machine has switched on; and what a
//! page is to be told otherwise (a port, a process, a time) must stand in it, so that a page that changes is not typed as it is.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use crate::guard::Run;
use crate::pagetide;
use crate::temp::TempDir;

/// A page that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(240);

/// What is to be typed.
#[derive(Debug)]
pub struct Page {
    commands: Vec<Command>,
    /// What the shell is given before the first of them.
    first: String,
}

/// As it stands in the page, and as it is typed here.
#[derive(Debug)]
struct Command {
    written: String,
    typed: String,
}

/// What came of it.
#[derive(Debug)]
pub struct Typed {
    /// As written, and what it printed.
    all: Vec<(String, String)>,
    told: String,
}

impl Page {
    /// The indented lines for which `is_typed` holds; one that ends with `|` goes on in the next.
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

    /// Types this in place of that.
    ///
    /// # Panics
    /// If the page has none of it.
    #[must_use]
    pub fn instead(mut self, of: &str, other: &str) -> Page {
        let has = |command: &Command| command.typed.contains(of);
        assert!(self.commands.iter().any(has), "the page has no `{of}`");
        for command in &mut self.commands {
            command.typed = command.typed.replace(of, other);
        }
        self
    }

    /// Types each as this makes it.
    #[must_use]
    pub fn each(mut self, change: impl Fn(&str) -> String) -> Page {
        for command in &mut self.commands {
            command.typed = change(&command.typed);
        }
        self
    }

    /// Has this typed before all else.
    #[must_use]
    pub fn first(mut self, script: &str) -> Page {
        self.first.push_str(script);
        self
    }

    /// One shell types all of them; what each prints stands behind a line that tells its number.
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

    /// Types all of it, in a folder.
    ///
    /// # Panics
    /// If a command ends with another status than 0, or there is none.
    #[must_use]
    pub fn type_in(self, folder: &TempDir) -> Typed {
        let script = self.script();
        // Not among its words: `pgrep -f` would find the shell.
        let file = TempDir::new();
        let file = (file.file("typed"), file);
        std::fs::write(&file.0, &script).expect("a file");
        let words = format!(
            "cd {} && exec unshare --mount --propagation private timeout -k 20 200 bash {}",
            folder.path().display(),
            file.0
        );
        let done = Run::new(["sh", "-c", &words]).finish(LIMIT);
        let told = format!("{script}\n{}\n{}", done.stdout, done.stderr);
        let printed: Vec<&str> = done.stdout.split("\n=== ").collect();
        assert!(!self.commands.is_empty(), "nothing to type");
        assert_eq!(printed.len(), 1 + 2 * self.commands.len(), "{told}");
        let ended = printed.iter().skip(2).step_by(2);
        let mut all = Vec::new();
        for ((command, ended), text) in
            (self.commands.into_iter().zip(ended)).zip(printed.iter().skip(1).step_by(2))
        {
            let written = command.written;
            assert!(
                ended.starts_with("ended with 0"),
                "{written}: {ended}: {told}"
            );
            all.push((written, (*text).to_owned()));
        }
        Typed { all, told }
    }
}

impl Typed {
    /// What the first command with these words printed.
    ///
    /// # Panics
    /// If the page has no such command.
    #[must_use]
    pub fn of(&self, words: &str) -> &str {
        let found = self.all.iter().find(|(written, _)| written.contains(words));
        let (_, printed) = found.unwrap_or_else(|| panic!("the page has no `{words}`"));
        printed
    }

    /// All that was typed and printed.
    #[must_use]
    pub fn told(&self) -> &str {
        &self.told
    }
}
