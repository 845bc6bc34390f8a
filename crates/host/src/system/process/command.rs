//! A process's command line: `/proc/PID/cmdline` (proc_pid_cmdline(5)).
//!
//! Invariant: the result is one line, safe for a terminal, and not empty. A process can change this
//! text, so the text does not prove which program runs.

use crate::system::error::Error;
use crate::system::proc::Proc;
use crate::system::text::printable;

/// Bytes after which a command line is cut: some programs have megabytes of arguments.
const COMMAND_BYTES_MAX: usize = 4096;

/// Returns the words of a command line, joined by blanks; `None` if there are none.
fn parse(text: &[u8]) -> Option<String> {
    let words = text.split(|&b| b == 0).filter(|word| !word.is_empty());
    let mut line = words.map(printable).collect::<Vec<_>>().join(" ");
    if text.len() >= COMMAND_BYTES_MAX {
        line.push('…');
    }
    (!line.trim().is_empty()).then_some(line)
}

impl Proc {
    /// Returns the name of the program; `None` if the process has ended. The kernel stores the name
    /// outside of the process's memory, so the name can be read even if that memory is locked.
    ///
    /// # Errors
    /// `/proc` hides the process.
    pub fn name(&self, pid: u32) -> Result<Option<String>, Error> {
        let mut text = Vec::new();
        let is_there = self.read_up_to(pid, "comm", COMMAND_BYTES_MAX, &mut text)?;
        Ok(is_there.then(|| printable(text.trim_ascii_end())))
    }

    /// Returns the command line as the kernel reports it: each word is followed by a NUL; cut after
    /// 4096 bytes. Empty if there is no command line or the process has ended.
    ///
    /// # Errors
    /// The lock of the process's memory is held without end.
    pub fn words(&self, pid: u32) -> Result<Vec<u8>, Error> {
        let mut text = Vec::with_capacity(COMMAND_BYTES_MAX);
        self.read_up_to(pid, "cmdline", COMMAND_BYTES_MAX, &mut text)?;
        text.truncate(COMMAND_BYTES_MAX);
        Ok(text)
    }

    /// Returns the command line as one line; `None` if the process has ended. Returns the name in
    /// brackets if there is no command line (kernel threads, zombies), or if the lock of the
    /// process's memory is held without end.
    ///
    /// # Errors
    /// `/proc` hides the process.
    pub fn command(&self, pid: u32) -> Result<Option<String>, Error> {
        let mut text = Vec::with_capacity(COMMAND_BYTES_MAX);
        match self.read_up_to(pid, "cmdline", COMMAND_BYTES_MAX, &mut text) {
            Ok(false) => return Ok(None),
            Ok(true) => text.truncate(COMMAND_BYTES_MAX),
            // Unlike the command line, the name is not in the process's memory.
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
        assert!(parse(&[b'x'; COMMAND_BYTES_MAX]).unwrap().ends_with("x…"));
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
