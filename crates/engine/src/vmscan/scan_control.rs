//! What one reclaim requests ([`ScanControl`]), and what it did ([`Shrunk`]).
//!
//! Invariant: the results of slices add up to the result of their pass ([`Shrunk::add`]), except
//! `bailed_out`, which is of one slice alone.

use crate::active_inactive::Prepared;
use crate::lru_gen::{DEF_PRIORITY, MIN_LRU_BATCH};
use crate::memcg::ScanProtection;
use crate::units::{Millis, Pages, Swappiness};
use crate::vmstat::ScanReason;
use crate::word::NodeId;

/// How a pass over classic lists goes on once it has reclaimed enough: the type with fewer pages
/// still to scan stops, and the target of the other type is reduced to the percentage that the
/// stopped type has scanned of its own.
/// spec: classic-lru.md 5.4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScanReduction {
    /// Reduces after each turn over the lists, as current kernels do (about v6.1 on). The other
    /// type is scanned for one turn more; then nothing remains of the stopped one, and the pass
    /// ends.
    #[default]
    EachTurn,
    /// Reduces once, as v5.8 does; the rest of the other type's target is then scanned to its end.
    Once,
}

/// How much of a request one visit of an lruvec may take. It is needed only because our batches are
/// larger than the kernel's: with batches of 64 pages no lruvec contributes more than its size
/// implies at a priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Share {
    /// The whole request, because no other lruvec contributes.
    #[default]
    Whole,
    /// As many pages as the scan target of the lruvec's size at the priority.
    BySize,
    /// The same, but no more than this number of pages.
    AtMost(Pages),
    /// This number of pages, at any priority.
    Of(Pages),
}

/// What one reclaim requests of one lruvec, and its limits.
/// spec: lru-gen.md 5.5, 6.1.
#[derive(Clone, Copy, Debug)]
pub struct ScanControl {
    /// The kind of reclaim.
    pub reason: ScanReason,
    /// Number of pages to reclaim; a reclaim for a memcg may exceed it within a scan.
    pub nr_to_reclaim: Pages,
    /// Which types may be evicted, and in which proportion.
    pub swappiness: Swappiness,
    /// Whether anon pages may be swapped out at all (classic policy). Without swap no anon page can
    /// be evicted. Swappiness 0 does not mean that swap is lacking.
    pub has_swap: bool,
    /// A list is scanned by `size >> priority` pages; 12 is the least pressure.
    pub priority: u32,
    /// Whether the root is reclaimed from: then the reclaim stops as soon as it has reclaimed
    /// enough.
    pub root: bool,
    /// How much of `nr_to_reclaim` may be taken from this lruvec in one visit.
    pub share: Share,
    /// Whether the memcg is online; of an offline one all pages are evicted.
    pub online: bool,
    /// Whether effective min covers all pages of the memcg: then nothing is evicted.
    pub below_min: bool,
    /// Whether to deactivate pages even if the inactive list is not low (classic policy).
    pub force_deactivate: bool,
    /// Decisions for all lruvecs of the target (classic policy); `None` for a lruvec that is its
    /// own target.
    pub prepared: Option<Prepared>,
    /// The memcg's protection, by which fewer of its pages are scanned; `None` if it has none.
    pub protection: Option<ScanProtection>,
    /// How the pass goes on once enough is reclaimed (classic policy).
    pub reduction: ScanReduction,
    /// Most anon pages of the lruvec that may be swapped out, by the memory.swap.max of the memcg
    /// and its ancestors, and by the size of the swap.
    pub most_out: Pages,
    /// Most pages that are paged out in one batch. Batches of 64, as the kernel's, may exceed
    /// `nr_to_reclaim`; see [`Self::is_exact`].
    pub batch: usize,
    /// The memory node to evict from; `None` for all. The classic policy knows no nodes.
    pub node: Option<NodeId>,
    /// Current time.
    pub now: Millis,
    /// What this pass did before it bailed out; `None` if it begins now.
    pub before: Option<Shrunk>,
}

impl ScanControl {
    /// Creates a request to reclaim `nr` pages at the first priority.
    #[must_use]
    pub const fn new(reason: ScanReason, nr: Pages, swappiness: Swappiness, now: Millis) -> Self {
        Self {
            reason,
            nr_to_reclaim: nr,
            swappiness,
            has_swap: true,
            priority: DEF_PRIORITY,
            root: false,
            share: Share::Whole,
            online: true,
            below_min: false,
            force_deactivate: false,
            prepared: None,
            protection: None,
            reduction: ScanReduction::EachTurn,
            most_out: Pages(u64::MAX),
            batch: MIN_LRU_BATCH,
            node: None,
            now,
            before: None,
        }
    }

