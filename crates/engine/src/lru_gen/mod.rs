//! The multi-gen LRU of one lruvec. spec: lru-gen.md; the kernel's mm/vmscan.c.
//!
//! Pages are grouped in generations, numbered in sequence. The youngest, `max_seq`, is common to
//! both types (anon and file); each type has its own oldest, `min_seq`. Aging opens a new youngest
//! generation after a walk has promoted the pages that it found young. Eviction takes pages from
//! the tail of the oldest generation.
//!
//! A walk changes only a page's word and the counts. The page stays on its list until eviction
//! finds it there and moves it to the list that its word names. So each page has a single list
//! entry.
//!
//! A machine with several memory nodes has a list of each generation and type for each node
//! (`nodes.rs`), as the kernel has one for each zone.
//!
//! Invariants (lru-gen.md 11), asserted by `check`:
//! - I1 `MIN_NR_GENS <= max_seq - min_seq[t] + 1 <= MAX_NR_GENS`;
//! - I2 the generation in a word denotes a seq in `min_seq..=max_seq`: the slot is the seq modulo 4
//!   and the window holds at most 4, so every slot in use denotes exactly one;
//! - I3 `nr_pages` equals the pages counted one by one;
//! - I5 births do not decrease from `min_seq` to `max_seq`;
//! - I6 with both types evictable, the two `min_seq` differ by at most 1 once aligned.

mod bloom;
mod controller;
mod look_around;
mod nodes;
mod refault_clock;
mod refs;

mod budget;
mod check;
mod insert;
mod refault;

mod aging;

mod eviction;

mod by_age;

pub use bloom::{BLOOM_FILTER_SHIFT, BloomFilters, is_dense};
pub use budget::ScanTarget;
pub use by_age::ByAgeCursor;
pub use controller::{Controller, Position};
pub use eviction::{IsolateBudget, Isolated};
pub use insert::Insertion;
pub use look_around::{LOOK_AROUND_PTES, look_around_window};
pub use refs::{refs, tier};

use crate::folio::{FolioId, FolioTable, FolioType};
use crate::list::Lists;
use crate::units::{Millis, Pages, Swappiness};
use crate::word::{NodeId, Word};
use alloc::vec::Vec;
use nodes::OtherNodes;
use refault_clock::RefaultClock;

/// Minimum number of generations of a type: eviction never takes from the two youngest.
pub const MIN_NR_GENS: u64 = 2;
/// Maximum number of generations, and the size of arrays that have an element for each.
pub const MAX_NR_GENS: u64 = 4;
/// Number of tiers within a generation.
pub const MAX_NR_TIERS: usize = 4;
/// Number of bits in a page's reference field.
pub const LRU_REFS_WIDTH: u32 = 2;
/// Pages of one eviction batch in the kernel; also the number of refaults below which the refault
/// controller decides nothing.
pub const MIN_LRU_BATCH: usize = 64;
/// Maximum number of pages scanned for one batch.
pub const MAX_LRU_BATCH: usize = 4096;
/// The first reclaim priority. A pass at a priority scans `size >> priority` pages, so lower
/// priorities mean more pressure.
pub const DEF_PRIORITY: u32 = 12;

const SLOTS: usize = 4;

/// Linux version whose rules the lists follow.
/// spec: lru-gen.md, head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// About v6.16.
    #[default]
    P616,
    /// About v6.12: as [`Self::P63`], but new pages start in other generations, and a page that
    /// refaults soon gets other flags back.
    P612,
    /// About v6.3, when the memcg LRU was added.
    P63,
}

impl Profile {
    /// Whether the rules before Linux v6.14 apply.
    ///
    /// By these, one access through a page table promotes a page, and the sizes of generations
    /// decide when to age. A refault is recent until the generation from which the page was evicted
    /// has ended for its type.
    #[must_use]
    pub const fn is_before_614(self) -> bool {
        !matches!(self, Self::P616)
    }
}

