//! How what has left for a limit that waits stays away.
//!
//! Invariant: the group may grow by less each time that what left has come back, and by more once less is used than ever before.

use engine::Pages;

/// So many pages more than are wanted: what comes back before the limit is written is less.
pub(super) const SPARE: Pages = Pages(256);
/// What a group may grow by while its limit waits, bytes: as long as what leaves stays away (`wall::Due`), and when it has come back once.
const ROOMS: [u64; 2] = [32 << 20, 8 << 20];

/// The kernel was asked for memory of a tenant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resort {
    /// After this look.
    pub(super) look: u64,
    /// What was used before, and what went.
    pub(super) used: Pages,
    pub(super) got: Pages,
}

/// How what has left for a limit that waits stays away.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Closing {
    /// The least that was used since the limit waits.
    least: Option<Pages>,
    /// How often memory has left and no less was used then; one less each time that less was.
    back: usize,
}

impl Closing {
    /// Memory has left; so much is used now.
    pub(super) fn note(&mut self, used: Pages) {
        match self.least.is_some_and(|least| used.0 + SPARE.0 > least.0) {
            true => self.back = (self.back + 1).min(ROOMS.len()),
            false => (self.least, self.back) = (Some(used), self.back.saturating_sub(1)),
        }
    }

    /// What the group may grow by, bytes; `None` of one that brings back whatever leaves: it may not grow at all.
    pub(super) fn room(&self) -> Option<u64> {
        ROOMS.get(self.back).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_back_meets_a_nearer_bound() {
        let mut closing = Closing::default();
        let mib = |mib: u64| Pages(mib * 256);
        let rooms = [40, 40, 40, 40, 38, 38, 30, 20].map(|used| {
            closing.note(mib(used));
            closing.room().map_or(0, |room| room >> 20)
        });
        // Less is used than ever before: so much more may it grow by again.
        assert_eq!(rooms, [32, 8, 0, 0, 8, 0, 8, 32]);
    }
}
