//! The memcg LRU of one node: an LRU whose entries are memcgs. spec: memcg-lru.md.
//!
//! Global reclaim takes from the old generation; whoever has been reclaimed enough goes to the
//! young one; when the old one is empty the two change places. Each generation is sharded in bins,
//! so that concurrent reclaimers start apart. Random bins come from the seed given at the start:
//! the same calls in the same order do the same.
//!
//! Invariants (memcg-lru.md 9), asserted by `check_invariants`:
//! - I1 an entry is on exactly one list; I5 its `gen` is that list's slot;
//! - I2 `nr_memcgs[g]` is the number of entries in slot g;
//! - I3 only the old and the young slot have entries;
//! - I4 `seq` grows, by one, only when the old slot is left by its last entry.

mod links;
mod walk;

pub use walk::MemcgWalk;

use super::MemcgId;
use alloc::vec::Vec;
use links::Links;

/// Lists a generation is sharded in.
pub const MEMCG_NR_BINS: usize = 8;

/// Whose rules. spec: memcg-lru.md, profiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemcgProfile {
    /// The series of Dec 2022: two slots, size checked before the shrink.
    Seed,
    /// About v6.16: three slots, offline memcgs reclaimed harder.
    #[default]
    Newer,
}

impl MemcgProfile {
    const fn slots(self) -> usize {
        match self {
            Self::Seed => 2,
            Self::Newer => 3,
        }
    }
}

/// What is done to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemcgOp {
    /// Stays where it is.
    Nop,
    /// To the head of a bin of its generation.
    Head,
    /// To the tail of a bin of its generation.
    Tail,
    /// To the head of a bin of the old generation.
    Old,
    /// To the tail of a bin of the young generation.
    Young,
}

/// The last HEAD or TAIL of an entry since its last OLD or YOUNG.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Segment {
    /// Neither.
    #[default]
    Default,
    /// HEAD.
    Head,
    /// TAIL.
    Tail,
}

/// One node's memcg LRU.
#[derive(Debug)]
pub struct MemcgLru {
    profile: MemcgProfile,
    seq: u64,
    nr_memcgs: [usize; 3],
    /// List `slot * 8 + bin`.
    links: Links,
    segments: Vec<Segment>,
    random: u64,
    /// The bin that the next walk begins with, and the entry that it begins behind; none for a random bin.
    left_off: Option<(usize, Option<MemcgId>)>,
}

impl MemcgLru {
    /// An empty LRU; `seed` decides all its bins.
    #[must_use]
    pub fn new(profile: MemcgProfile, seed: u64) -> Self {
        Self {
            profile,
            seq: 0,
            nr_memcgs: [0; 3],
            links: Links::new(profile.slots() * MEMCG_NR_BINS),
            segments: Vec::new(),
            random: seed,
            left_off: None,
        }
    }

    /// Whose rules.
    #[must_use]
    pub const fn profile(&self) -> MemcgProfile {
        self.profile
    }

    /// The generation counter.
    #[must_use]
    pub const fn seq(&self) -> u64 {
        self.seq
    }

    /// The slot that reclaim takes from.
    #[must_use]
    pub const fn old_slot(&self) -> usize {
        self.slot(self.seq)
    }

    /// The slot of those that have been reclaimed.
    #[must_use]
    pub const fn young_slot(&self) -> usize {
        self.slot(self.seq + 1)
    }

    const fn slot(&self, seq: u64) -> usize {
        // Modulo a constant, so that the result is seen to be small.
        match self.profile {
            MemcgProfile::Seed => (seq % 2) as usize,
            MemcgProfile::Newer => (seq % 3) as usize,
        }
    }

    /// Entries of `slot`.
    #[must_use]
    pub const fn nr_memcgs(&self, slot: usize) -> usize {
        self.nr_memcgs[slot]
    }

    /// The slot of `id`; `None` when it has no entry.
    #[must_use]
    pub fn slot_of(&self, id: MemcgId) -> Option<usize> {
        self.links.list_of(id).map(|list| list / MEMCG_NR_BINS)
    }

    /// The bin of `id`.
    #[must_use]
    pub fn bin_of(&self, id: MemcgId) -> Option<usize> {
        self.links.list_of(id).map(|list| list % MEMCG_NR_BINS)
    }

    /// The segment of `id`.
    #[must_use]
    pub fn segment(&self, id: MemcgId) -> Segment {
        self.segments.get(id.index()).copied().unwrap_or_default()
    }

