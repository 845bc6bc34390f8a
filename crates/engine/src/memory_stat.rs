//! The content of memory.stat, memory.stat.local, memory.events and memory.events.local.
//! spec: reclaim-control.md 8, 9; rstat.md.
//!
//! Invariant: each statistic has the same index in all groups: first events of reclaim, then sizes,
//! then the tenant's events.

use crate::folio::FolioType;
use crate::lruvec::Lruvec;
use crate::memcg::{MemcgEvent, MemcgEvents};
use crate::rstat::shown;
use crate::units::PAGE_SIZE;
use crate::vmstat::{VmEvent, VmStat};

/// A size in memory.stat, counted here in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LruSize {
    /// Anonymous pages in memory.
    Anon,
    /// File pages in memory.
    File,
    /// Anonymous pages of old generations, or of the inactive list.
    InactiveAnon,
    /// All other anonymous pages that are on a list.
    ActiveAnon,
    /// File pages of old generations, or of the inactive list.
    InactiveFile,
    /// All other file pages that are on a list.
    ActiveFile,
}

impl LruSize {
    /// All sizes, in the order of memory.stat.
    pub const ALL: [Self; 6] = [
        Self::Anon,
        Self::File,
        Self::InactiveAnon,
        Self::ActiveAnon,
        Self::InactiveFile,
        Self::ActiveFile,
    ];

    /// Returns the key of this size in memory.stat.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Anon => "anon",
            Self::File => "file",
            Self::InactiveAnon => "inactive_anon",
            Self::ActiveAnon => "active_anon",
            Self::InactiveFile => "inactive_file",
            Self::ActiveFile => "active_file",
        }
    }

    /// Returns the size that counts inactive pages of `ty`.
    #[must_use]
    pub const fn inactive(ty: FolioType) -> Self {
        match ty {
            FolioType::Anon => Self::InactiveAnon,
            FolioType::File => Self::InactiveFile,
        }
    }

    /// Returns the size that counts active pages of `ty`.
    #[must_use]
    pub const fn active(ty: FolioType) -> Self {
        match ty {
            FolioType::Anon => Self::ActiveAnon,
            FolioType::File => Self::ActiveFile,
        }
    }

    /// Returns the index of this size among all statistics.
    pub(crate) const fn index(self) -> usize {
        FIRST_SIZE + self as usize
    }
}

const FIRST_SIZE: usize = VmEvent::ALL.len();
/// Number of statistics that a lruvec counts.
const NR_OF_LRUVEC: usize = FIRST_SIZE + LruSize::ALL.len();
/// Index of the first event of memory.events among all statistics.
pub(crate) const FIRST_EVENT: usize = NR_OF_LRUVEC;
/// Number of all statistics of a memcg.
pub(crate) const NR_COUNTED: usize = FIRST_EVENT + MemcgEvent::ALL.len();

/// Returns the event counts and sizes of a lruvec: the statistics with the indexes from 0 on.
pub(crate) fn lruvec_counters(lruvec: &Lruvec) -> [i64; NR_OF_LRUVEC] {
    let mut counted = [0; NR_OF_LRUVEC];
    for &event in VmEvent::ALL {
        counted[event as usize] = lruvec.stat().get(event).cast_signed();
    }
    for ty in FolioType::ALL {
        let (active, inactive) = lruvec.active_inactive(ty);
        let resident = active.0 + inactive.0 + lruvec.off_list(ty).0;
        counted[FIRST_SIZE + ty.index()] = resident.cast_signed();
        counted[LruSize::inactive(ty).index()] = inactive.0.cast_signed();
        counted[LruSize::active(ty).index()] = active.0.cast_signed();
    }
    counted
}

/// Returns the event counts of a tenant: the statistics with the indexes from [`FIRST_EVENT`] on.
pub(crate) fn tenant_counters(events: &MemcgEvents) -> [i64; MemcgEvent::ALL.len()] {
    MemcgEvent::ALL.map(|event| events.get(event).cast_signed())
}

/// The content of memory.stat or memory.stat.local: statistics of a memcg and all memcgs below it,
/// or of a memcg alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryStat {
    /// Counts of reclaim events.
    pub events: VmStat,
    sizes: [u64; LruSize::ALL.len()],
}

impl MemoryStat {
    /// Returns the lines of memory.stat, as keys and values: sizes in bytes, then pgscan and
    /// pgsteal as sums over all kinds of reclaim, then all events, in pages.
    /// spec: reclaim-control.md 8.
    pub fn lines(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let sizes = LruSize::ALL.map(|size| (size.name(), self.size(size) * PAGE_SIZE));
        let sums = [
            ("pgscan", self.events.pgscan()),
            ("pgsteal", self.events.pgsteal()),
        ];
        sizes.into_iter().chain(sums).chain(self.events.iter())
    }

    /// Creates the value from all statistics of a memcg, by index.
    pub(crate) fn new(stats: &[i64]) -> Self {
        Self {
            events: VmStat::new(|place| shown(stats[place])),
            sizes: LruSize::ALL.map(|size| shown(stats[size.index()])),
        }
    }

    /// Returns one size, in pages.
    #[must_use]
    pub const fn size(&self, size: LruSize) -> u64 {
        self.sizes[size as usize]
    }

    /// Returns all statistics with their keys: first the sizes, in pages, then the events.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let sizes = LruSize::ALL.map(|size| (size.name(), self.size(size)));
        sizes.into_iter().chain(self.events.iter())
    }
}

/// Returns memory.events from all statistics of a memcg, by index.
pub(crate) fn memcg_events(stats: &[i64]) -> MemcgEvents {
    let mut events = MemcgEvents::default();
    for event in MemcgEvent::ALL {
        events.add(event, shown(stats[FIRST_EVENT + event as usize]));
    }
    events
}