    /// Whether the reclaim never takes more than was requested: direct and proactive reclaim with
    /// batches larger than the kernel's. One such batch too many would be a large part of a small
    /// tenant.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.batch > MIN_LRU_BATCH && self.reason != ScanReason::Background
    }

    /// Returns how much of its scan target a visit has done, which so far did `all`: the pages
    /// scanned. With batches larger than the kernel's, and without protection, only pages that were
    /// tried count. Otherwise
    /// visits of a memcg whose pages were all accessed would only move these to other lists, and
    /// the pressure would rise meanwhile.
    pub(crate) const fn progress(&self, all: &Shrunk) -> u64 {
        if self.batch > MIN_LRU_BATCH && self.protection.is_none() {
            all.tried()
        } else {
            all.scanned
        }
    }

    /// Returns the most pages that the next batch may have, after `got` pages were reclaimed.
    pub(crate) fn next_batch(&self, got: Pages) -> usize {
        if !self.is_exact() {
            return self.batch;
        }
        let left = usize::try_from(self.nr_to_reclaim.less(got).0).unwrap_or(usize::MAX);
        left.clamp(1, self.batch)
    }
}

/// Numbers of isolated pages that stayed, by the reason that memory returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Pages that other processes map, too.
    pub shared: u64,
    /// Pages locked in memory.
    pub locked: u64,
    /// Lazyfree pages.
    pub lazyfree: u64,
    /// Pages that were accessed meanwhile, or are too young for a reclaim by age.
    pub referenced: u64,
    /// Pages that stayed for an unknown reason.
    pub busy: u64,
}

impl Kept {
    /// Returns the number of all pages that stayed.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.shared + self.locked + self.lazyfree + self.referenced + self.busy
    }

    /// Adds the counts of `other`.
    pub const fn add(&mut self, other: Self) {
        self.shared += other.shared;
        self.locked += other.locked;
        self.lazyfree += other.lazyfree;
        self.referenced += other.referenced;
        self.busy += other.busy;
    }
}

/// Error: proactive reclaim got less than was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TryAgain {
    /// Pages that were reclaimed.
    pub reclaimed: Pages,
}

/// What one reclaim, or a part of it, did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shrunk {
    /// Number of memcgs visited, in a reclaim from several.
    pub visited: u64,
    /// Pages scanned.
    pub scanned: u64,
    /// Pages evicted.
    pub reclaimed: Pages,
    /// Pages that turned out to be gone already: removed by their program, or taken by kernel
    /// reclaim.
    pub forgotten: Pages,
    /// Anon pages that stayed because there is no swap for them.
    pub unswapped: u64,
    /// Unevictable pages that were taken off the lists; they do not count as scanned.
    pub unevictable: u64,
    /// Pages that stayed for other reasons.
    pub kept: Kept,
    /// Whether memory found swap full or absent: then no anon page is chosen from then on.
    pub no_swap: bool,
    /// Whether active pages stayed because the inactive list was not low (classic policy).
    pub kept_active: bool,
    /// Whether a memcg was skipped, or scanned less, because of low.
    pub low_skipped: bool,
    /// Whether the memcg aged, or is protected: then no more can be reclaimed from it for now. The
    /// memcg LRU moves its entry by this.
    pub aged: bool,
    /// Whether the reclaim bailed out between two batches ([`crate::Memory::wants_pause`]) and must
    /// be resumed. For one slice only: [`Self::add`] ignores it.
    pub bailed_out: bool,
}

impl Shrunk {
    /// Returns the number of pages that were isolated to be paged out, without unevictable ones.
    #[must_use]
    pub const fn tried(&self) -> u64 {
        self.reclaimed.0 + self.forgotten.0 + self.unswapped + self.kept.total()
    }

    /// Adds the result of another slice, pass or memcg.
    pub const fn add(&mut self, other: Self) {
        self.visited += other.visited;
        self.scanned += other.scanned;
        self.reclaimed.0 += other.reclaimed.0;
        self.forgotten.0 += other.forgotten.0;
        self.unswapped += other.unswapped;
        self.unevictable += other.unevictable;
        self.kept.add(other.kept);
        self.no_swap |= other.no_swap;
        self.kept_active |= other.kept_active;
        self.low_skipped |= other.low_skipped;
        self.aged |= other.aged;
    }
}
