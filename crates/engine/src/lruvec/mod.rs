//! The lruvec: folio table, page lists and counters of one memcg, as one value.
//!
//! A lruvec owns its folios and shares no state, so it is the unit of locking and of parallel
//! reclaim.
//!
//! Invariant: every present (resident) page is either on a list, or isolated or unevictable and
//! counted in [`Lruvec::off_list`]. [`Lruvec::out`] counts the evicted pages.

mod policy;
mod shadow_bound;

mod classic;
mod rename;
mod unmap;

// These modules use each other.
mod multi_gen;
mod reclaim;

mod fault;

pub use policy::Policy;

use crate::folio::{FolioId, FolioTable, FolioType};
use crate::units::{Millis, Pages, Swappiness};
use crate::vmstat::VmStat;
use crate::word::State;
use crate::workingset::ShadowNodes;
use alloc::boxed::Box;
use alloc::vec::Vec;
use policy::Lru;

/// Why a page comes into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A fault on a page that was never in memory, or that its program discarded.
    FirstTouch,
    /// A fault on an evicted page.
    Refault,
    /// Readahead of a read through a file descriptor, which requested another page.
    Readahead,
    /// Readahead of a page fault on another page.
    FaultReadahead,
    /// A read or write of the page through a file descriptor.
    Descriptor,
}

impl FaultKind {
    /// Whether a page fault requested the page.
    const fn is_fault(self) -> bool {
        matches!(self, Self::FirstTouch | Self::Refault)
    }

    /// Whether the kernel brings the page in for a page fault, on this or another page.
    const fn in_fault(self) -> bool {
        self.is_fault() || matches!(self, Self::FaultReadahead)
    }
}

/// Numbers of pages that a removal affected: pages in memory, and evicted pages whose shadows it
/// dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unmapped {
    /// Pages that were in memory before the removal.
    pub present: Pages,
    /// Pages that were evicted before the removal: `[anon, file]`.
    pub out: [Pages; 2],
}

/// The LRU of one memcg, on all memory nodes.
#[derive(Debug)]
pub struct Lruvec {
    folios: FolioTable,
    lru: Lru,
    stat: VmStat,
    off_list: [u64; 2],
    out: [u64; 2],
    /// Counts of shadows by nodes of 64 ids; `None` if the number of shadows has no bound.
    nodes: Option<Box<ShadowNodes>>,
}

impl Lruvec {
    /// Creates an empty lruvec.
    #[must_use]
    pub fn new(policy: Policy, now: Millis) -> Self {
        Self {
            folios: FolioTable::default(),
            lru: Lru::new(policy, now),
            stat: VmStat::default(),
            off_list: [0; 2],
            out: [0; 2],
            nodes: None,
        }
    }

    /// Makes page ids below `len` valid.
    pub fn ensure(&mut self, len: usize) {
        self.folios.ensure(len);
    }

    /// Shrinks the folio table to `len` ids and frees memory. The table stays longer if a page with
    /// a higher id is resident or has a shadow.
    pub fn shrink(&mut self, len: usize) {
        if len >= self.folios.len() {
            return;
        }
        // The sweep must be first: otherwise a tombstone could name an id beyond the end of the
        // table.
        self.lru.sweep(&mut self.folios);
        self.folios.shrink(len);
        self.lru.shrink(self.folios.len());
    }

    #[cfg(test)]
    pub(crate) const fn folios_mut(&mut self) -> &mut FolioTable {
        &mut self.folios
    }

    /// The folio table, read-only.
    #[must_use]
    pub const fn folios(&self) -> &FolioTable {
        &self.folios
    }

    /// Returns the event counters.
    #[must_use]
    pub const fn stat(&self) -> &VmStat {
        &self.stat
    }

    /// Number of present pages, including isolated and unevictable ones.
    #[must_use]
    pub fn resident(&self) -> Pages {
        let listed: u64 = FolioType::ALL.iter().map(|&ty| self.lru.total(ty)).sum();
        Pages(listed + self.off_list[0] + self.off_list[1])
    }

    /// Number of present pages of `ty` that are on no list.
    #[must_use]
    pub const fn off_list(&self, ty: FolioType) -> Pages {
        Pages(self.off_list[ty.index()])
    }

    /// Number of evicted pages of `ty`.
    #[must_use]
    pub const fn out(&self, ty: FolioType) -> Pages {
        Pages(self.out[ty.index()])
    }

    /// Returns the numbers of active and of inactive pages of `ty`, as memory.stat shows them.
    #[must_use]
    pub fn active_inactive(&self, ty: FolioType) -> (Pages, Pages) {
        let (active, inactive) = self.lru.active_inactive(ty);
        (Pages(active), Pages(inactive))
    }

    /// Returns the number of listed pages of the types that `swappiness` allows to evict.
    #[must_use]
    pub fn evictable_total(&self, swappiness: Swappiness) -> Pages {
        let evictable = FolioType::ALL
            .into_iter()
            .filter(|&ty| swappiness.may_evict(ty));
        Pages(evictable.map(|ty| self.lru.total(ty)).sum())
    }

    /// Returns the memory that table and lists occupy, in bytes.
    #[must_use]
    pub fn footprint(&self) -> usize {
        self.folios.footprint() + self.lru.footprint()
    }

    /// Sets the accessed bit, as the hardware does on an access; for simulations. Returns false,
    /// and does nothing, if the page is not present.
    #[inline]
    pub fn touch(&mut self, id: FolioId) -> bool {
        self.folios.touch(id)
    }

    /// Calls [`Self::touch`] for many pages, and appends the ids of absent pages to `missing`.
    #[inline]
    pub fn touch_all(&mut self, ids: &[FolioId], missing: &mut Vec<FolioId>) {
        self.folios.touch_all(ids, missing);
    }

    /// Asserts every invariant; reads the word of every page.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub fn check_invariants(&self, swappiness: Swappiness) {
        self.folios.check();
        match &self.lru {
            Lru::MultiGen(lru) => lru.check(&self.folios, swappiness),
            Lru::Classic(lru) => lru.check(&self.folios),
        }
        let (mut off_list, mut out) = ([0; 2], [0; 2]);
        for (_, word) in self.folios.iter() {
            match word.state() {
                State::OffList => off_list[word.folio_type().index()] += 1,
                State::Shadow => out[word.shadow_type().index()] += 1,
                State::Absent | State::Listed => {}
            }
        }
        assert_eq!(off_list, self.off_list, "present pages that are on no list");
        assert_eq!(out, self.out, "pages out");
        self.check_shadow_nodes();
        self.stat.check();
    }
}

#[cfg(test)]
pub(crate) mod canaries;
