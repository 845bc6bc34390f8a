//! The classic LRU of one lruvec: an active and an inactive list for each type.
//! spec: classic-lru.md, workingset.md; the kernel's mm/swap.c, mm/vmscan.c, mm/workingset.c.
//!
//! Pages start inactive. A page becomes active after a second reference, or after a soon refault:
//! one before which the page would not have been evicted if it had competed with the pages of the
//! other lists. Active pages are deactivated from the tail of their list when the inactive list
//! runs low.
//!
//! A reclaim of a memcg (the target) decides by the target's level: list sizes, clock and costs of
//! the target and all memcgs below it (`level.rs`, `prepare.rs`, `target.rs`). A lruvec that is not
//! part of a machine is its own target.
//!
//! Invariants (classic-lru.md 7): a page is on at most one list, and its type and PG_active say on
//! which (I1); the counted sizes are the lengths of the lists (I2); only deactivation sets
//! PG_workingset, and a refault may restore it (I4); the eviction clock never goes back
//! (workingset.md I1).

mod level;
mod prepare;
mod refault;
mod reference;
mod scan_count;
mod target;

mod shrink;

pub use level::{Level, Sizes};
pub use prepare::Prepared;
pub use refault::room;
pub use reference::{ReferenceInput, Referenced, check_references};
pub use scan_count::{Costs, ScanInput, inactive_is_low, inactive_ratio, scan_targets};

pub(crate) use level::CostNote;
pub(crate) use prepare::FreePages;
pub(crate) use target::{Shown, Target};

use crate::folio::{FolioId, FolioTable, FolioType};
use crate::list::{End, Lists};
use crate::units::Pages;
use crate::word::{Flag, State, TOKEN_BITS, Word};
use crate::workingset::EvictionClock;
use alloc::vec::Vec;
use core::ops::Range;
use target::TargetNames;

/// The stages of the kernel's patch series that brought workingset protection and detection to anon
/// pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// Before the series (Linux v5.8): new anon pages start active.
    Base,
    /// New anon pages start inactive, and the inactive anon list is kept at least as long as the
    /// active one.
    Protection,
    /// As [`Self::Protection`]; in addition refaults of anon pages are detected (Linux v5.9 and
    /// later).
    #[default]
    Detection,
}

/// The state of the classic LRU of one lruvec.
#[derive(Debug)]
pub struct ActiveInactive {
    stage: Stage,
    /// The four lists; the index is `type * 2 + active`.
    lists: Lists<4>,
    clock: EvictionClock,
    /// Sizes, clock, activations and costs of this lruvec's lists alone.
    own: Level,
    /// Activations by type as of the last pass; used only by a lruvec that is not part of a
    /// machine.
    activations_seen: [u64; 2],
    target: Target,
    /// Number of pages evicted for a target above this memcg since the machine last took this
    /// count. Such evictions advance the target's clock, but not the clock of these lists.
    evicted_for_target: u64,
    target_names: TargetNames,
    /// Costs that the machine has not yet added to the levels of the memcgs above; `None` for a
    /// lruvec that is not part of a machine.
    notes: Option<Vec<CostNote>>,
}

const fn list_of(word: Word) -> usize {
    word.folio_type().index() * 2 + word.has(Flag::Active) as usize
}

impl ActiveInactive {
    /// Creates empty lists for a machine with `total` pages of memory.
    #[must_use]
    pub fn new(stage: Stage, total: Pages) -> Self {
        Self {
            stage,
            lists: Lists::new(),
            clock: EvictionClock::new(TOKEN_BITS, total),
            own: Level::default(),
            activations_seen: [0; 2],
            target: Target::default(),
            evicted_for_target: 0,
            target_names: TargetNames::default(),
            notes: None,
        }
    }

    /// Returns the number of pages on each list.
    #[must_use]
    pub const fn sizes(&self) -> Sizes {
        self.own.sizes
    }

    /// Returns the eviction clock of these lists: the number of their pages that were activated, or
    /// evicted by a reclaim of their own memcg.
    #[must_use]
    pub const fn nonresident_age(&self) -> u64 {
        self.own.nonresident_age
    }

    /// What scanning each type has cost, for these lists alone.
    #[must_use]
    pub const fn costs(&self) -> Costs {
        self.own.costs
    }

    /// Returns sizes, clock, activations and costs of these lists alone.
    pub(crate) const fn own(&self) -> Level {
        self.own
    }

    /// Makes the lists part of a tree of memcgs: from now on costs are kept until the machine takes
    /// them.
    pub(crate) fn join(&mut self) {
        self.notes.get_or_insert_default();
    }

    /// Removes and returns the costs noted since the last call, oldest first.
    pub(crate) fn take_notes(&mut self) -> Vec<CostNote> {
        self.notes.as_mut().map_or_else(Vec::new, core::mem::take)
    }

    /// Returns the number of levels up to the target, and the number of pages evicted for it since
    /// the last call. If this memcg is the target, its own clock counts them, and the number is 0.
    pub(crate) fn take_evicted_for_target(&mut self) -> (u8, u64) {
        let evicted = core::mem::take(&mut self.evicted_for_target);
        (self.target.steps, evicted)
    }

    /// Sets the target memcg: that of the reclaim which evicts the next pages or, before a refault,
    /// that of the reclaim which evicted the refaulting page.
    pub(crate) const fn set_target(&mut self, target: Target) {
        self.target = target;
    }

    /// Number of levels from this memcg up to the target of the reclaim that evicted `id`.
    pub(crate) fn target_steps(&self, id: FolioId) -> u8 {
        self.target_names.get(id)
    }

