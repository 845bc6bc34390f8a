//! The parameters of one pass of reclaim over a lruvec ([`ScanControl`]), and its result
//! ([`Shrunk`]).
//!
//! Invariant: the results of all slices of a pass add up to the result of the pass
//! ([`Shrunk::add`]), except `bailed_out`, which holds for one slice only.

use crate::active_inactive::Prepared;
use crate::lru_gen::{DEF_PRIORITY, MIN_LRU_BATCH};
use crate::memcg::ScanProtection;
use crate::units::{Millis, Pages, Swappiness};
use crate::vmstat::ScanReason;
use crate::word::NodeId;

/// How a pass over classic lists continues after it has reclaimed enough. It stops scanning the
/// type with fewer pages still to scan. If that type has scanned x% of its target, the target of
/// the other type is reduced to x%.
/// spec: classic-lru.md 5.4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScanReduction {
    /// Reduces the targets after each turn over the lists, as Linux does since about v6.1. So the
    /// other type is scanned for one more turn; then the stopped type has nothing to scan, and the
    /// pass ends.
    #[default]
    EachTurn,
    /// Reduces the targets once, as Linux v5.8 does; the pass then scans the other type up to its
    /// reduced target.
    Once,
}

/// How much of a request one visit of a lruvec may take. Only batches larger than the kernel's need
/// this bound: with batches of 64 pages no lruvec contributes more than its size implies at a
/// priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Share {
    /// The whole request, because no other lruvec contributes.
    #[default]
    Whole,
    /// At most the scan target, which follows from the lruvec's size and the priority.
    BySize,
    /// At most the scan target and at most this number of pages.
    AtMost(Pages),
    /// This number of pages, whatever the priority.
    Of(Pages),
}

impl Share {
    /// Whether the visit must contribute a part of a request that is divided among lruvecs. Such a
    /// visit ages the lruvec if need be and then evicts from it, and it evicts pages of protected
    /// tiers before it contributes nothing. In the kernel such a visit ends, and the other lruvecs
    /// contribute 64 pages more; here they would contribute the whole part.
    pub(crate) const fn is_part(self) -> bool {
        matches!(self, Share::AtMost(_) | Share::Of(_))
    }
}

/// The parameters of one pass of reclaim over one lruvec.
/// spec: lru-gen.md 5.5, 6.1.
#[derive(Clone, Copy, Debug)]
pub struct ScanControl {
    /// The kind of reclaim.
    pub reason: ScanReason,
    /// Number of pages to reclaim. A reclaim of a memcg may exceed it.
    pub nr_to_reclaim: Pages,
    /// Which types may be evicted, and in which proportion.
    pub swappiness: Swappiness,
    /// Whether anon pages can be swapped out at all (classic policy). Not the same as a swappiness
    /// above 0.
    pub has_swap: bool,
    /// The pass scans `size >> priority` pages of each list: 12 is the lowest pressure, 0 the
    /// highest.
    pub priority: u32,
    /// Whether the target of the reclaim is the root: then the reclaim stops as soon as it has
    /// reclaimed enough.
    pub root: bool,
    /// How much of `nr_to_reclaim` may be taken from this lruvec in one visit.
    pub share: Share,
    /// Whether the memcg is online; a pass scans all pages of an offline memcg.
    pub online: bool,
    /// Whether effective min covers all pages of the memcg: then no page is evicted.
    pub below_min: bool,
    /// Whether to deactivate pages even if the inactive list is not low (classic policy).
    pub force_deactivate: bool,
    /// Decisions that hold for all lruvecs of the target (classic policy); `None` if the lruvec is
    /// reclaimed from alone, without a machine.
    pub prepared: Option<Prepared>,
    /// The memcg's protection, which reduces the number of pages to scan; `None` if it has none.
    pub protection: Option<ScanProtection>,
    /// How the pass continues after it has reclaimed enough (classic policy).
    pub reduction: ScanReduction,
    /// Maximum number of anon pages of the lruvec that may be in swap, by the memory.swap.max of
    /// the memcg and its ancestors and by the size of swap.
    pub most_out: Pages,
    /// Maximum number of pages that are paged out in one batch. With batches of 64, the kernel's
    /// size, a reclaim may exceed `nr_to_reclaim`; see [`Self::is_exact`].
    pub batch: usize,
    /// The memory node to evict from; `None` for all. The classic policy ignores nodes.
    pub node: Option<NodeId>,
    /// Current time.
    pub now: Millis,
    /// What this pass did before its last pause; `None` if the pass begins now.
    pub before: Option<Shrunk>,
}

