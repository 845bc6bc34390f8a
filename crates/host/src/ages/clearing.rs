//! Clears the accessed bits of one process after a walk.
//!
//! Invariant: the memory of a process has two parts that are cleared separately, anonymous memory
//! and files. Afterwards a part is trusted only if all its bits were cleared, or no bit was set, or
//! the part was trusted before and its bits were kept on purpose (`kept_bits`). Otherwise the
//! reason is recorded.

use std::time::Duration;

use pagetables::{Cleared, Part, Source, access};

use super::costs::Costs;
use super::found::Hidden;
use super::space::Space;

/// Clears the accessed bits of one process.
pub(super) struct Clearing<'a> {
    pub(super) pid: u32,
    pub(super) space: &'a mut Space,
    /// Longest time that clearing may take; `None` if another pagetide clears this process's bits.
    pub(super) at_most: Option<Duration>,
    /// Whether this scan keeps file bits for the kernel's own reclaim, if they are known to belong
    /// to the last interval ([`super::Ages::keep_file_bits`]).
    pub(super) keeps_file_bits: bool,
    pub(super) costs: &'a mut Costs,
}

impl Clearing<'_> {
    /// Clears each part that has entries with the accessed bit set. `entries`: numbers of all
    /// entries, of anonymous memory, then of files. `young`: numbers of entries with the bit set,
    /// in the same order.
    pub(super) fn clear(&mut self, source: &mut dyn Source, entries: [u64; 2], young: [u64; 2]) {
        let keeps_bits =
            self.at_most.is_some() && self.space.may_keep_file_bits(self.keeps_file_bits);
        self.space.kept_bits = keeps_bits;
        for part in [Part::Anon, Part::File] {
            let at = part as usize;
            match self.at_most {
                None => self.space.trusted[at] = false,
                Some(_) if part == Part::File && keeps_bits => {}
                Some(at_most) if young[at] > 0 => {
                    self.clear_part(source, part, entries[at], at_most);
                }
                Some(_) => {
                    self.space.trusted[at] = true;
                    self.space.not_cleared[at] = None;
                }
            }
        }
    }

    /// Clears the bits of one part, unless that is expected to take longer than `at_most`.
    fn clear_part(&mut self, source: &mut dyn Source, part: Part, entries: u64, at_most: Duration) {
        let (space, at) = (&mut *self.space, part as usize);
        let cleared = source.clear((self.pid, part), &mut space.pace[at], entries, at_most);
        if let Ok(Cleared::Done(took)) = cleared {
            self.costs.clear += took;
            self.costs.clear_longest = self.costs.clear_longest.max(took);
        }
        space.trusted[at] = matches!(cleared, Ok(Cleared::Done(_)));
        space.not_cleared[at] = match cleared {
            Ok(Cleared::Done(_)) => None,
            Ok(Cleared::TooLong(expected)) => Some(Hidden::Stall(expected)),
            Err(error) if access::is_locked(&error) => Some(Hidden::Locked),
            Err(error) => Some(Hidden::Denied(error.kind())),
        };
    }
}