    /// Number of pages of `ty` on both lists.
    #[must_use]
    pub const fn total(&self, ty: FolioType) -> u64 {
        self.own.sizes.active[ty.index()] + self.own.sizes.inactive[ty.index()]
    }

    /// Memory that the lists occupy, in bytes.
    #[must_use]
    pub fn footprint(&self) -> usize {
        self.lists.footprint() + self.target_names.footprint()
    }

    /// Whether a page that faults in starts on the active list.
    /// spec: classic-lru.md 6.
    pub(crate) fn starts_active(&self, ty: FolioType, in_fault: bool) -> bool {
        self.stage == Stage::Base && ty == FolioType::Anon && in_fault
    }

    fn count(&mut self, word: Word, delta: i64) {
        let t = word.folio_type().index();
        let size = if word.has(Flag::Active) {
            &mut self.own.sizes.active
        } else {
            &mut self.own.sizes.inactive
        };
        size[t] = size[t]
            .checked_add_signed(delta)
            .expect("a list counted below zero");
    }

    /// Adds `id` at the head of the list for its type and PG_active flag, and stores `word`, which
    /// must be in state Listed.
    pub(crate) fn add(&mut self, folios: &mut FolioTable, id: FolioId, word: Word) {
        self.push(folios, id, word, End::Head);
    }

    fn push(&mut self, folios: &mut FolioTable, id: FolioId, word: Word, end: End) {
        self.count(word, 1);
        self.lists.push(folios, list_of(word), (id, word), end);
    }

    fn pop(&mut self, folios: &mut FolioTable, list: usize) -> Option<(FolioId, Word)> {
        let (id, word) = self.lists.pop(folios, list)?;
        self.count(word, -1);
        Some((id, word))
    }

    /// Removes `id` from its list and stores `next` as its state. `eager`: search the page's entry
    /// near the head of its list, because it was added recently.
    pub(crate) fn del(&mut self, folios: &mut FolioTable, id: FolioId, next: State, eager: bool) {
        let word = folios.get(id);
        self.count(word, -1);
        self.lists
            .remove(folios, id, next, eager.then_some(list_of(word)));
    }

    /// Returns the index of the list where the page of `word` is.
    #[inline]
    pub(crate) const fn list_of(word: Word) -> usize {
        list_of(word)
    }

    /// Removes the pages `run`, which are all on the same list, and updates the size of the list
    /// once.
    pub(crate) fn del_run(&mut self, folios: &mut FolioTable, run: Range<u32>, eager: bool) {
        let word = folios.get(FolioId(run.start));
        self.count(word, -i64::from(run.end - run.start));
        let hint = eager.then_some(list_of(word));
        self.lists.remove_run(folios, run, hint);
    }

    /// Gives the listed page `from` the id `to`; its list and all sizes stay.
    pub(crate) fn rename(&mut self, folios: &mut FolioTable, from: FolioId, to: FolioId) {
        let list = list_of(folios.get(from));
        self.lists.rename(folios, list, (from, to));
    }

    /// Moves the stored target of the evicted page `from` to the id `to`.
    pub(crate) fn rename_shadow(&mut self, from: FolioId, to: FolioId) {
        self.target_names.set(to, self.target_names.get(from));
    }

    pub(crate) fn bound_tombstones(&mut self, folios: &mut FolioTable) {
        self.lists.bound_tombstones(folios);
    }

    /// Drops the entries of removed pages from all lists.
    pub(crate) fn sweep(&mut self, folios: &mut FolioTable) {
        self.lists.sweep(folios);
    }

    /// Drops the stored targets of the ids from `len` on: these ids have no pages.
    pub(crate) fn truncate_target_names(&mut self, len: usize) {
        self.target_names.shrink(len);
    }

    /// Records an access through a file descriptor. Returns whether it activated the page.
    /// spec: classic-lru.md 2.
    pub(crate) fn mark_accessed(&mut self, folios: &mut FolioTable, id: FolioId) -> bool {
        let word = folios.get(id);
        if word.has(Flag::Unevictable) || !word.is_present() {
            return false;
        }
        if !word.has(Flag::Referenced) {
            folios.set(id, word.with(Flag::Referenced, true));
            return false;
        }
        if word.has(Flag::Active) || word.state() != State::Listed {
            return false;
        }
        self.del(folios, id, State::OffList, true);
        let word = folios
            .get(id)
            .with(Flag::Referenced, false)
            .with(Flag::Active, true);
        self.add(folios, id, word.into_state(State::Listed));
        self.advance_clock(1);
        true
    }

    /// Advances the eviction clock by `pages` that were evicted or activated.
    pub(crate) const fn advance_clock(&mut self, pages: u64) {
        self.own.nonresident_age += pages;
    }

    /// Returns the pages of one list, in the order in which reclaim would scan them.
    #[must_use]
    pub fn order(&self, folios: &FolioTable, ty: FolioType, active: bool) -> Vec<FolioId> {
        self.lists
            .order(folios, ty.index() * 2 + usize::from(active))
    }

    /// Asserts the invariants of the lists.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub(crate) fn check(&self, folios: &FolioTable) {
        self.lists.check(folios);
        for ty in FolioType::ALL {
            let sizes = self.own.sizes;
            for (active, size) in [(false, sizes.inactive), (true, sizes.active)] {
                let order = self.order(folios, ty, active);
                assert_eq!(
                    order.len() as u64,
                    size[ty.index()],
                    "I2: {ty:?} active {active}"
                );
                let belongs = |id: &FolioId| {
                    let word = folios.get(*id);
                    word.folio_type() == ty && word.has(Flag::Active) == active
                };
                assert!(order.iter().all(belongs), "I1: {ty:?} active {active}");
            }
        }
    }
}

#[cfg(test)]
mod tests;
