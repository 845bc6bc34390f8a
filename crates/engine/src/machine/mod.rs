//! Many tenants on one node: the memcg tree, a lruvec for each, and reclaim over all of them.
//!
//! Reclaim of the root chooses by the memcg LRU (`global.rs`); reclaim of a subtree, and the baseline
//! that the memcg LRU replaced, walk the hierarchy (`iterator.rs`).
//!
//! Invariants: a memcg's usage is its lruvec's resident pages, its descendants' usage and its
//! stocks; every memcg that is not released is on the memcg LRU once.

mod charge;
mod global;
mod guest;
mod high;
mod iterator;
mod reclaimers;
mod report;
mod soft_limit;

pub use charge::OomAt;
pub use reclaimers::Reclaimer;
pub use report::Reports;
pub use soft_limit::SOFT_LIMIT_EVENTS;

use crate::folio::{FolioId, FolioType};
use crate::lru_gen::Refault;
use crate::lruvec::{FaultKind, Lruvec, Policy, Unmapped};
use crate::memcg::{
    MemcgEvent, MemcgId, MemcgLimits, MemcgLru, MemcgProfile, MemcgTree, OverMax, SharedPositions,
};
use crate::units::{Limit, Millis, Pages, Swappiness};
use crate::vmscan::{
    Memory, PageOut, ScanControl, ScanReason, Shrunk, shrink_lruvec, usable_swappiness,
};
use crate::word::State;
use alloc::vec::Vec;
use guest::Guests;
use soft_limit::SoftLimits;

/// How reclaim of the root chooses among tenants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GlobalReclaim {
    /// By the memcg LRU: a few tenants at a time.
    #[default]
    MemcgLru,
    /// By the hierarchy: all of them, every time. What the memcg LRU replaced, to compare.
    Iterator,
}

/// What a machine is made with.
#[derive(Clone, Copy, Debug)]
pub struct MachineConfig {
    /// Which LRU every tenant gets.
    pub policy: Policy,
    /// How the root is reclaimed.
    pub global: GlobalReclaim,
    /// Whose memcg LRU.
    pub memcg_profile: MemcgProfile,
    /// Decides the random bins.
    pub seed: u64,
    /// Mount option memory_recursiveprot.
    pub recursive_protection: bool,
    /// Pages charged ahead; 1 is exact.
    pub charge_batch: u64,
    /// The swap there is.
    pub swap: Limit,
    /// Shadows are bounded, as where they cost memory.
    pub bound_shadows: bool,
}

impl Default for MachineConfig {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            global: GlobalReclaim::default(),
            memcg_profile: MemcgProfile::default(),
            seed: 0,
            recursive_protection: true,
            charge_batch: 1,
            swap: Limit::Max,
            bound_shadows: false,
        }
    }
}

/// The memory of all tenants; see [`Memory`] for one.
pub trait Memories {
    /// [`Memory::walk`] for `memcg`.
    fn walk(&mut self, memcg: MemcgId, lruvec: &mut Lruvec);
    /// [`Self::walk`] that leaves nothing out (`force_scan`), where a walk may: ages are to be
    /// reported.
    fn walk_all(&mut self, memcg: MemcgId, lruvec: &mut Lruvec) {
        self.walk(memcg, lruvec);
    }
    /// [`Memory::look_around`] for `memcg`.
    fn look_around(&mut self, _memcg: MemcgId, _lruvec: &mut Lruvec, _young: &[FolioId]) {}
    /// [`Memory::page_out`] for `memcg`.
    fn page_out(&mut self, memcg: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>);
}

/// One tenant's memory out of all.
struct MemoryOf<'a, M> {
    memcg: MemcgId,
    memories: &'a mut M,
}

impl<M: Memories> Memory for MemoryOf<'_, M> {
    fn walk(&mut self, lruvec: &mut Lruvec) {
        self.memories.walk(self.memcg, lruvec);
    }

    fn look_around(&mut self, lruvec: &mut Lruvec, young: &[FolioId]) {
        self.memories.look_around(self.memcg, lruvec, young);
    }

    fn page_out(&mut self, batch: &[FolioId], outcome: &mut Vec<PageOut>) {
        self.memories.page_out(self.memcg, batch, outcome);
    }
}

/// What a reclaim of several tenants wants.
#[derive(Clone, Copy, Debug)]
pub struct ReclaimRequest {
    /// Who asks.
    pub reason: ScanReason,
    /// The aim.
    pub nr: Pages,
    /// Overrides the tenants' own.
    pub swappiness: Option<Swappiness>,
    /// The present.
    pub now: Millis,
}

