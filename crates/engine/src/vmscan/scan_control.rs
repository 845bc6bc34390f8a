//! What one reclaim wants, and what it got.

use crate::lru_gen::DEF_PRIORITY;
use crate::units::{Millis, Pages, Swappiness};

/// Who reclaims. Counters and events depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanReason {
    /// Below a watermark or above a limit, on nobody's time (kswapd).
    Background,
    /// On the time of whoever needs the memory.
    Direct,
    /// Asked for, by size or by age; no pressure (memory.reclaim).
    Proactive,
}

impl ScanReason {
    /// All reasons.
    pub const ALL: [Self; 3] = [Self::Background, Self::Direct, Self::Proactive];
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
    /// Scan `size >> priority`; 12 is the gentlest.
    pub priority: u32,
    /// Reclaim of the root: it stops as soon as the aim is reached.
    pub root: bool,
    /// The memcg still has an owner; otherwise it is emptied.
    pub online: bool,
    /// Effective min covers the memcg: take nothing.
    pub below_min: bool,
    /// Deactivate pages though the active list is not too long (classic policy).
    pub force_deactivate: bool,
    /// Most anon pages of the lruvec that may be out: memory.swap.max of all levels, and the swap
    /// there is.
    pub most_out: Pages,
    /// The present.
    pub now: Millis,
}

impl ScanControl {
    /// A reclaim of `nr` pages at the first priority.
    #[must_use]
    pub const fn new(reason: ScanReason, nr: Pages, swappiness: Swappiness, now: Millis) -> Self {
        Self {
            reason,
            nr_to_reclaim: nr,
            swappiness,
            priority: DEF_PRIORITY,
            root: false,
            online: true,
            below_min: false,
            force_deactivate: false,
            most_out: Pages(u64::MAX),
            now,
        }
    }
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
    /// Pages that turned out to be gone already.
    pub forgotten: Pages,
    /// Anon pages that stayed because there is no swap for them.
    pub unswapped: u64,
    /// Active pages stayed because their list is not too long (classic policy).
    pub kept_active: bool,
    /// Somebody was passed by for being below low.
    pub low_skipped: bool,
    /// It aged, or is protected: nothing more to get here for now. Drives the memcg LRU.
    pub aged: bool,
}

impl Shrunk {
    /// Adds another pass.
    pub const fn add(&mut self, other: Self) {
        self.visited += other.visited;
        self.scanned += other.scanned;
        self.reclaimed.0 += other.reclaimed.0;
        self.forgotten.0 += other.forgotten.0;
        self.unswapped += other.unswapped;
        self.kept_active |= other.kept_active;
        self.low_skipped |= other.low_skipped;
        self.aged |= other.aged;
    }
}
