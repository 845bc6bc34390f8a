//! `/proc/PID/statm` (proc_pid_statm(5)): only the size of a process; costs less than `stat`.
//!
//! Invariant: sizes are pages. On kernels where the two files differ, `statm` contains the exact
//! sum of the counters, and `stat` an estimate.

use crate::system::error::Error;
use crate::system::proc::Proc;
use crate::system::text::{number, printable, words};

/// Parses the number of resident pages, the second number.
fn parse_resident(text: &[u8]) -> Option<u64> {
    words(text.trim_ascii()).nth(1).and_then(number)
}

impl Proc {
    /// Returns the resident pages of a process: 0 if the process has ended, `None` if its pid no
    /// longer exists.
    ///
    /// # Errors
    /// `/proc` hides the process, or the format is unknown.
    pub fn resident(&self, pid: u32) -> Result<Option<u64>, Error> {
        let mut text = Vec::with_capacity(1024);
        // One read(2) returns the whole file.
        if !self.read_up_to(pid, "statm", 1, &mut text)? {
            return Ok(None);
        }
        parse_resident(&text)
            .map(Some)
            .ok_or_else(|| Error::Unknown {
                path: self.path(pid, "statm"),
                what: printable(&text),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_number_is_what_is_resident() {
        assert_eq!(parse_resident(b"604 256 239 5 0 113 0\n"), Some(256));
        assert_eq!(parse_resident(b"0 0 0 0 0 0 0\n"), Some(0));
        assert_eq!(parse_resident(b"604"), None);
        assert_eq!(parse_resident(b"604 x 1"), None);
    }

    #[test]
    fn our_process_is_resident_and_a_missing_one_is_none() {
        let proc = Proc::system().expect("it is mounted");
        let own = proc.resident(std::process::id()).expect("it is ours");
        assert!(own.is_some_and(|pages| pages > 0));
        assert_eq!(proc.resident(4_194_304).expect("above any pid"), None);
    }
}
