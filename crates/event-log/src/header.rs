//! What a recording is of.

use crate::varint;

/// Longest command that is kept, bytes.
const COMMAND_MAX: usize = 4096;

/// The first frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Time between two looks that was asked for, milliseconds; looks may come more often.
    pub interval_ms: u64,
    /// What the order of accesses within a look is made from.
    pub seed: u64,
    /// When it was begun, milliseconds since 1970.
    pub begun_ms: u64,
    /// The command line of its first process.
    pub command: String,
}

impl Header {
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

    /// None if it is none.
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
