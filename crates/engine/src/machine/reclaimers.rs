//! Reclaimers that work at the same time, each on one memcg at a time; the caller decides which one
//! goes on next.
//! spec: memcg-lru.md 5, 6; reclaim-control.md 5.3.
//!
//! By the memcg LRU, each reclaimer starts at a random bin. By the hierarchy, all share a position,
//! and together visit each memcg once; so they do in each round by heat levels. A reclaim without
//! others is one reclaimer, run to its end.
//!
//! Invariants: between two calls of [`Machine::step`] a reclaimer holds nothing, so that tenants
//! may come, move and go meanwhile; it stops once it has reclaimed enough; by the hierarchy no
//! memcg is visited twice in a shared walk. A memcg where it bailed out is not done: the walk
//! continues there.

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

/// One reclaimer at one priority; its state between two memcgs, or between two batches of one
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
    /// The memcg where it bailed out, what it reclaimed there, and the memcg's share of the
    /// request: it continues there. `None` if it did not bail out.
    visit: Option<(MemcgId, Shrunk, Share)>,
    /// Pages reclaimed for this request at earlier priorities: they count towards it.
    before: Pages,
    got: Shrunk,
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
    /// Returns what was reclaimed so far, without the memcg where it bailed out.
    #[must_use]
    pub const fn got(&self) -> Shrunk {
        self.got
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
            got: Shrunk::default(),
        }
    }

    /// Returns the reclaimer for a request of which `before` pages were reclaimed at earlier
    /// priorities.
    pub(super) fn after(self, before: Pages) -> Self {
        Self { before, ..self }
    }

    /// Sets the time at which the reclaimer continues.
    pub(super) const fn set_now(&mut self, now: Millis) {
        self.request.now = now;
    }

    /// Returns the request with the pages that it still lacked when the visit of the present memcg
    /// began.
    const fn rest(&self) -> ReclaimRequest {
        let reclaimed = Pages(self.before.0 + self.got.reclaimed.0);
        ReclaimRequest {
            nr: self.request.nr.less(reclaimed),
            ..self.request
        }
    }

    /// Whether the reclaimer may end here. A full walk ends early only if no batch may overshoot.
    fn has_enough(&self, is_exact: bool) -> bool {
        let has_all = self.rest().nr == Pages(0);
        match &self.walk {
            Walk::Lru(_) | Walk::Shared(_) => has_all && self.got.visited > 0,
            Walk::All(_) => has_all && is_exact,
            Walk::Heat(walk) => has_all && walk.ends_early() && self.got.visited > 0,
        }
    }

    /// Ends the visit of the memcg where it bailed out, and adds what it reclaimed there.
    const fn end_visit(&mut self) {
        if let Some((_, part, _)) = self.visit.take() {
            self.got.visited += 1;
            self.got.add(part);
        }
    }
}

impl Machine {
    /// Creates a reclaimer of `target` for `request`. For the root it works as configured; else by
    /// the hierarchy, from where other reclaimers stopped.
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

    /// Returns how a reclaim of `target` chooses memcgs: a subtree is walked, the root as
    /// configured.
    pub(super) fn choice_for(&self, target: MemcgId) -> GlobalReclaim {
        match target {
            MemcgId::ROOT => self.config.global,
            _ => GlobalReclaim::Iterator,
        }
    }

    /// Creates a reclaimer by the hierarchy, that starts where other reclaimers stopped, or, with
    /// `force.full`, from the beginning.
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

    /// Creates a reclaimer of the root by heat levels. With `force.full`, each of its rounds begins
    /// at the first memcg, else where other reclaimers stopped.
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
                // If it bailed out, the memcg where it did is gone.
                reclaimer.end_visit();
                if reclaimer.has_enough(self.is_exact(reclaimer.request.reason)) {
                    return None;
                }
                (self.next_of(reclaimer)?, None)
            }
        };
        let (slice, share) = self.visit(reclaimer, (id, before), memory);
        let mut all = before.map_or_else(Shrunk::default, |(part, _)| part);
        all.add(slice);
        reclaimer.visit = Some((id, all, share));
        if !slice.bailed_out {
            reclaimer.end_visit();
        }
        Some(id)
    }

    /// Whether `id` exists and is `top` or below it. Between two slices a memcg may have been
    /// released, and its id may be another's.
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
        let (rest, priority, target) = (reclaimer.rest(), reclaimer.priority, reclaimer.target);
        let is_exact = self.is_exact(reclaimer.request.reason);
        match &mut reclaimer.walk {
            Walk::Lru(walk) => {
                // A resumed visit keeps the share that it had when it began.
                let share = match before {
                    Some((_, share)) => share,
                    None => self.share_of_lru(id, reclaimer.sharing, &rest),
                };
                let before = before.map(|(part, _)| part);
                let (op, shrunk) = self.shrink_more((id, before), (rest, priority, share), memory);
                if !shrunk.bailed_out {
                    walk.pend(op);
                }
                self.release_if_empty(id);
                return (shrunk, share);
            }
            Walk::Heat(walk) => {
                let before = before.map(|(part, _)| part);
                // Passes over classic lists count from zero at each memcg.
                let counts = is_exact || matches!(self.config.policy, Policy::MultiGen(_));
                let pass = HeatPass {
                    request: if counts { rest } else { reclaimer.request },
                    priority,
                    deactivate: reclaimer.force.deactivate,
                    low: reclaimer.force.low,
                    prepared: reclaimer.prepared,
                };
                let shrunk = self.shrink_by_heat((id, before), (walk, pass), memory);
                return (shrunk, Share::BySize);
            }
            // A walk over all memcgs computes protection from the top down. An exact one may have
            // been paused meanwhile, and so computes the whole path.
            Walk::All(_) if !is_exact => self.tree.calculate_protection(target, id),
            Walk::All(_) | Walk::Shared(_) => self.tree.calculate_path(target, id),
        }
        // In a pass by the hierarchy each memcg gets the whole request: the classic lists stop once
        // they have reclaimed that much, and count from zero. Batches larger than the kernel's must
        // not overshoot, so they get the rest.
        let pass = NodePass {
            target,
            request: if is_exact { rest } else { reclaimer.request },
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
        reclaimer.got
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

    /// Serves all `requests` at the same time, with rising pressure, as threads would that run
    /// short of memory together. `pick` gets the number of requests not yet met, and returns which
    /// one goes on next (modulo that number). Returns what each request got, in order.
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
        let first = wants.map(|nr| self.first_priority(target, nr)).max();
        let first = first.unwrap_or(DEF_PRIORITY);
        for priority in (0..=first).rev() {
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
                self.work_as(running[at].0);
                if self.step(&mut running[at].1, memory).is_none() {
                    let (n, reclaimer) = running.swap_remove(at);
                    totals[n].add(self.finish(reclaimer));
                }
            }
        }
        self.work_as(0);
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