    /// A bin drawn from the seed (splitmix64: every state is good, also zero).
    fn random_bin(&mut self) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.random ^ self.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z >> 61) as usize
    }

    /// Walks go on where the last one ended. The kernel begins at random, so that many that reclaim at once keep apart; with
    /// one at a time that makes who is met a matter of chance, and one who is met twice gives twice.
    pub fn set_in_turn(&mut self) {
        self.left_off = Some((0, None));
    }

    /// Where a walk begins: a bin, and the entry that it begins behind.
    fn first_bin(&mut self) -> (usize, Option<MemcgId>) {
        match self.left_off {
            Some(place) => place,
            None => (self.random_bin(), None),
        }
    }

    /// A walk ended in `bin`, and what it met last there is still in it.
    fn leave_off(&mut self, bin: usize, last: Option<MemcgId>) {
        if self.left_off.is_some() {
            self.left_off = Some((bin, last));
        }
    }

    /// A memcg came online: tail of a bin of the old generation.
    pub fn online(&mut self, id: MemcgId) {
        assert!(self.links.list_of(id).is_none(), "{id:?} is online already");
        if self.segments.len() <= id.index() {
            self.segments.resize(id.index() + 1, Segment::Default);
        }
        self.segments[id.index()] = Segment::Default;
        let (slot, bin) = (self.old_slot(), self.random_bin());
        self.links.push_tail(slot * MEMCG_NR_BINS + bin, id);
        self.nr_memcgs[slot] += 1;
    }

    /// A memcg went offline: it is next.
    pub fn offline(&mut self, id: MemcgId) {
        self.rotate(id, MemcgOp::Old);
    }

    /// A memcg is gone for good.
    pub fn release(&mut self, id: MemcgId) {
        let Some(slot) = self.slot_of(id) else { return };
        self.links.unlink(id);
        self.nr_memcgs[slot] -= 1;
        self.advance_if_empty(slot);
    }

    /// The soft limit of `id` is exceeded: HEAD, unless that was its last move.
    pub fn soft_limit_exceeded(&mut self, id: MemcgId) {
        if self.segment(id) != Segment::Head {
            self.rotate(id, MemcgOp::Head);
        }
    }

    /// Applies `op` to `id`, in a new random bin. No effect on a memcg without an entry.
    pub fn rotate(&mut self, id: MemcgId, op: MemcgOp) {
        let Some(from) = self.slot_of(id).filter(|_| op != MemcgOp::Nop) else {
            return;
        };
        let (to, segment) = match op {
            MemcgOp::Nop => return,
            MemcgOp::Head => (from, Segment::Head),
            MemcgOp::Tail => (from, Segment::Tail),
            MemcgOp::Old => (self.old_slot(), Segment::Default),
            MemcgOp::Young => (self.young_slot(), Segment::Default),
        };
        let list = to * MEMCG_NR_BINS + self.random_bin();
        self.links.unlink(id);
        match op {
            MemcgOp::Head | MemcgOp::Old => self.links.push_head(list, id),
            _ => self.links.push_tail(list, id),
        }
        self.segments[id.index()] = segment;
        self.nr_memcgs[from] -= 1;
        self.nr_memcgs[to] += 1;
        self.advance_if_empty(from);
    }

    fn advance_if_empty(&mut self, left: usize) {
        if self.nr_memcgs[left] == 0 && left == self.old_slot() {
            self.seq += 1;
        }
    }

    /// Entries of one bin, head first.
    #[must_use]
    pub fn bin(&self, slot: usize, bin: usize) -> Vec<MemcgId> {
        self.links.iter(slot * MEMCG_NR_BINS + bin).collect()
    }

    /// Asserts the invariants. Costs a look at every entry.
    ///
    /// # Panics
    /// When one does not hold.
    pub fn check_invariants(&self) {
        self.links.check();
        for slot in 0..self.profile.slots() {
            let counted: usize = (0..MEMCG_NR_BINS)
                .map(|bin| self.bin(slot, bin).len())
                .sum();
            assert_eq!(counted, self.nr_memcgs[slot], "I2: slot {slot}");
            let in_use = slot == self.old_slot() || slot == self.young_slot();
            assert!(in_use || counted == 0, "I3: slot {slot}");
        }
    }
}

#[cfg(test)]
mod tests;
