//! Many tenants on one machine: the memcg tree, a lruvec for each memcg, and reclaim over all of
//! them. [`Machine::of_one`] creates a machine with a single tenant. The simulator and the host
//! both drive their memory through [`Machine`].
//!
//! Reclaim of the root chooses memcgs by the memcg LRU (`global.rs`) or, for comparison, by heat
//! levels (`by_heat.rs`). Reclaim of a subtree, and the baseline that the memcg LRU replaced, walk
//! the hierarchy (`iterator.rs`). Each of these raises its pressure step by step (`passes.rs`), and
//! can run in slices (`ongoing.rs`).
//!
//! A reclaim may be restricted to one memory node ([`Ongoing::on_node`]). Page lists are separate
//! for each node; the tree, protection, generations and the memcg LRU are common to all nodes.
//!
//! Invariants: a memcg's usage is the sum of the resident pages of its lruvec, its children's usage
//! and its stocks (pages charged ahead); every memcg that is not released is on the memcg LRU
//! exactly once.

mod config;
mod report;

// These modules use each other.
mod hierarchy;
mod stats;

mod guest;
mod shrink;

mod aging;
mod idle;
mod sharing;
mod soft_limit;

mod pages;
mod usage;

// These modules use each other.
mod by_age;
mod by_heat;
mod global;
mod iterator;
mod ongoing;
mod passes;
mod reclaimers;

mod charge;
mod high;
#[cfg(any(test, feature = "phases"))]
mod phases;

pub use charge::OomAt;
pub use config::{
    Aging, GlobalReclaim, HOST_BATCH, HOST_SCANS_APART, LevelReads, MachineConfig, ReclaimRequest,
};
pub use ongoing::Ongoing;
pub use reclaimers::Reclaimer;
pub use report::Reports;
pub use soft_limit::SOFT_LIMIT_EVENTS;

use crate::folio::FolioType;
use crate::lruvec::Lruvec;
use crate::memcg::{MemcgHeat, MemcgId, MemcgLimits, MemcgLru, MemcgTree, SharedPositions};
use crate::units::{Limit, Millis, Pages, Swappiness};
use crate::word::NodeId;
use alloc::vec::Vec;
use guest::Guests;
use hierarchy::Hierarchy;
use idle::VainPriorities;
use soft_limit::SoftLimits;
use stats::Stats;

/// A machine: a tree of tenants, with their memory and its reclaim.
#[derive(Debug)]
pub struct Machine {
    config: MachineConfig,
    tree: MemcgTree,
    lruvecs: Vec<Option<Lruvec>>,
    memcg_lru: MemcgLru,
    heat: MemcgHeat,
    reports: Reports,
    soft: SoftLimits,
    shared: SharedPositions,
    guests: Guests,
    /// Time at which [`crate::Memory`] last reported that no swap is free. Reclaim uses no swap
    /// again until time has advanced.
    no_swap: Option<Millis>,
    stats: Stats,
    /// Whether the running reclaim of the root may take pages from tenants below memory.low.
    takes_below_low: bool,
    /// The memory node from which the running reclaim takes pages; `None` for all nodes.
    node: Option<NodeId>,
    /// Index of the worker to which changes of counters are attributed now; see
    /// [`MachineConfig::workers`].
    worker: u32,
    hierarchy: Hierarchy,
    idle: VainPriorities,
}

fn new_lruvec(config: MachineConfig, now: Millis) -> Lruvec {
    let mut lruvec = Lruvec::new(config.policy, now);
    if config.bound_shadows {
        lruvec.bound_shadows();
    }
    if config.aging == Aging::ByScans {
        lruvec.set_aged_by_scans();
    }
    if let Some(lru) = lruvec.classic_mut() {
        lru.join();
    }
    lruvec
}

