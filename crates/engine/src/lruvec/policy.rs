//! The kind of LRU that a lruvec has, chosen at its creation, and the dispatch of operations to it.

use crate::active_inactive::{ActiveInactive, Stage};
use crate::folio::{FolioId, FolioTable, FolioType};
use crate::lru_gen::{Insertion, LruGen, Profile};
use crate::units::{Millis, Pages};
use crate::word::{Flag, State, Word};
use crate::workingset::Refault;
use alloc::boxed::Box;
use core::ops::Range;

/// The LRU of a lruvec: multi-gen or classic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The multi-gen LRU, by the rules of a kernel version.
    MultiGen(Profile),
    /// The classic LRU: active and inactive lists. The number is the size of the whole machine, in
    /// pages.
    ActiveInactive(Stage, Pages),
}

impl Default for Policy {
    fn default() -> Self {
        Self::MultiGen(Profile::default())
    }
}

/// The lists of either policy.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "in place, so that the lists share memory pages with the lruvec during reclaim"
)]
pub(super) enum Lru {
    MultiGen(LruGen),
    Classic(Box<ActiveInactive>),
}

impl Lru {
    pub(super) fn new(policy: Policy, now: Millis) -> Self {
        match policy {
            Policy::MultiGen(profile) => Self::MultiGen(LruGen::new(profile, now)),
            Policy::ActiveInactive(stage, total) => {
                Self::Classic(Box::new(ActiveInactive::new(stage, total)))
            }
        }
    }

    pub(super) fn total(&self, ty: FolioType) -> u64 {
        match self {
            Self::MultiGen(lru) => lru.total(ty),
            Self::Classic(lru) => lru.total(ty),
        }
    }

    /// Returns the numbers of active and of inactive pages of `ty`, as vmstat shows them.
    pub(super) fn active_inactive(&self, ty: FolioType) -> (u64, u64) {
        match self {
            Self::MultiGen(lru) => (lru.active(ty), lru.inactive(ty)),
            Self::Classic(lru) => (
                lru.sizes().active[ty.index()],
                lru.sizes().inactive[ty.index()],
            ),
        }
    }

    pub(super) fn footprint(&self) -> usize {
        match self {
            Self::MultiGen(lru) => lru.footprint(),
            Self::Classic(lru) => lru.footprint(),
        }
    }

    /// Whether a page that faults in has PG_active set before it is inserted.
    pub(super) fn starts_active(&self, ty: FolioType, is_fault: bool, in_lru_fault: bool) -> bool {
        match self {
            Self::MultiGen(_) => in_lru_fault,
            Self::Classic(lru) => lru.starts_active(ty, is_fault),
        }
    }

    pub(super) fn refault(&mut self, shadow: Word, ty: FolioType, swap: bool) -> Refault {
        match self {
            Self::MultiGen(lru) => lru.refault(shadow, ty),
            Self::Classic(lru) => lru.refault(shadow, ty, swap),
        }
    }

    /// Returns the word of a recently evicted page with the flags that it gets back, and whether
    /// the page counts as restored.
    pub(super) fn restore(&self, word: Word, shadow: Word, in_fault: bool) -> (Word, bool) {
        match self {
            Self::MultiGen(lru) => lru.restore(word, shadow, in_fault),
            Self::Classic(_) => {
                let (_, workingset) = shadow.shadow();
                let word = word.with(Flag::Active, true);
                (word.with(Flag::Workingset, workingset), workingset)
            }
        }
    }

    pub(super) fn add(&mut self, folios: &mut FolioTable, id: FolioId, word: Word) {
        match self {
            Self::MultiGen(lru) => lru.add(folios, id, word, Insertion::Normal),
            Self::Classic(lru) => lru.add(folios, id, word),
        }
    }

    /// Returns the index of the list where the page of `word` is.
    #[inline]
    pub(super) fn list_of(&self, word: Word) -> usize {
        match self {
            Self::MultiGen(_) => LruGen::list_of(word),
            Self::Classic(_) => ActiveInactive::list_of(word),
        }
    }

    /// Takes a listed page off its list, as isolation does.
    pub(super) fn take_off(&mut self, folios: &mut FolioTable, id: FolioId) {
        folios.take_accessed(id);
        match self {
            Self::MultiGen(lru) => lru.del(folios, id, State::OffList, false),
            Self::Classic(lru) => lru.del(folios, id, State::OffList, false),
        }
    }

    /// Removes the pages `run`, which are all on the same list; see [`LruGen::del_run`].
    pub(super) fn del_run(&mut self, folios: &mut FolioTable, run: Range<u32>, eager: bool) {
        match self {
            Self::MultiGen(lru) => lru.del_run(folios, run, eager),
            Self::Classic(lru) => lru.del_run(folios, run, eager),
        }
    }

    /// Gives the listed page `from` the id `to`; it stays on its list.
    pub(super) fn rename(&mut self, folios: &mut FolioTable, from: FolioId, to: FolioId) {
        match self {
            Self::MultiGen(lru) => lru.rename(folios, from, to),
            Self::Classic(lru) => lru.rename(folios, from, to),
        }
    }

    /// Moves the data stored beside the shadow of the evicted page `from` to the id `to`.
    pub(super) fn rename_shadow(&mut self, from: FolioId, to: FolioId) {
        if let Self::Classic(lru) = self {
            lru.rename_shadow(from, to);
        }
    }

    /// Removes the tombstones (list entries of removed pages) if there are too many.
    pub(super) fn bound_tombstones(&mut self, folios: &mut FolioTable) {
        match self {
            Self::MultiGen(lru) => lru.bound_tombstones(folios),
            Self::Classic(lru) => lru.bound_tombstones(folios),
        }
    }

    /// Drops the list entries of all removed pages.
    pub(super) fn sweep(&mut self, folios: &mut FolioTable) {
        match self {
            Self::MultiGen(lru) => lru.sweep(folios),
            Self::Classic(lru) => lru.sweep(folios),
        }
    }

    /// Drops the state of the ids from `len` on, which have no pages.
    pub(super) fn shrink(&mut self, len: usize) {
        if let Self::Classic(lru) = self {
            lru.truncate_target_names(len);
        }
    }

    /// Puts back an isolated page that is too young for a reclaim by age (which the classic LRU
    /// does not have). Returns whether the page was activated.
    pub(super) fn put_back_too_young(&mut self, folios: &mut FolioTable, id: FolioId) -> bool {
        match self {
            Self::MultiGen(lru) => lru.put_back_too_young(folios, id),
            Self::Classic(lru) => lru.put_back(folios, id, false),
        }
    }

    pub(super) fn put_back(
        &mut self,
        folios: &mut FolioTable,
        id: FolioId,
        referenced: bool,
    ) -> bool {
        match self {
            Self::MultiGen(lru) => lru.put_back(folios, id, referenced),
            Self::Classic(lru) => lru.put_back(folios, id, referenced),
        }
    }

    pub(super) fn evicted(&mut self, folios: &mut FolioTable, id: FolioId) {
        match self {
            Self::MultiGen(lru) => lru.evicted(folios, id),
            Self::Classic(lru) => lru.evicted(folios, id),
        }
    }
}
