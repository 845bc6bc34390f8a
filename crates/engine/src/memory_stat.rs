//! What memory.stat, memory.stat.local, memory.events and memory.events.local say. spec: reclaim-control.md 8, 9; rstat.md.
//!
//! Invariant: a statistic has one place, the same in all groups: events of reclaim, then sizes, then the
//! tenant's events.

use crate::folio::FolioType;
use crate::lruvec::Lruvec;
use crate::memcg::{MemcgEvent, MemcgEvents};
use crate::rstat::shown;
use crate::vmstat::{VmEvent, VmStat};

/// A size of memory.stat, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LruSize {
    /// Anonymous pages that are resident.
    Anon,
    /// File pages that are resident.
    File,
    /// Anonymous pages of old generations, or of the inactive list.
    InactiveAnon,
    /// The other anonymous pages that are listed.
    ActiveAnon,
    /// File pages of old generations, or of the inactive list.
    InactiveFile,
    /// The other file pages that are listed.
    ActiveFile,
}

impl LruSize {
    /// All sizes, in memory.stat's order.
    pub const ALL: [Self; 6] = [
        Self::Anon,
        Self::File,
        Self::InactiveAnon,
        Self::ActiveAnon,
        Self::InactiveFile,
        Self::ActiveFile,
    ];

    /// The name in memory.stat.
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

    /// Inactive pages of a type.
    #[must_use]
    pub const fn inactive(ty: FolioType) -> Self {
        match ty {
            FolioType::Anon => Self::InactiveAnon,
            FolioType::File => Self::InactiveFile,
        }
    }

    /// Active pages of a type.
    #[must_use]
    pub const fn active(ty: FolioType) -> Self {
        match ty {
            FolioType::Anon => Self::ActiveAnon,
            FolioType::File => Self::ActiveFile,
        }
    }

    /// Its place among all statistics.
    pub(crate) const fn place(self) -> usize {
        FIRST_SIZE + self as usize
    }
}

const FIRST_SIZE: usize = VmEvent::ALL.len();
/// Statistics of a lruvec.
const NR_OF_LRUVEC: usize = FIRST_SIZE + LruSize::ALL.len();
/// Where those of the tenant begin: events of memory.events.
pub(crate) const FIRST_EVENT: usize = NR_OF_LRUVEC;
/// Statistics of a memcg.
pub(crate) const NR_COUNTED: usize = FIRST_EVENT + MemcgEvent::ALL.len();

/// What a lruvec has counted so far, and what it holds, from place 0 on.
pub(crate) fn of_lruvec(lruvec: &Lruvec) -> [i64; NR_OF_LRUVEC] {
    let mut counted = [0; NR_OF_LRUVEC];
    for &event in VmEvent::ALL {
        counted[event as usize] = lruvec.stat().get(event).cast_signed();
    }
    for ty in FolioType::ALL {
        let (active, inactive) = lruvec.active_inactive(ty);
        let resident = active.0 + inactive.0 + lruvec.off_list(ty).0;
        counted[FIRST_SIZE + ty.index()] = resident.cast_signed();
        counted[LruSize::inactive(ty).place()] = inactive.0.cast_signed();
        counted[LruSize::active(ty).place()] = active.0.cast_signed();
    }
    counted
}

/// What a tenant has counted so far, from [`FIRST_EVENT`] on.
pub(crate) fn of_tenant(events: &MemcgEvents) -> [i64; MemcgEvent::ALL.len()] {
    MemcgEvent::ALL.map(|event| events.get(event).cast_signed())
}

/// memory.stat, of a memcg alone or with all below it ([`MemoryStat::lines`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryStat {
    /// Events of reclaim.
    pub events: VmStat,
    sizes: [u64; LruSize::ALL.len()],
}

impl MemoryStat {
    /// Names and values as memory.stat has them: sizes in bytes, pgscan and pgsteal as sums over whoever asked, then all events,
    /// in pages. spec: reclaim-control.md 8.
    pub fn lines(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let sizes = LruSize::ALL.map(|size| (size.name(), self.size(size) * 4096));
        let sums = [
            ("pgscan", self.events.pgscan()),
            ("pgsteal", self.events.pgsteal()),
        ];
        sizes.into_iter().chain(sums).chain(self.events.iter())
    }

    /// Of the statistics in their places.
    pub(crate) fn new(stats: &[i64]) -> Self {
        Self {
            events: VmStat::new(|place| shown(stats[place])),
            sizes: LruSize::ALL.map(|size| shown(stats[size.place()])),
        }
    }

    /// A size, in pages.
    #[must_use]
    pub const fn size(&self, size: LruSize) -> u64 {
        self.sizes[size as usize]
    }

    /// All statistics with their names, sizes (in pages) first, as memory.stat has them.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let sizes = LruSize::ALL.map(|size| (size.name(), self.size(size)));
        sizes.into_iter().chain(self.events.iter())
    }
}

/// memory.events of the statistics in their places.
pub(crate) fn memcg_events(stats: &[i64]) -> MemcgEvents {
    let mut events = MemcgEvents::default();
    for event in MemcgEvent::ALL {
        events.add(event, shown(stats[FIRST_EVENT + event as usize]));
    }
    events
}
