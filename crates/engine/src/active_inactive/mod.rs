//! The classic LRU of one lruvec: an active and an inactive list for each type.
//! spec: classic-lru.md, workingset.md; the kernel's mm/swap.c, mm/vmscan.c, mm/workingset.c.
//!
//! Pages start inactive, and become active when they prove themselves: a second reference, or a
//! refault so soon that they would have been kept had they competed with the other lists. What is
//! active is deactivated from its tail when the inactive list runs low.
//!
//! What these lists decide by is the level of the reclaim's target (`level.rs`, `prepare.rs`, `target.rs`): a lruvec
//! alone is its own target.
//!
//! Invariants (classic-lru.md 7): a page is on at most one list, and its type and PG_active say
//! which (I1); the counted sizes are the lists' lengths (I2); deactivation sets PG_workingset, and
//! nothing else does but its restoration (I4); the eviction clock never goes back (workingset I1).

mod level;
mod prepare;
mod refault;
mod reference;
mod scan_count;
mod shrink;
mod target;

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
use target::Names;

/// The stages of the series that brought workingset protection and detection to anon pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// Before it (v5.8): new anon pages start active.
    Base,
    /// New anon pages start inactive, with an inactive list as large as the active one.
    Protection,
    /// And their refaults are detected (v5.9 and later).
    #[default]
    Detection,
}

/// The state of the classic LRU of one lruvec.
#[derive(Debug)]
pub struct ActiveInactive {
    stage: Stage,
    /// List `type * 2 + active`.
    lists: Lists<4>,
    clock: EvictionClock,
    /// Of its own lists.
    own: Level,
    /// Activations that the last pass had seen, of a lruvec alone.
    activations_seen: [u64; 2],
    target: Target,
    names: Names,
    /// Costs that no level above knows of yet; `None` for a lruvec alone.
    notes: Option<Vec<CostNote>>,
}

const fn list_of(word: Word) -> usize {
    word.folio_type().index() * 2 + word.has(Flag::Active) as usize
}

impl ActiveInactive {
    /// Empty lists on a machine of `total` pages.
    #[must_use]
    pub fn new(stage: Stage, total: Pages) -> Self {
        Self {
            stage,
            lists: Lists::new(),
            clock: EvictionClock::new(TOKEN_BITS, total),
            own: Level::default(),
            activations_seen: [0; 2],
            target: Target::default(),
            names: Names::default(),
            notes: None,
        }
    }

    /// List sizes.
    #[must_use]
    pub const fn sizes(&self) -> Sizes {
        self.own.sizes
    }

    /// What these lists have added to the eviction clock.
    #[must_use]
    pub const fn nonresident_age(&self) -> u64 {
        self.own.nonresident_age
    }

    /// What scanning each type has cost, by these lists alone.
    #[must_use]
    pub const fn costs(&self) -> Costs {
        self.own.costs
    }

    /// The level of these lists alone.
    pub(crate) const fn own(&self) -> Level {
        self.own
    }

    /// There are levels above from now on: costs are kept until they are taken.
    pub(crate) fn join(&mut self) {
        self.notes.get_or_insert_default();
    }

    /// The costs noted since the last time, in order.
    pub(crate) fn take_notes(&mut self) -> Vec<CostNote> {
        self.notes.as_mut().map_or_else(Vec::new, core::mem::take)
    }

    /// On whose behalf pages leave from now on, or did so once that now come back.
    pub(crate) const fn set_target(&mut self, target: Target) {
        self.target = target;
    }

    /// How many levels up the memcg is for which `id`, which is out, left.
    pub(crate) fn named(&self, id: FolioId) -> u8 {
        self.names.get(id)
    }

    /// Pages of `ty` on both lists.
    #[must_use]
    pub const fn total(&self, ty: FolioType) -> u64 {
        self.own.sizes.active[ty.index()] + self.own.sizes.inactive[ty.index()]
    }

    /// Bytes held by the lists.
    #[must_use]
    pub fn footprint(&self) -> usize {
        self.lists.footprint() + self.names.footprint()
    }

    /// Where a page that faults in starts: classic-lru.md 6.
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

    /// Adds `id` at the head of the list that its word, still in its former state, names.
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

    /// Takes `id` off its list for good.
    pub(crate) fn del(&mut self, folios: &mut FolioTable, id: FolioId, next: State, eager: bool) {
        let word = folios.get(id);
        self.count(word, -1);
        self.lists
            .remove(folios, id, next, eager.then_some(list_of(word)));
    }

    /// The number of the list where a listed page is.
    #[inline]
    pub(crate) const fn list_of(word: Word) -> usize {
        list_of(word)
    }

    /// Takes pages of one list off it for good, with one update of its size.
    pub(crate) fn del_run(&mut self, folios: &mut FolioTable, run: Range<u32>, eager: bool) {
        let word = folios.get(FolioId(run.start));
        self.count(word, -i64::from(run.end - run.start));
        let hint = eager.then_some(list_of(word));
        self.lists.remove_run(folios, run, hint);
    }

    /// A listed page is known by another id from now on, on the same list; no size changes.
    pub(crate) fn rename(&mut self, folios: &mut FolioTable, from: FolioId, to: FolioId) {
        let list = list_of(folios.get(from));
        self.lists.rename(folios, list, (from, to));
    }

    /// A page that is out is known by another id from now on.
    pub(crate) fn rename_shadow(&mut self, from: FolioId, to: FolioId) {
        self.names.set(to, self.names.get(from));
    }

    pub(crate) fn bound_tombstones(&mut self, folios: &mut FolioTable) {
        self.lists.bound_tombstones(folios);
    }

    /// Drops the entries of pages that have gone.
    pub(crate) fn sweep(&mut self, folios: &mut FolioTable) {
        self.lists.sweep(folios);
    }

    /// Names of ids from `len` on are forgotten: those ids have no pages.
    pub(crate) fn shrink_names(&mut self, len: usize) {
        self.names.shrink(len);
    }

    /// An access through a descriptor: classic-lru.md 2. True when it activated the page.
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

    /// Evictions and activations are what the clock counts.
    pub(crate) const fn advance_clock(&mut self, pages: u64) {
        self.own.nonresident_age += pages;
    }

    /// Pages of one list in the order reclaim would meet them.
    #[must_use]
    pub fn order(&self, folios: &FolioTable, ty: FolioType, active: bool) -> Vec<FolioId> {
        self.lists
            .order(folios, ty.index() * 2 + usize::from(active))
    }

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
