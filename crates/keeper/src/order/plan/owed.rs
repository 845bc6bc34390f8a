//! Unmappings that are read later than something came to the place: for those who were there before.
//!
//! Invariant: a place is owed by an unmapping once.

/// Places that are owed.
const OWED_MAX: usize = 128;

/// Of which unmapping, and where.
pub(super) struct Owed {
    at: [(usize, u64, u64); OWED_MAX],
    len: usize,
}

impl Owed {
    pub(super) const fn new() -> Owed {
        Owed {
            at: [(0, 0, 0); OWED_MAX],
            len: 0,
        }
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    /// Without room it is not noted, and the unmapping taken at its word: an order that is worse.
    pub(super) fn add(&mut self, unmapping: usize, start: u64, end: u64) {
        if self.len < OWED_MAX {
            self.at[self.len] = (unmapping, start, end);
            self.len += 1;
        }
    }

    /// The first part of `start..end` that an unmapping owes; empty at `end` if there is none.
    pub(super) fn first(&self, unmapping: usize, start: u64, end: u64) -> (u64, u64) {
        let mine = self.at[..self.len].iter().filter(|o| o.0 == unmapping);
        mine.map(|&(_, s, e)| (s.max(start), e.min(end)))
            .filter(|(s, e)| s < e)
            .min()
            .unwrap_or((end, end))
    }
}