/// The state of the multi-gen LRU of one lruvec.
#[derive(Debug)]
pub struct LruGen {
    profile: Profile,
    max_seq: u64,
    min_seq: [u64; 2],
    /// Birth of each generation.
    timestamps: [Millis; SLOTS],
    /// The lists; the index is `(node * 4 + slot) * 2 + type`.
    lists: Lists<{ SLOTS * 2 }>,
    /// Number of pages by slot and type. Signed, as in the kernel, where batched walks may make a
    /// count negative for a while.
    nr_pages: [[i64; 2]; SLOTS],
    /// The parts of `nr_pages` that are on each memory node but the first.
    others: OtherNodes,
    controller: Controller,
    /// The `seq` of the last walk that a caller has claimed, so that no two callers age the same
    /// generation.
    walk_seq: u64,
    /// Whether every reclaim so far could take both types. Only then must I6 hold.
    two_sided: bool,
    /// Decides whether a refault is recent, if scans open the generations; `None` if reclaim opens
    /// them, as in a kernel.
    clock: Option<RefaultClock>,
}

/// Returns the array index (slot) of a generation.
#[must_use]
pub const fn slot_of(seq: u64) -> usize {
    (seq % MAX_NR_GENS) as usize
}

const fn list_of(slot: usize, ty: FolioType, node: NodeId) -> usize {
    (node.index() * SLOTS + slot) * 2 + ty.index()
}

impl Swappiness {
    /// Whether pages of type `ty` may be evicted at all under this swappiness.
    #[must_use]
    pub const fn may_evict(self, ty: FolioType) -> bool {
        match ty {
            FolioType::Anon => self.get() > 0,
            FolioType::File => self.get() <= Self::MAX,
        }
    }
}

impl LruGen {
    /// Creates an empty lruvec: all four generations exist, all born `now`.
    /// spec: lru-gen.md 2.
    #[must_use]
    pub fn new(profile: Profile, now: Millis) -> Self {
        Self {
            profile,
            max_seq: MIN_NR_GENS + 1,
            min_seq: [0; 2],
            timestamps: [now; SLOTS],
            lists: Lists::new(),
            nr_pages: [[0; 2]; SLOTS],
            others: OtherNodes::new(),
            controller: Controller::default(),
            walk_seq: MIN_NR_GENS,
            two_sided: true,
            clock: None,
        }
    }

    /// Declares that scans open the generations, whether or not reclaim needs them. From now on the
    /// number of pages evicted since a page's eviction decides whether its refault is recent, not
    /// the number of generations opened since.
    pub(crate) fn set_aged_by_scans(&mut self) {
        self.clock = Some(RefaultClock::default());
    }

    /// Folds the controller's counts of `ty` because its oldest generation has ended; with a
    /// refault clock, the clock decides when to fold instead.
    fn carry_over(&mut self, ty: FolioType) {
        if self.clock.is_none() {
            self.controller.carry_over(ty);
        }
    }

    /// Returns whether a page that aging moves counts as protected. If scans open the generations,
    /// the number of such pages is limited: otherwise idle pages would count at each scan, for
    /// hours without an eviction.
    fn may_count_aged(&mut self) -> bool {
        if self.clock.is_none() {
            return true;
        }
        let resident = self.resident();
        self.clock
            .as_mut()
            .is_none_or(|clock| clock.count_aged(resident))
    }

    fn resident(&self) -> Pages {
        Pages(self.total(FolioType::Anon) + self.total(FolioType::File))
    }

    /// The Linux version whose rules the lists follow.
    #[must_use]
    pub const fn profile(&self) -> Profile {
        self.profile
    }

    /// The youngest generation.
    #[must_use]
    pub const fn max_seq(&self) -> u64 {
        self.max_seq
    }

    /// The oldest generation of `ty`.
    #[must_use]
    pub const fn min_seq(&self, ty: FolioType) -> u64 {
        self.min_seq[ty.index()]
    }

    /// Number of generations that `ty` has now.
    #[must_use]
    pub const fn nr_gens(&self, ty: FolioType) -> u64 {
        self.max_seq - self.min_seq(ty) + 1
    }

    /// Returns when generation `seq` was opened; `seq` must be between `min_seq` and `max_seq`.
    #[must_use]
    pub const fn birth(&self, seq: u64) -> Millis {
        self.timestamps[slot_of(seq)]
    }

