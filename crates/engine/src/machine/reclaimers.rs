//! Several reclaimers at work at once, each a memcg at a time; whoever drives them says who is next.
//! spec: memcg-lru.md 5, 6; reclaim-control.md 5.3.
//!
//! By the memcg LRU each starts at a random bin; by the hierarchy they share a position, and together
//! go round once. A single reclaimer is one of these, driven to its end.
//!
//! Invariants: a reclaimer holds nothing between two steps, so that tenants may come, move and go
//! meanwhile; it stops once its aim is reached; by the hierarchy no memcg is visited twice in a round.

use super::iterator::{Force, NodePass};
use super::{GlobalReclaim, Machine, ReclaimRequest};
use crate::active_inactive::Prepared;
use crate::lru_gen::DEF_PRIORITY;
use crate::memcg::{MemcgId, MemcgWalk, SharedWalk};
use crate::units::Pages;
use crate::vmscan::{Memory, Shrunk};
use alloc::vec::Vec;

/// One reclaimer at one priority, between two memcgs.
#[derive(Debug)]
pub struct Reclaimer {
    target: MemcgId,
    request: ReclaimRequest,
    priority: u32,
    /// What was decided when it began (classic policy).
    prepared: Option<Prepared>,
    walk: Walk,
    /// Pages that its request got at earlier priorities: they count for its end.
    before: Pages,
    got: Shrunk,
}

#[derive(Debug)]
enum Walk {
    Lru(MemcgWalk),
    Shared(SharedWalk),
}

impl Reclaimer {
    pub(super) fn by_hierarchy(target: MemcgId, request: ReclaimRequest, priority: u32) -> Self {
        Self {
            target,
            request,
            priority,
            prepared: None,
            walk: Walk::Shared(SharedWalk::default()),
            before: Pages(0),
            got: Shrunk::default(),
        }
    }

    /// The same request got `before` pages at earlier priorities.
    pub(super) fn after(self, before: Pages) -> Self {
        Self { before, ..self }
    }

    /// What it got so far.
    #[must_use]
    pub const fn got(&self) -> Shrunk {
        self.got
    }

    /// What the request still lacks.
    const fn rest(&self) -> ReclaimRequest {
        let reclaimed = Pages(self.before.0 + self.got.reclaimed.0);
        ReclaimRequest {
            nr: self.request.nr.less(reclaimed),
            ..self.request
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
            self.hierarchy_reclaimer(target, request, priority)
        }
    }

    pub(super) fn hierarchy_reclaimer(
        &mut self,
        target: MemcgId,
        request: ReclaimRequest,
        priority: u32,
    ) -> Reclaimer {
        Reclaimer {
            prepared: self.prepare(target, (request, priority), false),
            ..Reclaimer::by_hierarchy(target, request, priority)
        }
    }

    pub(super) fn lru_reclaimer(&mut self, request: ReclaimRequest, priority: u32) -> Reclaimer {
        Reclaimer {
            walk: Walk::Lru(MemcgWalk::new(&mut self.memcg_lru)),
            ..Reclaimer::by_hierarchy(MemcgId::ROOT, request, priority)
        }
    }

    /// Reclaims one memcg more and says which; `None` when the aim is reached or the walk is over.
    pub fn step<M: Memory>(
        &mut self,
        reclaimer: &mut Reclaimer,
        memory: &mut M,
    ) -> Option<MemcgId> {
        let rest = reclaimer.rest();
        let enough = reclaimer.got.visited > 0 && rest.nr == Pages(0);
        if enough || !self.tree.exists(reclaimer.target) {
            return None;
        }
        let (priority, target) = (reclaimer.priority, reclaimer.target);
        // A pass by the hierarchy has the whole aim each time, whatever others gave: the classic lists
        // stop at it, and count from nought. Only batches larger than the kernel's must not overshoot.
        let is_exact = self.is_exact(reclaimer.request.reason);
        let aim = if is_exact { rest } else { reclaimer.request };
        let (id, shrunk) = match &mut reclaimer.walk {
            Walk::Lru(walk) => {
                let id = walk.next(&mut self.memcg_lru)?;
                let (op, shrunk) = self.shrink_one(id, rest, priority, memory);
                walk.pend(op);
                self.release_if_empty(id);
                (id, shrunk)
            }
            Walk::Shared(walk) => {
                let id = self.shared.next(&self.tree, target, walk)?;
                self.tree.calculate_path(target, id);
                let pass = NodePass {
                    target,
                    request: aim,
                    force: Force::default(),
                    priority,
                    prepared: reclaimer.prepared,
                };
                (id, self.shrink_child(id, pass, memory))
            }
        };
        reclaimer.got.visited += 1;
        reclaimer.got.add(shrunk);
        Some(id)
    }

    /// Ends a reclaimer, wherever it is; what it got.
    pub fn finish(&mut self, reclaimer: Reclaimer) -> Shrunk {
        if let Walk::Lru(walk) = reclaimer.walk {
            walk.finish(&mut self.memcg_lru);
        }
        reclaimer.got
    }

    /// One reclaimer alone, at one priority.
    pub(super) fn run_reclaimer<M: Memory>(
        &mut self,
        mut reclaimer: Reclaimer,
        memory: &mut M,
    ) -> Shrunk {
        while self.step(&mut reclaimer, memory).is_some() {}
        self.finish(reclaimer)
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
