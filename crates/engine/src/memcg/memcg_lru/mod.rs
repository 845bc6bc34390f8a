//! The memcg LRU: an LRU whose entries are memcgs, by which reclaim of the root chooses memcgs.
//! spec: memcg-lru.md.
//!
//! Global reclaim visits the memcgs of the old generation. A memcg from which enough was reclaimed
//! moves to the young generation. When the old generation is empty, the young one becomes the old
//! one. Each generation is divided into bins, so that concurrent reclaimers start at different
//! bins. Bins are chosen at random from a given seed, so the same calls in the same order have the
//! same results.
//!
//! Invariants (memcg-lru.md 9), asserted by `check_invariants`:
//! - I1 an entry is on exactly one list; I5 the slot of that list is the entry's generation;
//! - I2 `nr_memcgs[g]` is the number of entries in slot g;
//! - I3 only the old and the young slot have entries;
//! - I4 `seq` grows, by one, only when the last entry moves out of the old slot.

mod links;
mod walk;

pub use walk::MemcgWalk;

use super::MemcgId;
use alloc::vec::Vec;
use links::Links;

/// Number of lists (bins) into which a generation is divided.
pub const MEMCG_NR_BINS: usize = 8;

/// Version of the kernel's code whose rules the memcg LRU follows.
/// spec: memcg-lru.md, profiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemcgProfile {
    /// The patch series of December 2022: two slots; reclaim checks a memcg's size before it visits
    /// the memcg.
    Seed,
    /// About Linux v6.16: three slots; offline memcgs are reclaimed with higher pressure.
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

/// Where an entry of the memcg LRU moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemcgOp {
    /// The entry stays where it is.
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

/// The kind of an entry's last move within its generation: to the head or to the tail of a bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Segment {
    /// The entry has not moved since it entered its generation.
    #[default]
    Default,
    /// To the head ([`MemcgOp::Head`]).
    Head,
    /// To the tail ([`MemcgOp::Tail`]).
    Tail,
}

/// The memcg LRU.
#[derive(Debug)]
pub struct MemcgLru {
    profile: MemcgProfile,
    seq: u64,
    nr_memcgs: [usize; 3],
    /// The lists; the index is `slot * 8 + bin`.
    links: Links,
    segments: Vec<Segment>,
    random: u64,
    /// Where the next walk begins: the bin, and the entry in that bin after which the walk begins
    /// (`None`: at the head). The whole is `None` if each walk begins at a random bin.
    next_start: Option<(usize, Option<MemcgId>)>,
}

impl MemcgLru {
    /// Creates an empty memcg LRU; `seed` decides all random bins.
    #[must_use]
    pub fn new(profile: MemcgProfile, seed: u64) -> Self {
        Self {
            profile,
            seq: 0,
            nr_memcgs: [0; 3],
            links: Links::new(profile.slots() * MEMCG_NR_BINS),
            segments: Vec::new(),
            random: seed,
            next_start: None,
        }
    }

    /// The version of the kernel's code whose rules this LRU follows.
    #[must_use]
    pub const fn profile(&self) -> MemcgProfile {
        self.profile
    }

    /// Returns the sequence number of the old generation.
    #[must_use]
    pub const fn seq(&self) -> u64 {
        self.seq
    }

    /// Returns the slot of the old generation, whose memcgs reclaim visits.
    #[must_use]
    pub const fn old_slot(&self) -> usize {
        self.slot(self.seq)
    }

    /// Returns the slot of the young generation, to which memcgs move after reclaim from them.
    #[must_use]
    pub const fn young_slot(&self) -> usize {
        self.slot(self.seq + 1)
    }

    const fn slot(&self, seq: u64) -> usize {
        // The constants let the compiler see that the index is within bounds.
        match self.profile {
            MemcgProfile::Seed => (seq % 2) as usize,
            MemcgProfile::Newer => (seq % 3) as usize,
        }
    }

    /// Returns the number of entries in `slot`.
    #[must_use]
    pub const fn nr_memcgs(&self, slot: usize) -> usize {
        self.nr_memcgs[slot]
    }

    /// Returns the slot of `id`; `None` if it has no entry.
    #[must_use]
    pub fn slot_of(&self, id: MemcgId) -> Option<usize> {
        self.links.list_of(id).map(|list| list / MEMCG_NR_BINS)
    }

    /// Returns the bin of `id`; `None` if it has no entry.
    #[must_use]
    pub fn bin_of(&self, id: MemcgId) -> Option<usize> {
        self.links.list_of(id).map(|list| list % MEMCG_NR_BINS)
    }

    /// Returns the last move of `id` within its generation.
    #[must_use]
    pub fn segment(&self, id: MemcgId) -> Segment {
        self.segments.get(id.index()).copied().unwrap_or_default()
    }

    /// Draws a random bin (splitmix64, which works from any state, also zero).
    fn random_bin(&mut self) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.random ^ self.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z >> 61) as usize
    }

    /// Makes each walk continue where the last one ended. The kernel's walks begin at random bins,
    /// so that concurrent reclaimers rarely meet. With a single reclaimer, chance would decide from
    /// which memcg pages are reclaimed, and a memcg that is chosen twice would lose twice as many.
    pub fn set_in_turn(&mut self) {
        self.next_start = Some((0, None));
    }

    /// Returns where a walk begins: the bin, and the entry after which it begins (`None`: at the
    /// head).
    fn first_bin(&mut self) -> (usize, Option<MemcgId>) {
        match self.next_start {
            Some(start) => start,
            None => (self.random_bin(), None),
        }
    }

    /// Records that a walk ended in `bin`, at the entry `last`; `None` if that entry has left the
    /// bin.
    fn note_walk_end(&mut self, bin: usize, last: Option<MemcgId>) {
        if self.next_start.is_some() {
            self.next_start = Some((bin, last));
        }
    }

    /// Adds an entry for a new memcg, at the tail of a bin of the old generation.
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

    /// Moves the entry of a removed memcg to the head of a bin of the old generation, so that the
    /// memcg is reclaimed from soon.
    pub fn offline(&mut self, id: MemcgId) {
        self.rotate(id, MemcgOp::Old);
    }

    /// Removes the entry of a memcg that is released.
    pub fn release(&mut self, id: MemcgId) {
        let Some(slot) = self.slot_of(id) else { return };
        self.links.unlink(id);
        self.nr_memcgs[slot] -= 1;
        self.advance_if_empty(slot);
    }

    /// Moves the entry of a memcg above its soft limit to the head of a bin of its generation,
    /// unless its last move was that.
    pub fn soft_limit_exceeded(&mut self, id: MemcgId) {
        if self.segment(id) != Segment::Head {
            self.rotate(id, MemcgOp::Head);
        }
    }

    /// Moves the entry of `id` as `op` says, to a random bin. Has no effect on a memcg without an
    /// entry.
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

    fn advance_if_empty(&mut self, slot: usize) {
        if self.nr_memcgs[slot] == 0 && slot == self.old_slot() {
            self.seq += 1;
        }
    }

    /// Returns the entries of one bin, head first.
    #[must_use]
    pub fn bin(&self, slot: usize, bin: usize) -> Vec<MemcgId> {
        self.links.iter(slot * MEMCG_NR_BINS + bin).collect()
    }

    /// Asserts the invariants; reads every entry.
    ///
    /// # Panics
    /// When an invariant does not hold.
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
