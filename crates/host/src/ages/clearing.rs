//! Setting accessed bits back after a reading.
//!
//! Invariant: a part is trusted afterwards only if all its bits were cleared or none was set, or if it was trusted and is spared;
//! else why not is noted.

use std::time::Duration;

use pagetables::{Cleared, Part, Source, access};

use super::costs::Costs;
use super::found::Hidden;
use super::space::Space;

/// Setting the accessed bits of one process back.
pub(super) struct Clearing<'a> {
    pub(super) pid: u32,
    pub(super) space: &'a mut Space,
    /// How long it may take; none if the bits are not ours.
    pub(super) at_most: Option<Duration>,
    /// Bits of files that are known to be of the last interval stay for the kernel ([`super::Ages::spare_files`]).
    pub(super) spares_files: bool,
    pub(super) costs: &'a mut Costs,
}

impl Clearing<'_> {
    /// Both parts, if they have young entries, with the numbers of their entries and of the young ones.
    pub(super) fn clear(&mut self, source: &mut dyn Source, entries: [u64; 2], young: [u64; 2]) {
        let spares = self.at_most.is_some() && self.space.may_spare(self.spares_files);
        self.space.spared = spares;
        for part in [Part::Anon, Part::File] {
            let at = part as usize;
            match self.at_most {
                None => self.space.trusted[at] = false,
                Some(_) if part == Part::File && spares => {}
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

    /// One part, if nobody waits long for it.
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