/// The machine.
#[derive(Debug)]
pub struct Machine {
    config: MachineConfig,
    tree: MemcgTree,
    lruvecs: Vec<Option<Lruvec>>,
    memcg_lru: MemcgLru,
    reports: Reports,
    soft: SoftLimits,
    shared: SharedPositions,
    guests: Guests,
}

fn new_lruvec(config: MachineConfig, now: Millis) -> Lruvec {
    let mut lruvec = Lruvec::new(config.policy, now);
    if config.bound_shadows {
        lruvec.bound_shadows();
    }
    lruvec
}

impl Machine {
    /// A machine with a root and nothing else.
    #[must_use]
    pub fn new(config: MachineConfig, now: Millis) -> Self {
        let mut memcg_lru = MemcgLru::new(config.memcg_profile, config.seed);
        memcg_lru.online(MemcgId::ROOT);
        let mut tree = MemcgTree::new(config.recursive_protection, 1, config.charge_batch);
        // All that is out is charged to the root, too.
        let limits = MemcgLimits {
            swap_max: config.swap,
            ..MemcgLimits::default()
        };
        tree.set_limits(MemcgId::ROOT, limits);
        Self {
            config,
            tree,
            lruvecs: alloc::vec![Some(new_lruvec(config, now))],
            memcg_lru,
            reports: Reports::default(),
            soft: SoftLimits::default(),
            shared: SharedPositions::default(),
            guests: Guests::default(),
        }
    }

    /// The tree, to look at.
    #[must_use]
    pub const fn tree(&self) -> &MemcgTree {
        &self.tree
    }

    /// The memcg LRU, to look at.
    #[must_use]
    pub const fn memcg_lru(&self) -> &MemcgLru {
        &self.memcg_lru
    }

    /// A tenant's lruvec.
    ///
    /// # Panics
    /// When it has been released, as all that take an id.
    #[must_use]
    pub fn lruvec(&self, id: MemcgId) -> &Lruvec {
        self.lruvecs[id.index()].as_ref().expect("a released memcg")
    }

    /// A tenant's lruvec, for touches and walks.
    pub fn lruvec_mut(&mut self, id: MemcgId) -> &mut Lruvec {
        self.lruvecs[id.index()].as_mut().expect("a released memcg")
    }

    /// Makes a tenant.
    pub fn create(&mut self, parent: MemcgId, now: Millis) -> MemcgId {
        let id = self.tree.create(parent);
        if self.lruvecs.len() <= id.index() {
            self.lruvecs.resize_with(id.index() + 1, || None);
        }
        self.lruvecs[id.index()] = Some(new_lruvec(self.config, now));
        self.memcg_lru.online(id);
        id
    }

    /// Replaces a tenant's settings.
    pub fn set_limits(&mut self, id: MemcgId, limits: MemcgLimits) {
        self.tree.set_limits(id, limits);
        if limits.soft != Limit::Max {
            self.soft.set_in_use();
        }
    }

    /// Sets a tenant's memory.swappiness.
    pub fn set_swappiness(&mut self, id: MemcgId, swappiness: Swappiness) {
        self.tree.set_swappiness(id, swappiness);
    }

    /// A tenant is removed while pages of it may remain: it is reclaimed next, and harder.
    pub fn offline(&mut self, id: MemcgId) {
        self.tree.offline(id);
        self.memcg_lru.offline(id);
        self.release_if_empty(id);
    }

    /// Forgets an offline tenant that has nothing left.
    fn release_if_empty(&mut self, id: MemcgId) -> bool {
        if self.tree.is_online(id) {
            return false;
        }
        let before = self.tree.before(id);
        let released = self.tree.release(id);
        if released {
            self.shared.forget(id, before);
            self.memcg_lru.release(id);
            self.lruvecs[id.index()] = None;
            self.reports.forget(id);
            self.soft.forget(id);
            self.guests.forget(id);
        }
        released
    }

    /// The pages `nr` would fit below every max above `id`.
    ///
    /// # Errors
    /// [`OverMax`] with the level that forbids it.
    pub fn try_charge(&mut self, id: MemcgId, nr: Pages) -> Result<(), OverMax> {
        self.tree.try_charge(0, id, nr)
    }

