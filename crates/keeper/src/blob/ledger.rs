//! Which unmappings of a set of events belong before something that was read earlier.
//!
//! Events are read in the order in which threads came to announce them, which is the order of
//! whatever a program may rely on: a call that depends on another begins after the other returned,
//! and none returns before its event was read. Only the kernel reuses addresses earlier: a place
//! that one thread has given up is taken by another thread's mremap before the first has announced
//! it. Then the move is read first and the unmapping later, and it must not empty the place again.
//! One mremap announces its own unmapping of the old place after its move, too.
//!
//! Invariant: `owed` are the parts of places that were moved to while the set had not yet told of
//! the end of what was there; the first unmapping of such a part pays for it and does nothing else.

use super::table::Table;

/// Places for parts of one kind in a set of events.
const RANGES: usize = 128;

/// Some ranges, unordered, disjoint.
pub(super) struct Ranges<const N: usize> {
    at: [(u64, u64); N],
    len: usize,
}

impl<const N: usize> Ranges<N> {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds a range; false when full.
    pub(super) fn add(&mut self, start: u64, end: u64) -> bool {
        self.take(start, end, |_, _| {});
        if self.len == N {
            return false;
        }
        if start < end {
            self.at[self.len] = (start, end);
            self.len += 1;
        }
        true
    }

    /// The first part of `start..end` that is in here; empty at `end` if there is none.
    pub(super) fn first(&self, start: u64, end: u64) -> (u64, u64) {
        let parts = self.at[..self.len].iter();
        parts
            .map(|&(s, e)| (s.max(start), e.min(end)))
            .filter(|(s, e)| s < e)
            .fold((end, end), |a, b| if b.0 < a.0 { b } else { a })
    }

    /// Takes `start..end` out, calling `f` with each part that was in here.
    pub(super) fn take(&mut self, start: u64, end: u64, mut f: impl FnMut(u64, u64)) {
        let mut i = 0;
        while i < self.len {
            let (s, e) = self.at[i];
            let (from, to) = (s.max(start), e.min(end));
            if from >= to {
                i += 1;
                continue;
            }
            f(from, to);
            self.len -= 1;
            self.at[i] = self.at[self.len];
            for part in [(s, from), (to, e)] {
                // Splitting a range may need one more place than it gave up.
                if part.0 < part.1 && self.len < N {
                    self.at[self.len] = part;
                    self.len += 1;
                }
            }
        }
    }
}

/// The ledger of the set that is being applied.
pub(super) struct Ledger {
    /// Places that something was moved away from and whose unmapping was not read yet.
    pub(super) vacated: Ranges<RANGES>,
    /// Unmappings that were due before a move and were not read yet.
    pub(super) owed: Ranges<RANGES>,
}

impl Ledger {
    pub(super) fn clear(&mut self) {
        self.vacated.clear();
        self.owed.clear();
    }

    /// Something is moved to `start..end`: what was vacated there is owed.
    pub(super) fn taken(&mut self, t: Table, start: u64, end: u64) {
        let Self { vacated, owed } = self;
        vacated.take(start, end, |s, e| {
            if !owed.add(s, e) {
                t.anomaly(50, 0);
            }
        });
    }
}
