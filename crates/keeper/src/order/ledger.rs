//! Which unmappings of a set of events are older than something that was read before them.
//!
//! Events are read in the order in which threads came to announce them, which is the order of
//! whatever a program may rely on: a call that depends on another begins after the other returned,
//! and none returns before its event was read. Only the kernel reuses addresses earlier: a place
//! that one thread has given up is taken by another thread's mremap before the first has announced
//! it. Then the move is read first and the unmapping later, and it must not empty the place again.
//! One mremap announces its own unmapping of the old place after its move, too.
//!
//! So an unmapping of what has arrived in the same set is in doubt: it may be older or newer than
//! the arrival. Registered memory comes to a place by a move only, and a move clears the place. So
//! when the set is applied the doubt is put to the kernel: what is registered now is what arrived
//! last, and what is not is gone.
//!
//! Invariant: no fault is answered and no page moved while there is a doubt (the blob's `serve`).

/// Places for parts of one kind: more than one for each thread of a large program.
const RANGES: usize = 4096;

/// Some ranges, unordered, disjoint.
#[derive(Clone, Debug)]
pub struct Ranges<const N: usize> {
    at: [(u64, u64); N],
    len: usize,
}

impl<const N: usize> Default for Ranges<N> {
    fn default() -> Ranges<N> {
        Ranges {
            at: [(0, 0); N],
            len: 0,
        }
    }
}

impl<const N: usize> Ranges<N> {
    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes all out.
    pub const fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds a range; false when full.
    #[must_use]
    pub fn add(&mut self, start: u64, end: u64) -> bool {
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
    #[must_use]
    pub fn first(&self, start: u64, end: u64) -> (u64, u64) {
        let parts = self.at[..self.len].iter();
        parts
            .map(|&(s, e)| (s.max(start), e.min(end)))
            .filter(|(s, e)| s < e)
            .fold((end, end), |a, b| if b.0 < a.0 { b } else { a })
    }

    /// Takes `start..end` out, calling `f` with each part that was in here.
    pub fn take(&mut self, start: u64, end: u64, mut f: impl FnMut(u64, u64)) {
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
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Whose set it is (`source` of its messages).
    pub of: u32,
    /// Places that something was moved to.
    arrived: Ranges<RANGES>,
    /// Parts of them that were told to be unmapped.
    doubts: Ranges<RANGES>,
}

impl Ledger {
    /// Forgets the set.
    pub const fn clear(&mut self) {
        self.arrived.clear();
        self.doubts.clear();
    }

    /// Whether the kernel must be asked before anything is answered.
    #[must_use]
    pub const fn in_doubt(&self) -> bool {
        !self.doubts.is_empty()
    }

    /// Something was moved. Once for each move, in the order in which they were made: what is known
    /// of a place is what was moved there last.
    /// False when the place could not be noted.
    #[must_use]
    pub fn moved(&mut self, from: u64, to: u64, len: u64) -> bool {
        for ranges in [&mut self.arrived, &mut self.doubts] {
            ranges.take(from, from + len, |_, _| {});
            ranges.take(to, to + len, |_, _| {});
        }
        self.arrived.add(to, to + len)
    }

    /// The first part of `start..end` that has not arrived in this set; what comes before it is
    /// noted as in doubt. Empty at `end` if there is none. The last is
    /// false when a doubt could not be noted.
    #[must_use]
    pub fn unmapped(&mut self, start: u64, end: u64) -> (u64, u64, bool) {
        let (mut at, mut noted) = (start, true);
        loop {
            let (from, to) = self.arrived.first(at, end);
            if at < from || at == end {
                return (at, from, noted);
            }
            noted &= self.doubts.add(from, to);
            at = to;
        }
    }

    /// A part in doubt.
    #[must_use]
    pub fn doubt(&self) -> Option<(u64, u64)> {
        let (start, end) = self.doubts.first(0, u64::MAX);
        (start < end).then_some((start, end))
    }

    /// The doubt about a part is gone.
    pub fn settled(&mut self, start: u64, end: u64) {
        self.doubts.take(start, end, |_, _| {});
    }
}