    /// A page came in, charged over the limits if need be; see [`crate::Engine::fault_in`].
    pub fn fault_in(
        &mut self,
        memcg: MemcgId,
        id: FolioId,
        ty: FolioType,
        kind: FaultKind,
        has_recency: bool,
    ) -> Option<Refault> {
        let word = self.lruvec(memcg).folios().get(id);
        if !word.is_present() {
            if self.tree.try_charge(0, memcg, Pages(1)).is_err() {
                self.tree.charge_forced(memcg, Pages(1));
            }
            self.note_charge(memcg);
        }
        if word.state() == State::Shadow && word.shadow_type() == FolioType::Anon {
            self.tree.uncharge_swap(memcg, Pages(1));
        }
        let swap = self.tree.swap_available(memcg) > Pages(0);
        self.lruvec_mut(memcg)
            .fault_in(id, ty, kind, has_recency, swap)
    }

    /// A tenant's pages were removed by their program.
    pub fn unmap_range(&mut self, memcg: MemcgId, start: FolioId, len: usize) -> Unmapped {
        let gone = self.lruvec_mut(memcg).unmap_range(start, len);
        if gone.present > Pages(0) {
            self.tree.uncharge(0, memcg, gone.present);
        }
        self.tree
            .uncharge_swap(memcg, gone.out[FolioType::Anon.index()]);
        self.release_if_empty(memcg);
        gone
    }

    fn swappiness(&self, id: MemcgId, set: Option<Swappiness>) -> Swappiness {
        let set = set.unwrap_or(self.tree.get(id).swappiness());
        usable_swappiness(set, self.tree.swap_available(id))
    }

    /// True when a pass over `id` leaves its anon pages alone for want of swap.
    fn lacks_swap(&self, id: MemcgId) -> bool {
        let wanted = self.tree.get(id).swappiness();
        let (active, inactive) = self.lruvec(id).active_inactive(FolioType::Anon);
        self.swappiness(id, None) != wanted && active.0 + inactive.0 > 0
    }

    /// A pass left anon pages of `id` where they are, for want of swap: MAX and FAIL at the level
    /// whose swap.max it is; FAIL of `id` when there is no more swap at all. Once a pass.
    fn swap_failed(&mut self, id: MemcgId) {
        let available = |&id: &MemcgId| self.tree.get(id).swap_available();
        match self.tree.ancestors(id).min_by_key(available) {
            Some(limiting) if limiting != MemcgId::ROOT => {
                self.tree.event(limiting, MemcgEvent::SwapMax);
                self.tree.event(limiting, MemcgEvent::SwapFail);
            }
            _ => self.tree.event(id, MemcgEvent::SwapFail),
        }
    }

    /// One pass over one lruvec, with its accounts.
    fn shrink<M: Memories>(&mut self, id: MemcgId, sc: &ScanControl, memories: &mut M) -> Shrunk {
        let (lacks_swap, available) = (self.lacks_swap(id), self.tree.swap_available(id));
        let lruvec = self.lruvecs[id.index()].as_mut().expect("a released memcg");
        let out = lruvec.out(FolioType::Anon);
        let most_out = Pages(out.0.saturating_add(available.0));
        let shrunk = shrink_lruvec(
            lruvec,
            &ScanControl { most_out, ..*sc },
            &mut MemoryOf {
                memcg: id,
                memories,
            },
        );
        let swapped = lruvec.out(FolioType::Anon).less(out);
        lruvec.reclaim_shadow_nodes();
        let gone = Pages(shrunk.reclaimed.0 + shrunk.forgotten.0);
        if gone > Pages(0) {
            self.tree.uncharge(0, id, gone);
        }
        self.tree.charge_swap(id, swapped);
        if lacks_swap || shrunk.unswapped > 0 {
            self.swap_failed(id);
        }
        shrunk
    }

    /// Asserts every invariant. Costs a look at every page of every tenant.
    ///
    /// # Panics
    /// When one does not hold.
    pub fn check_invariants(&self) {
        self.tree.check_invariants();
        self.memcg_lru.check_invariants();
        self.soft.check();
        for id in self.tree.pre_order(MemcgId::ROOT) {
            self.lruvec(id).check_invariants(self.swappiness(id, None));
            assert!(
                self.memcg_lru.slot_of(id).is_some(),
                "{id:?} is not on the memcg LRU"
            );
            let children: u64 = self
                .tree
                .children(id)
                .iter()
                .map(|&c| self.tree.get(c).usage().0)
                .sum();
            let own = self.lruvec(id).resident().0 + self.tree.stocked(id).0;
            assert_eq!(
                self.tree.get(id).usage(),
                Pages(children + own),
                "usage of {id:?}"
            );
        }
    }
}

#[cfg(test)]
mod tests;
