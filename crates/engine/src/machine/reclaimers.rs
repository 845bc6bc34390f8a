//! Reclaimers: the state of tasks that reclaim at the same time, each from one memcg at a time. The
//! caller decides which of them continues next.
//! spec: memcg-lru.md 5, 6; reclaim-control.md 5.3.
//!
//! By the memcg LRU, each reclaimer starts at a random bin. By the hierarchy, all share a position,
//! and together visit each memcg once; by heat levels they do so in each round. A reclaim that runs
//! alone is one reclaimer, run to its end.
//!
//! Invariants: between two calls of [`Machine::step`] a reclaimer refers to memcgs only by their
//! ids, so that tenants may be created, moved and removed meanwhile; it stops once it has reclaimed
//! enough; by the hierarchy a shared walk visits no memcg twice. If a visit is interrupted, the
//! walk continues at the same memcg.

use super::by_heat::{HeatPass, HeatWalk};
use super::iterator::{ForceLevel, NodePass};
use super::sharing::Sharing;
use super::{GlobalReclaim, Machine, ReclaimRequest};
use crate::active_inactive::Prepared;
use crate::lru_gen::DEF_PRIORITY;
use crate::lruvec::Policy;
use crate::memcg::{MemcgId, MemcgWalk, SharedWalk};
use crate::units::{Millis, Pages};
use crate::vmscan::{Memory, Share, Shrunk};
use alloc::vec::{IntoIter, Vec};

/// One reclaimer at one priority: its state between two memcgs, or between two batches of one
/// memcg.
#[derive(Debug)]
pub struct Reclaimer {
    target: MemcgId,
    request: ReclaimRequest,
    priority: u32,
    force: ForceLevel,
    /// Decisions made when the reclaimer began; `None` under the multi-gen LRU.
    prepared: Option<Prepared>,
    /// How the request is divided among memcgs.
    sharing: Sharing,
    walk: Walk,
    /// The memcg whose visit was interrupted, what was reclaimed from it, and its share of the
    /// request; `None` if no visit is to be continued.
    visit: Option<(MemcgId, Shrunk, Share)>,
    /// Pages reclaimed for this request at earlier priorities: they count towards it.
    before: Pages,
    total: Shrunk,
}

#[derive(Debug)]
enum Walk {
    Lru(MemcgWalk),
    Shared(SharedWalk),
    /// All memcgs of the target from the beginning.
    All(IntoIter<MemcgId>),
    Heat(HeatWalk),
}

impl Reclaimer {
    /// Returns what was reclaimed in the visits that have ended.
    #[must_use]
    pub const fn got(&self) -> Shrunk {
        self.total
    }

    pub(super) fn by_hierarchy(target: MemcgId, request: ReclaimRequest, priority: u32) -> Self {
        Self {
            target,
            request,
            priority,
            force: ForceLevel::default(),
            prepared: None,
            sharing: Sharing::default(),
            walk: Walk::Shared(SharedWalk::default()),
            visit: None,
            before: Pages(0),
            total: Shrunk::default(),
        }
    }

    /// Sets how many pages of the request were reclaimed at earlier priorities.
    pub(super) fn after(self, before: Pages) -> Self {
        Self { before, ..self }
    }

    /// Sets the time at which the reclaimer continues.
    pub(super) const fn set_now(&mut self, now: Millis) {
        self.request.now = now;
    }

    /// Returns the request, reduced to the pages that were missing when the visit of the present
    /// memcg began.
    const fn missing(&self) -> ReclaimRequest {
        let reclaimed = Pages(self.before.0 + self.total.reclaimed.0);
        ReclaimRequest {
            nr: self.request.nr.less(reclaimed),
            ..self.request
        }
    }

    /// Whether the reclaimer has reclaimed enough to end before its walk does. A full walk ends
    /// early only if no batch may exceed the request (`is_exact`).
    fn has_enough(&self, is_exact: bool) -> bool {
        let has_all = self.missing().nr == Pages(0);
        match &self.walk {
            Walk::Lru(_) | Walk::Shared(_) => has_all && self.total.visited > 0,
            Walk::All(_) => has_all && is_exact,
            Walk::Heat(walk) => has_all && walk.ends_early() && self.total.visited > 0,
        }
    }

    /// Ends the interrupted visit, if any, and adds what it reclaimed.
    const fn end_visit(&mut self) {
        if let Some((_, part, _)) = self.visit.take() {
            self.total.visited += 1;
            self.total.add(part);
        }
    }
}

impl Machine {
    /// Creates a reclaimer of `target` for `request`. For the root the configuration says how it
    /// chooses memcgs; for other targets it walks the hierarchy, from where other reclaimers
    /// stopped.
    pub fn reclaimer(
        &mut self,
        target: MemcgId,
        request: ReclaimRequest,
        priority: u32,
    ) -> Reclaimer {
        let force = ForceLevel::default();
        match self.choice_for(target) {
            GlobalReclaim::MemcgLru => self.lru_reclaimer((request, priority), request.nr),
            GlobalReclaim::HeatLevel => self.heat_reclaimer(request, priority, force),
            GlobalReclaim::Iterator => self.forced_reclaimer(target, (request, priority), force),
        }
    }

