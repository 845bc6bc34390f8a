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
    /// The command line, or the name in brackets where there is none (threads of the kernel,
    /// zombies); `None` if the process is gone.
    ///
    /// # Errors
    /// If `/proc` hides it.
    pub fn command(&self, pid: u32) -> Result<Option<String>, Error> {
        let mut text = Vec::with_capacity(LONGEST);
        if !self.read_up_to(pid, "cmdline", LONGEST, &mut text)? {
            return Ok(None);
        }
        text.truncate(LONGEST);
        match parse(&text) {
            Some(line) => Ok(Some(line)),
            None => Ok(self.stat(pid)?.map(|stat| format!("[{}]", stat.comm))),
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