impl Machine {
    /// Creates a machine whose tree of tenants has only the root.
    #[must_use]
    pub fn new(config: MachineConfig, now: Millis) -> Self {
        let mut memcg_lru = MemcgLru::new(config.memcg_profile, config.seed);
        if config.in_turn {
            memcg_lru.set_in_turn();
        }
        memcg_lru.online(MemcgId::ROOT);
        let mut heat = MemcgHeat::default();
        heat.online(MemcgId::ROOT, now);
        let mut tree = MemcgTree::new(config.recursive_protection, 1, config.charge_batch);
        // Swapped-out pages of all tenants are charged to the root, too: its swap.max is the size
        // of swap.
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
            heat,
            reports: Reports::default(),
            soft: SoftLimits::default(),
            shared: SharedPositions::new(config.in_turn),
            guests: Guests::default(),
            no_swap: None,
            stats: Stats::new(config.workers.max(1)),
            takes_below_low: true,
            node: None,
            worker: 0,
            hierarchy: Hierarchy::new(&config),
            idle: VainPriorities::default(),
        }
    }

    /// Creates a machine with one tenant below the root, [`MemcgId::FIRST`], with these limits.
    #[must_use]
    pub fn of_one(config: MachineConfig, limits: MemcgLimits, now: Millis) -> Self {
        let mut machine = Self::new(config, now);
        let id = machine.create(MemcgId::ROOT, now);
        machine.set_limits(id, limits);
        machine
    }

    /// Returns the machine's settings.
    #[must_use]
    pub const fn config(&self) -> MachineConfig {
        self.config
    }

    /// The tree, read-only.
    #[must_use]
    pub const fn tree(&self) -> &MemcgTree {
        &self.tree
    }

    /// The memcg LRU, read-only.
    #[must_use]
    pub const fn memcg_lru(&self) -> &MemcgLru {
        &self.memcg_lru
    }

    /// Returns a tenant's lruvec.
    ///
    /// # Panics
    /// When the tenant has been released. All methods that take an id panic then.
    #[must_use]
    pub fn lruvec(&self, id: MemcgId) -> &Lruvec {
        self.lruvecs[id.index()].as_ref().expect("a released memcg")
    }

    /// Returns a tenant's lruvec for changes, such as touches and walks.
    pub fn lruvec_mut(&mut self, id: MemcgId) -> &mut Lruvec {
        if !self.stats.is_noted(id, self.worker) {
            self.note_change(id);
        }
        self.lruvecs[id.index()].as_mut().expect("a released memcg")
    }

    /// Creates a tenant below `parent`.
    pub fn create(&mut self, parent: MemcgId, now: Millis) -> MemcgId {
        let id = self.tree.create(parent);
        if self.lruvecs.len() <= id.index() {
            self.lruvecs.resize_with(id.index() + 1, || None);
        }
        self.lruvecs[id.index()] = Some(new_lruvec(self.config, now));
        self.memcg_lru.online(id);
        self.heat.online(id, now);
        self.stats.create(parent, id);
        id
    }

    /// Replaces a tenant's limits.
    pub fn set_limits(&mut self, id: MemcgId, limits: MemcgLimits) {
        self.tree.set_limits(id, limits);
        self.idle.note(id);
        if limits.soft != Limit::Max {
            self.soft.set_in_use();
        }
    }

    /// See [`MemcgTree::set_hierarchy_root`].
    pub fn set_hierarchy_root(&mut self, id: MemcgId) {
        self.tree.set_hierarchy_root(id);
    }

    /// Sets a tenant's memory.swappiness.
    pub fn set_swappiness(&mut self, id: MemcgId, swappiness: Swappiness) {
        self.tree.set_swappiness(id, swappiness);
        self.idle.note(id);
    }

    /// Removes a tenant. Pages that it still has are reclaimed soon, with higher pressure than
    /// those of other tenants.
    pub fn offline(&mut self, id: MemcgId) {
        self.tree.offline(id);
        self.idle.note(id);
        self.memcg_lru.offline(id);
        self.release_if_empty(id);
    }

    /// Releases an offline tenant that has no charge and no page any more; returns whether it did.
    fn release_if_empty(&mut self, id: MemcgId) -> bool {
        if self.tree.is_online(id) {
            return false;
        }
        if !self.tree.is_releasable(id) {
            return false;
        }
        self.remove_stats(id);
        let before = self.tree.before(id);
        self.tree.release(id);
        self.shared.forget(id, before);
        self.memcg_lru.release(id);
        self.idle.note(id);
        self.lruvecs[id.index()] = None;
        self.reports.forget(id);
        self.soft.forget(id);
        self.guests.forget(id);
        self.hierarchy.forget(id);
        true
    }

    /// Asserts every invariant; reads the word of every page of every tenant.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub fn check_invariants(&self) {
        self.tree.check_invariants();
        self.memcg_lru.check_invariants();
        self.heat.check_invariants();
        self.soft.check();
        for id in self.tree.pre_order(MemcgId::ROOT) {
            self.lruvec(id).check_invariants(self.swappiness(id, None));
            assert!(
                self.memcg_lru.slot_of(id).is_some(),
                "{id:?} is not on the memcg LRU"
            );
            self.check_accounts(id);
            self.check_level(id);
        }
    }

    fn check_accounts(&self, id: MemcgId) {
        let own_and_childrens = |f: fn(&crate::memcg::Memcg) -> Pages| {
            let children = self.tree.children(id);
            let sum: u64 = children.map(|child| f(self.tree.get(child)).0).sum();
            (f(self.tree.get(id)), sum)
        };
        let own = self.lruvec(id).resident().0 + self.tree.stocked(id).0;
        let (charged, children) = own_and_childrens(|memcg| memcg.charged());
        assert_eq!(charged, Pages(children + own), "usage of {id:?}");
        let out = self.lruvec(id).out(FolioType::Anon).0;
        let (swapped, children) = own_and_childrens(|memcg| memcg.swap_usage());
        assert_eq!(swapped, Pages(children + out), "swap usage of {id:?}");
    }
}

#[cfg(test)]
mod canaries;
#[cfg(test)]
mod tests;