    /// Returns how a reclaim of `target` chooses memcgs: for the root as configured, else by a walk
    /// of the subtree.
    pub(super) fn choice_for(&self, target: MemcgId) -> GlobalReclaim {
        match target {
            MemcgId::ROOT => self.config.global,
            _ => GlobalReclaim::Iterator,
        }
    }

    /// Creates a reclaimer by the hierarchy. It starts at the first memcg if `force.full`, else
    /// where other reclaimers stopped.
    pub(super) fn forced_reclaimer(
        &mut self,
        target: MemcgId,
        (request, priority): (ReclaimRequest, u32),
        force: ForceLevel,
    ) -> Reclaimer {
        let walk = match force.full {
            true => Walk::All(self.tree.pre_order(target).into_iter()),
            false => Walk::Shared(SharedWalk::default()),
        };
        Reclaimer {
            prepared: self.prepare(target, (request, priority), force.deactivate),
            walk,
            force,
            sharing: self.sharing(target, (request, priority), force.low),
            ..Reclaimer::by_hierarchy(target, request, priority)
        }
    }

    /// Creates a reclaimer of the root by the memcg LRU, for a request of which `missing` pages are
    /// still to be reclaimed.
    pub(super) fn lru_reclaimer(
        &mut self,
        (request, priority): (ReclaimRequest, u32),
        missing: Pages,
    ) -> Reclaimer {
        Reclaimer {
            walk: Walk::Lru(MemcgWalk::new(&mut self.memcg_lru)),
            sharing: self.sharing_of_lru((&request, priority), missing),
            ..Reclaimer::by_hierarchy(MemcgId::ROOT, request, priority)
        }
    }

    /// Creates a reclaimer of the root by heat levels. Each of its rounds begins at the first memcg
    /// if `force.full`, else where other reclaimers stopped.
    pub(super) fn heat_reclaimer(
        &mut self,
        request: ReclaimRequest,
        priority: u32,
        force: ForceLevel,
    ) -> Reclaimer {
        let root = MemcgId::ROOT;
        let is_exact = self.is_exact(request.reason);
        Reclaimer {
            prepared: self.prepare(root, (request, priority), force.deactivate),
            walk: Walk::Heat(self.heat_walk(force.full, is_exact)),
            force,
            ..Reclaimer::by_hierarchy(root, request, priority)
        }
    }

    /// Reclaims from the next memcg, or from the same one if its reclaim was interrupted. Returns
    /// that memcg; `None` when enough is reclaimed or the walk has ended.
    pub fn step<M: Memory>(
        &mut self,
        reclaimer: &mut Reclaimer,
        memory: &mut M,
    ) -> Option<MemcgId> {
        if !self.tree.exists(reclaimer.target) {
            return None;
        }
        let (id, before) = match reclaimer.visit {
            Some((id, part, share)) if self.is_below(id, reclaimer.target) => {
                (id, Some((part, share)))
            }
            _ => {
                // If a visit was interrupted, its memcg was removed meanwhile.
                reclaimer.end_visit();
                if reclaimer.has_enough(self.is_exact(reclaimer.request.reason)) {
                    return None;
                }
                (self.next_of(reclaimer)?, None)
            }
        };
        let (slice, share) = self.visit(reclaimer, (id, before), memory);
        let mut total = before.map_or_else(Shrunk::default, |(part, _)| part);
        total.add(slice);
        reclaimer.visit = Some((id, total, share));
        if !slice.bailed_out {
            reclaimer.end_visit();
        }
        Some(id)
    }

    /// Whether `id` exists, and is `top` or below it. Between two slices a memcg may have been
    /// released, and its id given to another.
    pub(super) fn is_below(&self, id: MemcgId, top: MemcgId) -> bool {
        self.tree.exists(id) && self.tree.ancestors(id).any(|at| at == top)
    }

    /// Returns the next memcg of the reclaimer's walk.
    fn next_of(&mut self, reclaimer: &mut Reclaimer) -> Option<MemcgId> {
        let target = reclaimer.target;
        match &mut reclaimer.walk {
            Walk::Lru(walk) => walk.next(&mut self.memcg_lru),
            Walk::Shared(walk) => self.shared.next(&self.tree, target, walk),
            Walk::All(ids) => ids.find(|id| self.is_below(*id, target)),
            Walk::Heat(walk) => self.next_by_heat(walk),
        }
    }

