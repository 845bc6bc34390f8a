//! Several reclaimers at work at once, each a memcg at a time; whoever drives them says who is next.
//! spec: memcg-lru.md 5, 6; reclaim-control.md 5.3.
//!
//! By the memcg LRU each starts at a random bin; by the hierarchy they share a position, and together
//! go round once. A single reclaimer is one of these, driven to its end.
//!
//! Invariants: a reclaimer holds nothing between two steps, so that tenants may come, move and go
//! meanwhile; it stops once its aim is reached; by the hierarchy no memcg is visited twice in a round. A memcg that it bailed out
//! of is not passed: the walk goes on with it.

use super::iterator::{Force, NodePass};
use super::sharing::Sharing;
use super::{GlobalReclaim, Machine, ReclaimRequest};
use crate::active_inactive::Prepared;
use crate::lru_gen::DEF_PRIORITY;
use crate::memcg::{MemcgId, MemcgWalk, SharedWalk};
use crate::units::{Millis, Pages};
use crate::vmscan::{Memory, Share, Shrunk};
use alloc::vec::{IntoIter, Vec};

/// One reclaimer at one priority, between two memcgs, or between two batches of one.
#[derive(Debug)]
pub struct Reclaimer {
    target: MemcgId,
    request: ReclaimRequest,
    priority: u32,
    force: Force,
    /// What was decided when it began (classic policy).
    prepared: Option<Prepared>,
    /// How its aim is shared out; by the memcg LRU each visit says so itself.
    sharing: Sharing,
    walk: Walk,
    /// The memcg that it bailed out of, what it got of that, and that one's share: the next step goes on there.
    visit: Option<(MemcgId, Shrunk, Share)>,
    /// Pages that its request got at earlier priorities: they count for its end.
    before: Pages,
    got: Shrunk,
}

#[derive(Debug)]
enum Walk {
    Lru(MemcgWalk),
    Shared(SharedWalk),
    /// All from the beginning.
    All(IntoIter<MemcgId>),
}

impl Reclaimer {
    pub(super) fn by_hierarchy(target: MemcgId, request: ReclaimRequest, priority: u32) -> Self {
        Self {
            target,
            request,
            priority,
            force: Force::default(),
            prepared: None,
            sharing: Sharing::default(),
            walk: Walk::Shared(SharedWalk::default()),
            visit: None,
            before: Pages(0),
            got: Shrunk::default(),
        }
    }

    /// The same request got `before` pages at earlier priorities.
    pub(super) fn after(self, before: Pages) -> Self {
        Self { before, ..self }
    }

    /// It goes on at another time.
    pub(super) const fn set_now(&mut self, now: Millis) {
        self.request.now = now;
    }

    /// What it got so far, but for the memcg that it bailed out of.
    #[must_use]
    pub const fn got(&self) -> Shrunk {
        self.got
    }

    /// What the request still lacked when the memcg that is visited was met.
    const fn rest(&self) -> ReclaimRequest {
        let reclaimed = Pages(self.before.0 + self.got.reclaimed.0);
        ReclaimRequest {
            nr: self.request.nr.less(reclaimed),
            ..self.request
        }
    }

    /// Whether it may end here. A full walk looks at the aim only where no batch may overshoot it.
    fn has_enough(&self, is_exact: bool) -> bool {
        let has_all = self.rest().nr == Pages(0);
        match self.walk {
            Walk::Lru(_) | Walk::Shared(_) => has_all && self.got.visited > 0,
            Walk::All(_) => has_all && is_exact,
        }
    }

    /// The visit is over, wherever it is.
    const fn end_visit(&mut self) {
        if let Some((_, part, _)) = self.visit.take() {
            self.got.visited += 1;
            self.got.add(part);
        }
    }
}