impl ScanControl {
    /// Creates the parameters to reclaim `nr` pages at the first priority.
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

    /// Whether the reclaim must not take more than was requested: direct and proactive reclaim with
    /// batches larger than the kernel's. One such batch too many could be a large part of a small
    /// tenant.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.batch > MIN_LRU_BATCH && self.reason != ScanReason::Background
    }

    /// Returns how many pages of its scan target a visit with the result `all` has done: the number
    /// of pages scanned. With batches larger than the kernel's, and without protection, only pages
    /// that were tried count. Otherwise visits of a memcg whose pages were all accessed would only
    /// move these pages to other lists, and the pressure would rise meanwhile.
    pub(crate) const fn progress(&self, all: &Shrunk) -> u64 {
        if self.batch > MIN_LRU_BATCH && self.protection.is_none() {
            all.tried()
        } else {
            all.scanned
        }
    }

    /// Returns the maximum size of the next batch, after `reclaimed` pages were reclaimed.
    pub(crate) fn next_batch(&self, reclaimed: Pages) -> usize {
        if !self.is_exact() {
            return self.batch;
        }
        let missing = usize::try_from(self.nr_to_reclaim.less(reclaimed).0).unwrap_or(usize::MAX);
        missing.clamp(1, self.batch)
    }
}

/// Numbers of isolated pages that stayed in memory, by the reason that [`crate::Memory`] returned.
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

/// Error: proactive reclaim reclaimed fewer pages than were requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TryAgain {
    /// Pages that were reclaimed.
    pub reclaimed: Pages,
}

/// Result of a reclaim, or of a part of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shrunk {
    /// Number of memcgs visited, in a reclaim from several.
    pub visited: u64,
    /// Pages scanned.
    pub scanned: u64,
    /// Pages evicted.
    pub reclaimed: Pages,
    /// Pages that were no longer in memory: their program had removed them, or kernel reclaim had
    /// taken them.
    pub forgotten: Pages,
    /// Anon pages that stayed because no swap was free.
    pub unswapped: u64,
    /// Unevictable pages that were taken off the lists; they do not count as scanned.
    pub unevictable: u64,
    /// Pages that stayed for other reasons.
    pub kept: Kept,
    /// Whether [`crate::Memory`] reported that swap is full or absent. No anon page is chosen after
    /// that.
    pub no_swap: bool,
    /// Whether active pages stayed because the inactive list was not low (classic policy).
    pub kept_active: bool,
    /// Whether a memcg was skipped, or scanned less, because of its memory.low.
    pub low_skipped: bool,
    /// Whether the memcg aged, or is protected by min, so that no more can be reclaimed from it for
    /// now. The memcg LRU then moves its entry.
    pub aged: bool,
    /// Whether the visit evicts pages of protected tiers, too, because nearly all pages that it
    /// scanned were protected.
    pub ignores_tiers: bool,
    /// Whether the reclaim paused between two batches ([`crate::Memory::wants_pause`]) and must be
    /// resumed. Holds for one slice only: [`Self::add`] ignores it.
    pub bailed_out: bool,
}

impl Shrunk {
    /// Returns the number of pages that were isolated for page-out and are not unevictable.
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
        self.ignores_tiers |= other.ignores_tiers;
    }
}