    /// Reclaims from one memcg of a walk; returns what was reclaimed now, and the memcg's share of
    /// the request.
    fn visit<M: Memory>(
        &mut self,
        reclaimer: &mut Reclaimer,
        (id, before): (MemcgId, Option<(Shrunk, Share)>),
        memory: &mut M,
    ) -> (Shrunk, Share) {
        let (missing, priority, target) =
            (reclaimer.missing(), reclaimer.priority, reclaimer.target);
        let is_exact = self.is_exact(reclaimer.request.reason);
        match &mut reclaimer.walk {
            Walk::Lru(walk) => {
                // A resumed visit keeps the share that it had when it began.
                let share = match before {
                    Some((_, share)) => share,
                    None => self.share_of_lru(id, reclaimer.sharing, &missing),
                };
                let before = before.map(|(part, _)| part);
                let (op, shrunk) =
                    self.shrink_more((id, before), (missing, priority, share), memory);
                if !shrunk.bailed_out {
                    walk.pend(op);
                }
                self.release_if_empty(id);
                return (shrunk, share);
            }
            Walk::Heat(walk) => {
                let before = before.map(|(part, _)| part);
                // A pass over classic lists may take the whole request from each memcg.
                let counts = is_exact || matches!(self.config.policy, Policy::MultiGen(_));
                let pass = HeatPass {
                    request: if counts { missing } else { reclaimer.request },
                    priority,
                    deactivate: reclaimer.force.deactivate,
                    low: reclaimer.force.low,
                    prepared: reclaimer.prepared,
                };
                let shrunk = self.shrink_by_heat((id, before), (walk, pass), memory);
                return (shrunk, Share::BySize);
            }
            // A walk over all memcgs visits parents first, so each step computes only the
            // protection of its own memcg. An exact walk may have been paused since, and computes
            // the whole path.
            Walk::All(_) if !is_exact => self.tree.calculate_protection(target, id),
            Walk::All(_) | Walk::Shared(_) => self.tree.calculate_path(target, id),
        }
        // In a pass by the hierarchy the whole request is made of each memcg, as in the kernel.
        // Only where a pass must not exceed the request, each memcg gets the missing pages.
        let pass = NodePass {
            target,
            request: if is_exact { missing } else { reclaimer.request },
            force: reclaimer.force,
            priority,
            prepared: reclaimer.prepared,
            sharing: reclaimer.sharing,
        };
        self.shrink_child((id, before), pass, memory)
    }

    /// Ends a reclaimer at any point; returns what it reclaimed.
    pub fn finish(&mut self, mut reclaimer: Reclaimer) -> Shrunk {
        reclaimer.end_visit();
        if let Walk::Lru(walk) = reclaimer.walk {
            walk.finish(&mut self.memcg_lru);
        }
        reclaimer.total
    }

    /// Runs one reclaimer. Returns true when it has ended, false when `memory` wants a pause.
    pub(super) fn drive<M: Memory>(&mut self, reclaimer: &mut Reclaimer, memory: &mut M) -> bool {
        while self.step(reclaimer, memory).is_some() {
            if reclaimer.visit.is_some() || memory.wants_pause() {
                return false;
            }
        }
        true
    }

    /// Serves all `requests` at the same time, as if each came from its own thread, with rising
    /// pressure. `pick` gets the number of reclaimers that still run, and returns the index of the
    /// one that continues next (modulo that number). Returns what was reclaimed for each request,
    /// in their order.
    pub fn reclaim_together<M: Memory>(
        &mut self,
        target: MemcgId,
        requests: &[ReclaimRequest],
        pick: &mut dyn FnMut(usize) -> usize,
        memory: &mut M,
    ) -> Vec<Shrunk> {
        let mut totals = alloc::vec![Shrunk::default(); requests.len()];
        if target == MemcgId::ROOT {
            for (total, &request) in totals.iter_mut().zip(requests) {
                *total = self.soft_limit_reclaim(request, memory);
            }
        }
        let wants = requests.iter().map(|request| request.nr);
        let first_priority = wants.map(|nr| self.first_priority(target, nr)).max();
        let first_priority = first_priority.unwrap_or(DEF_PRIORITY);
        for priority in (0..=first_priority).rev() {
            let mut running = Vec::new();
            for (n, (request, total)) in requests.iter().zip(&totals).enumerate() {
                if total.reclaimed < request.nr {
                    self.note_pressure(target, (priority, request.reason), request.now);
                    if !self.is_worth_a_pass(*request, priority) {
                        continue;
                    }
                    let reclaimer = self.reclaimer(target, *request, priority);
                    running.push((n, reclaimer.after(total.reclaimed)));
                }
            }
            while !running.is_empty() {
                let at = pick(running.len()) % running.len();
                self.set_worker(running[at].0);
                if self.step(&mut running[at].1, memory).is_none() {
                    let (n, reclaimer) = running.swap_remove(at);
                    totals[n].add(self.finish(reclaimer));
                }
            }
        }
        self.set_worker(0);
        self.snapshot(target);
        totals
    }

    fn first_priority(&mut self, target: MemcgId, nr: Pages) -> u32 {
        match self.choice_for(target) {
            GlobalReclaim::MemcgLru => self.initial_priority(nr),
            GlobalReclaim::HeatLevel => self.heat_priority(nr),
            GlobalReclaim::Iterator => DEF_PRIORITY,
        }
    }
}

#[cfg(test)]
mod tests;