impl Machine {
    /// A reclaimer of `target` that wants what `request` says: of the root by the memcg LRU, if that is
    /// how the root is reclaimed, else by the hierarchy, from where others have left off.
    pub fn reclaimer(
        &mut self,
        target: MemcgId,
        request: ReclaimRequest,
        priority: u32,
    ) -> Reclaimer {
        let by_lru = target == MemcgId::ROOT && self.config.global == GlobalReclaim::MemcgLru;
        if by_lru {
            self.lru_reclaimer(request, priority)
        } else {
            self.forced_reclaimer(target, (request, priority), Force::default())
        }
    }

    /// By the hierarchy: from where others have left off, or all from the beginning.
    pub(super) fn forced_reclaimer(
        &mut self,
        target: MemcgId,
        (request, priority): (ReclaimRequest, u32),
        force: Force,
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

    pub(super) fn lru_reclaimer(&mut self, request: ReclaimRequest, priority: u32) -> Reclaimer {
        Reclaimer {
            walk: Walk::Lru(MemcgWalk::new(&mut self.memcg_lru)),
            ..Reclaimer::by_hierarchy(MemcgId::ROOT, request, priority)
        }
    }

    /// Reclaims one memcg more, or goes on with the one that it bailed out of, and says which; `None` when the aim is
    /// reached or the walk is over.
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
                // The one that it bailed out of is gone, if any.
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

    /// Whether a memcg is there, and of a subtree. (Between two slices one may have gone, and its id may be another's.)
    pub(super) fn is_below(&self, id: MemcgId, top: MemcgId) -> bool {
        self.tree.exists(id) && self.tree.ancestors(id).any(|at| at == top)
    }

    /// The next memcg of a walk.
    fn next_of(&mut self, reclaimer: &mut Reclaimer) -> Option<MemcgId> {
        let target = reclaimer.target;
        match &mut reclaimer.walk {
            Walk::Lru(walk) => walk.next(&mut self.memcg_lru),
            Walk::Shared(walk) => self.shared.next(&self.tree, target, walk),
            Walk::All(ids) => ids.find(|id| self.is_below(*id, target)),
        }
    }

    /// Shrinks one memcg of a walk.
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
                let before = before.map(|(part, _)| part);
                let (op, shrunk) = self.shrink_more((id, before), (rest, priority), memory);
                if !shrunk.bailed_out {
                    walk.pend(op);
                }
                self.release_if_empty(id);
                return (shrunk, Share::BySize);
            }
            // Whole walks compute from the top down; but for exact ones, which may have been elsewhere in between.
            Walk::All(_) if !is_exact => self.tree.calculate_protection(target, id),
            Walk::All(_) | Walk::Shared(_) => self.tree.calculate_path(target, id),
        }
        // A pass by the hierarchy has the whole aim each time, whatever others gave: the classic lists
        // stop at it, and count from nought. Only batches larger than the kernel's must not overshoot.
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

    /// Ends a reclaimer, wherever it is; what it got.
    pub fn finish(&mut self, mut reclaimer: Reclaimer) -> Shrunk {
        reclaimer.end_visit();
        if let Walk::Lru(walk) = reclaimer.walk {
            walk.finish(&mut self.memcg_lru);
        }
        reclaimer.got
    }

    /// Goes on with one reclaimer alone until it has ended (true) or memory wants a pause.
    pub(super) fn drive<M: Memory>(&mut self, reclaimer: &mut Reclaimer, memory: &mut M) -> bool {
        while self.step(reclaimer, memory).is_some() {
            if reclaimer.visit.is_some() || memory.wants_pause() {
                return false;
            }
        }
        true
    }

    /// All of `requests` at once, as threads would that run short together, with rising priority.
    /// `pick` is given how many are still at it, and says which goes next (modulo that number).
    /// Returns what each got.
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
        if target == MemcgId::ROOT && self.config.global == GlobalReclaim::MemcgLru {
            self.initial_priority(nr)
        } else {
            DEF_PRIORITY
        }
    }
}

#[cfg(test)]
mod tests;