    /// Returns the number of pages of `ty` in generation `seq`; zero if that generation does not
    /// exist.
    #[must_use]
    pub const fn size(&self, seq: u64, ty: FolioType) -> u64 {
        if seq < self.min_seq(ty) || seq > self.max_seq {
            return 0;
        }
        clamped(self.nr_pages[slot_of(seq)][ty.index()])
    }

    /// Number of pages of `ty` on the lists.
    #[must_use]
    pub fn total(&self, ty: FolioType) -> u64 {
        clamped_sum(self.nr_pages.iter().map(|slot| slot[ty.index()]))
    }

    /// Whether all pages are in the oldest generation, and no generation can be added. Opening
    /// another would move all pages together, and so distinguish none of them.
    #[must_use]
    pub fn is_all_oldest(&self) -> bool {
        FolioType::ALL.into_iter().all(|ty| {
            let is_oldest = self.size(self.min_seq(ty), ty) == self.total(ty);
            is_oldest && self.nr_gens(ty) == MAX_NR_GENS
        })
    }

    /// Number of pages that vmstat shows as active: those of the two youngest generations.
    #[must_use]
    pub const fn active(&self, ty: FolioType) -> u64 {
        self.size(self.max_seq, ty) + self.size(self.max_seq - 1, ty)
    }

    /// Number of pages that vmstat shows as inactive.
    #[must_use]
    pub fn inactive(&self, ty: FolioType) -> u64 {
        self.total(ty) - self.active(ty)
    }

    /// The refault controller's counts.
    #[must_use]
    pub const fn controller(&self) -> &Controller {
        &self.controller
    }

    /// Memory that the lists occupy, in bytes.
    #[must_use]
    pub fn footprint(&self) -> usize {
        self.lists.footprint()
    }

    /// The generation number that `slot`, from a page's word, denotes for `ty` (invariant I2).
    #[must_use]
    pub const fn seq_of(&self, slot: usize, ty: FolioType) -> u64 {
        let min = self.min_seq(ty);
        min + (slot + SLOTS - slot_of(min)) as u64 % MAX_NR_GENS
    }

    /// The smallest `min_seq` among the types that `swappiness` allows to evict.
    #[must_use]
    pub fn evictable_min_seq(&self, swappiness: Swappiness) -> u64 {
        evictable(swappiness)
            .map(|ty| self.min_seq(ty))
            .min()
            .unwrap_or(self.max_seq)
    }

    const fn note_swappiness(&mut self, swappiness: Swappiness) {
        let both = swappiness.may_evict(FolioType::Anon) && swappiness.may_evict(FolioType::File);
        self.two_sided &= both;
    }

    /// Returns the word after one more access through a file descriptor.
    pub(crate) fn accessed_word(&self, word: Word) -> Word {
        refs::mark_accessed(self.profile, word)
    }

    pub(crate) fn list_order(&self, folios: &FolioTable, seq: u64, ty: FolioType) -> Vec<FolioId> {
        let lists = self.nodes().map(|node| list_of(slot_of(seq), ty, node));
        lists
            .flat_map(|list| self.lists.order(folios, list))
            .collect()
    }

    /// Adds `delta` to the number of pages of the generation `slot`, of the type and on the node of
    /// `word`.
    #[inline]
    fn count(&mut self, slot: usize, word: Word, delta: i64) {
        let ty = word.folio_type().index();
        self.nr_pages[slot][ty] += delta;
        if word.node() != NodeId::default() {
            self.others[word.node().index() - 1][slot][ty] += delta;
        }
    }
}

fn evictable(swappiness: Swappiness) -> impl Iterator<Item = FolioType> {
    FolioType::ALL
        .into_iter()
        .filter(move |&ty| swappiness.may_evict(ty))
}

const fn clamped(count: i64) -> u64 {
    if count > 0 { count.unsigned_abs() } else { 0 }
}

/// Returns the sum of the counts, with negative counts as zero.
/// spec: lru-gen.md 2.
fn clamped_sum(counts: impl Iterator<Item = i64>) -> u64 {
    counts.map(clamped).sum()
}

#[cfg(test)]
mod canaries;
#[cfg(test)]
mod tests;
