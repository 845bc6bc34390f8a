//! The header of a recording: its first frame.

use crate::varint;

/// Maximum length of the recorded command line, bytes.
const COMMAND_MAX: usize = 4096;

/// What was recorded, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Size of a page, bytes.
    pub page_bytes: u64,
    /// Configured time between two scans, milliseconds. Scans may follow each other faster.
    pub interval_ms: u64,
    /// Seed for the order in which the accesses of one scan are replayed.
    pub seed: u64,
    /// Time at which the recording began, milliseconds since 1970.
    pub begun_ms: u64,
    /// The command line of the program's first process.
    pub command: String,
}

impl Header {
    /// Appends the header to `out`; cuts the command line to [`COMMAND_MAX`] bytes.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        for value in [self.page_bytes, self.interval_ms, self.seed, self.begun_ms] {
            varint::put(out, value);
        }
        let mut end = self.command.len().min(COMMAND_MAX);
        while !self.command.is_char_boundary(end) {
            end -= 1;
        }
        varint::put(out, end as u64);
        out.extend_from_slice(&self.command.as_bytes()[..end]);
    }

    /// Parses a header and removes it from `bytes`; `None` if `bytes` do not begin with a header.
    pub(crate) fn take(bytes: &mut &[u8]) -> Option<Header> {
        let mut header = Header {
            page_bytes: varint::take(bytes)?,
            interval_ms: varint::take(bytes)?,
            seed: varint::take(bytes)?,
            begun_ms: varint::take(bytes)?,
            command: String::new(),
        };
        let length = usize::try_from(varint::take(bytes)?).ok()?;
        let (command, rest) = bytes.split_at_checked(length.min(COMMAND_MAX + 1))?;
        *bytes = rest;
        header.command = String::from_utf8(command.to_vec()).ok()?;
        let is_sound = header.page_bytes.is_power_of_two() && length <= COMMAND_MAX;
        is_sound.then_some(header)
    }
}
