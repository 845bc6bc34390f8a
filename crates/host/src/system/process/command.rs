//! How a process was called: `/proc/PID/cmdline` (proc_pid_cmdline(5)).
//!
//! Invariant: fit for a terminal, on one line, and never empty. Processes may write there what they
//! like, so it names nobody for certain.

use crate::system::error::Error;
use crate::system::proc::Proc;
use crate::system::text::printable;

/// Longer ones are cut: some programs carry megabytes of arguments.
const LONGEST: usize = 4096;

/// Words apart by blanks; `None` if there are none.
fn parse(text: &[u8]) -> Option<String> {
    let words = text.split(|&b| b == 0).filter(|word| !word.is_empty());
    let mut line = words.map(printable).collect::<Vec<_>>().join(" ");
    if text.len() >= LONGEST {
        line.push('…');
    }
    (!line.trim().is_empty()).then_some(line)
}

impl Proc {
    /// The name of the program, as the kernel keeps it beside the process's memory; `None` if the process is gone.
    ///
    /// # Errors
    /// If `/proc` hides it.
    pub fn name(&self, pid: u32) -> Result<Option<String>, Error> {
        let mut text = Vec::new();
        let is_there = self.read_up_to(pid, "comm", LONGEST, &mut text)?;
        Ok(is_there.then(|| printable(text.trim_ascii_end())))
    }

    /// The command line as the kernel tells it, each word with a NUL behind it, cut where it is long; empty if there is none or
    /// the process is gone.
    ///
    /// # Errors
    /// The process's memory is locked.
    pub fn words(&self, pid: u32) -> Result<Vec<u8>, Error> {
        let mut text = Vec::with_capacity(LONGEST);
        self.read_up_to(pid, "cmdline", LONGEST, &mut text)?;
        text.truncate(LONGEST);
        Ok(text)
    }

    /// The command line, or the name in brackets where there is none (threads of the kernel,
    /// zombies) or the process's memory is locked; `None` if the process is gone.
    ///
    /// # Errors
    /// If `/proc` hides it.
    pub fn command(&self, pid: u32) -> Result<Option<String>, Error> {
        let mut text = Vec::with_capacity(LONGEST);
        match self.read_up_to(pid, "cmdline", LONGEST, &mut text) {
            Ok(false) => return Ok(None),
            Ok(true) => text.truncate(LONGEST),
            // Its name is not in its memory.
            Err(error) if error.is_locked() => text.clear(),
            Err(error) => return Err(error),
        }
        match parse(&text) {
            Some(line) => Ok(Some(line)),
            None => Ok(self.name(pid)?.map(|name| format!("[{name}]"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_and_none() {
        assert_eq!(parse(b"a\0b c\0\0").as_deref(), Some("a b c"));
        assert_eq!(parse(b"a\nb\0").as_deref(), Some("a\\nb"));
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"\0\0 \0"), None);
        assert!(parse(&[b'x'; LONGEST]).unwrap().ends_with("x…"));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn anything_goes(bytes in any::<Vec<u8>>()) {
            if let Some(line) = parse(&bytes) {
                prop_assert!(!line.is_empty() && !line.chars().any(char::is_control));
            }
        }
    }
}
