//! What one reclaim wants, and what it got.
//!
//! Invariant: what slices got adds up to what their pass got ([`Shrunk::add`]); that one bailed out is of that slice
//! alone.

use crate::active_inactive::Prepared;
use crate::lru_gen::{DEF_PRIORITY, MIN_LRU_BATCH};
use crate::memcg::ScanProtection;
use crate::units::{Millis, Pages, Swappiness};
use crate::vmstat::ScanReason;

/// How a pass over classic lists goes on once it has reached its aim: the type with less left stops, and
/// the other is reduced to the percentage that this one was scanned by. spec: classic-lru.md 5.4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScanReduction {
    /// After each turn, as current kernels (about v6.1 on): one turn more of the other type, and then nothing is
    /// left of the first one.
    #[default]
    EachTurn,
    /// Once, as v5.8: what the other type has left then is scanned to its end.
    Once,
}

/// What a visit of one lruvec may take of what is wanted, in batches larger than the kernel's. In the kernel's, 64 pages, nobody gives
/// more than its size asks for at a priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Share {
    /// All: nobody else gives.
    #[default]
    Whole,
    /// What is to be scanned of its size at the priority, and no more.
    BySize,
    /// So many pages, whatever the priority.
    Of(Pages),
}

/// What one reclaim wants. spec: lru-gen.md 5.5, 6.1.
#[derive(Clone, Copy, Debug)]
pub struct ScanControl {
    /// Who asks.
    pub reason: ScanReason,
    /// The aim; a memcg's reclaim may overshoot it within a scan.
    pub nr_to_reclaim: Pages,
    /// Which types may go, and how they compare.
    pub swappiness: Swappiness,
    /// Anon pages may be swapped out at all (classic policy): none of them can go without swap, whatever the swappiness, and
    /// swappiness 0 is no want of swap.
    pub has_swap: bool,
    /// Scan `size >> priority`; 12 is the gentlest.
    pub priority: u32,
    /// Reclaim of the root: it stops as soon as the aim is reached.
    pub root: bool,
    /// How much of the aim this lruvec may give at once.
    pub share: Share,
    /// The memcg still has an owner; otherwise it is emptied.
    pub online: bool,
    /// Effective min covers the memcg: take nothing.
    pub below_min: bool,
    /// Deactivate pages though the active list is not too long (classic policy).
    pub force_deactivate: bool,
    /// What was decided for all lruvecs of the target (classic policy); `None` for a lruvec alone, which is its
    /// own target.
    pub prepared: Option<Prepared>,
    /// What is protected of the memcg: so much less of it is scanned.
    pub protection: Option<ScanProtection>,
    /// What follows when the aim is reached (classic policy).
    pub reduction: ScanReduction,
    /// Most anon pages of the lruvec that may be out: memory.swap.max of all levels, and the swap
    /// there is.
    pub most_out: Pages,
    /// Most pages that are paged out at once. The kernel's 64 may overshoot the aim; see
    /// [`Self::is_exact`].
    pub batch: usize,
    /// The present.
    pub now: Millis,
    /// What this pass looked at and got before it bailed out; none where it begins.
    pub before: Option<Shrunk>,
}

impl ScanControl {
    /// A reclaim of `nr` pages at the first priority.
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
            now,
            before: None,
        }
    }

    /// With batches larger than the kernel's, reclaim on somebody's behalf never takes more than was
    /// asked for: one batch too many would be a good part of a small tenant.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.batch > MIN_LRU_BATCH && self.reason != ScanReason::Background
    }

    /// Most pages of the next batch, `got` having left already.
    pub(crate) fn next_batch(&self, got: Pages) -> usize {
        if !self.is_exact() {
            return self.batch;
        }
        let left = usize::try_from(self.nr_to_reclaim.less(got).0).unwrap_or(usize::MAX);
        left.clamp(1, self.batch)
    }
}

/// Isolated pages that stayed, by the reason that memory gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Mapped by others, too.
    pub shared: u64,
    /// Locked.
    pub locked: u64,
    /// Given back by their programs.
    pub lazyfree: u64,
    /// Accessed meanwhile.
    pub referenced: u64,
    /// They did not leave, and nobody knows why.
    pub busy: u64,
}

impl Kept {
    /// All of them.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.shared + self.locked + self.lazyfree + self.referenced + self.busy
    }

    /// Adds another count.
    pub const fn add(&mut self, other: Self) {
        self.shared += other.shared;
        self.locked += other.locked;
        self.lazyfree += other.lazyfree;
        self.referenced += other.referenced;
        self.busy += other.busy;
    }
}

/// Proactive reclaim got less than was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TryAgain {
    /// What it got.
    pub reclaimed: Pages,
}

/// What one reclaim got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shrunk {
    /// Memcgs looked at, where there are several.
    pub visited: u64,
    /// Pages looked at.
    pub scanned: u64,
    /// Pages that left.
    pub reclaimed: Pages,
    /// Pages that turned out to be gone already: removed by their program, or taken by another's hand.
    pub forgotten: Pages,
    /// Anon pages that stayed because there is no swap for them.
    pub unswapped: u64,
    /// Pages that went off the lists because they cannot leave; they do not count as scanned.
    pub culled: u64,
    /// Pages that stayed for other reasons.
    pub kept: Kept,
    /// Memory found swap full or absent: no anon page was asked for from then on.
    pub no_swap: bool,
    /// Active pages stayed because their list is not too long (classic policy).
    pub kept_active: bool,
    /// Somebody was passed by for being below low.
    pub low_skipped: bool,
    /// It aged, or is protected: nothing more to get here for now. Drives the memcg LRU.
    pub aged: bool,
    /// It bailed out between two batches ([`crate::Memory::wants_pause`]), and is not over. Of one slice alone: no sum has it.
    pub bailed_out: bool,
}

impl Shrunk {
    /// Adds another pass.
    pub const fn add(&mut self, other: Self) {
        self.visited += other.visited;
        self.scanned += other.scanned;
        self.reclaimed.0 += other.reclaimed.0;
        self.forgotten.0 += other.forgotten.0;
        self.unswapped += other.unswapped;
        self.culled += other.culled;
        self.kept.add(other.kept);
        self.no_swap |= other.no_swap;
        self.kept_active |= other.kept_active;
        self.low_skipped |= other.low_skipped;
        self.aged |= other.aged;
    }
}
