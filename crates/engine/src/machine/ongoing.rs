//! Reclaims in slices: between two slices the caller can do other work, and tenants, pages and
//! limits may change.
//!
//! Invariants: a pause during which nothing changes has no effect on which pages are reclaimed, nor
//! on their order: the reclaim continues at the same entry of the memcg LRU, or at the same memcg
//! of the hierarchy. Pages that became protected during a pause are not reclaimed after it.

use super::by_age::ByAge;
use super::passes::Pass;
use super::{GlobalReclaim, Machine, ReclaimRequest};
use crate::memcg::{MAX_RECLAIM_RETRIES, MemcgId};
use crate::units::{Millis, Pages};
use crate::vmscan::{Memory, SWAP_CLUSTER_MAX, ScanReason, Shrunk};
use crate::word::NodeId;

/// State of a reclaim between two slices. Dropping this value ends the reclaim.
#[derive(Debug)]
pub struct Ongoing {
    target: MemcgId,
    request: ReclaimRequest,
    kind: Kind,
    node: Option<NodeId>,
    reclaimed: Pages,
}

#[derive(Debug)]
enum Kind {
    /// One pass; `None` before it has begun.
    Once(Option<Pass>),
    /// Passes until enough is reclaimed, or until `retries` more passes reclaimed nothing.
    Proactive { retries: u32, pass: Option<Pass> },
    /// Reclaim by age: of the target's own pages that `memory` finds old enough.
    ByAge(Option<ByAge>),
}

impl Ongoing {
    const fn new(target: MemcgId, request: ReclaimRequest, kind: Kind) -> Self {
        Self {
            target,
            request,
            kind,
            node: None,
            reclaimed: Pages(0),
        }
    }

    /// Begins a [`Machine::proactive_reclaim`] in slices.
    #[must_use]
    pub const fn proactive(target: MemcgId, request: ReclaimRequest) -> Self {
        let request = ReclaimRequest {
            reason: ScanReason::Proactive,
            ..request
        };
        let (retries, pass) = (MAX_RECLAIM_RETRIES, None);
        Self::new(target, request, Kind::Proactive { retries, pass })
    }

    /// Begins one pass in slices. For the root the configuration decides between
    /// [`Machine::reclaim_root`], [`Machine::reclaim_by_heat`] and [`Machine::reclaim_subtree`];
    /// for other targets it is [`Machine::reclaim_subtree`].
    #[must_use]
    pub const fn once(target: MemcgId, request: ReclaimRequest) -> Self {
        Self::new(target, request, Kind::Once(None))
    }

    /// Begins a [`Machine::reclaim_own_by_age`] in slices.
    #[must_use]
    pub const fn own_by_age(target: MemcgId, most: Pages, now: Millis) -> Self {
        let request = ReclaimRequest::new(ScanReason::Proactive, most, now);
        Self::new(target, request, Kind::ByAge(None))
    }

    /// Restricts the reclaim to pages of one memory node; `None` for all nodes. Has no effect on a
    /// reclaim by age, nor with classic lists.
    #[must_use]
    pub fn on_node(self, node: Option<NodeId>) -> Self {
        Self { node, ..self }
    }

    /// Returns the memcg from whose subtree pages are reclaimed.
    #[must_use]
    pub const fn target(&self) -> MemcgId {
        self.target
    }

    /// Returns the number of pages reclaimed in finished passes.
    #[must_use]
    pub const fn reclaimed(&self) -> Pages {
        self.reclaimed
    }
}

impl Machine {
    /// Continues a reclaim. Returns true when it has ended, false when `memory` wants a pause. The
    /// target must exist: the caller drops a reclaim when its target is removed.
    pub fn resume<M: Memory>(
        &mut self,
        ongoing: &mut Ongoing,
        now: Millis,
        memory: &mut M,
    ) -> bool {
        // A report of the last slice that no swap is free holds in this slice, too.
        if self.no_swap == Some(ongoing.request.now) {
            self.no_swap = Some(now);
        }
        ongoing.request.now = now;
        self.node = ongoing.node;
        let is_over = self.go_on_with(ongoing, memory);
        self.node = None;
        is_over
    }

    fn go_on_with<M: Memory>(&mut self, ongoing: &mut Ongoing, memory: &mut M) -> bool {
        let (target, request) = (ongoing.target, ongoing.request);
        match &mut ongoing.kind {
            Kind::ByAge(by_age_state) => {
                let fresh = || ByAge::own(target, request.nr);
                let mut by_age = by_age_state.take().unwrap_or_else(fresh);
                let is_over = self.go_on_by_age(&mut by_age, request.now, memory);
                ongoing.reclaimed = by_age.total.reclaimed;
                *by_age_state = Some(by_age);
                is_over
            }
            Kind::Once(pass) => {
                let shrunk = self.slice(pass, (target, request), memory);
                ongoing.reclaimed = shrunk.map_or(Pages(0), |shrunk| shrunk.reclaimed);
                shrunk.is_some()
            }
            Kind::Proactive { .. } => self.retry(ongoing, memory),
        }
    }

    /// Runs a slice of the present pass, or of a new one. Returns what the pass reclaimed if it has
    /// ended, else `None`.
    fn slice<M: Memory>(
        &mut self,
        pass: &mut Option<Pass>,
        (target, request): (MemcgId, ReclaimRequest),
        memory: &mut M,
    ) -> Option<Shrunk> {
        let mut current = match (pass.take(), self.choice_for(target)) {
            (Some(pass), _) => pass,
            (None, GlobalReclaim::MemcgLru) => self.lru_pass(request, memory),
            (None, GlobalReclaim::HeatLevel) => self.heat_pass(request, memory),
            (None, GlobalReclaim::Iterator) => self.hierarchy_pass(target, request, memory),
        };
        current.set_now(request.now);
        let shrunk = self.go_on(&mut current, memory);
        if shrunk.is_none() {
            *pass = Some(current);
        }
        shrunk
    }

    /// Runs one pass after the other. Returns true when enough is reclaimed or too many passes
    /// reclaimed nothing, false when `memory` wants a pause.
    fn retry<M: Memory>(&mut self, ongoing: &mut Ongoing, memory: &mut M) -> bool {
        let is_exact = self.is_exact(ScanReason::Proactive);
        let (target, request) = (ongoing.target, ongoing.request);
        let Kind::Proactive { retries, pass } = &mut ongoing.kind else {
            return true;
        };
        while pass.is_some() || ongoing.reclaimed < request.nr {
            let missing = request.nr.less(ongoing.reclaimed);
            let nr = match is_exact {
                true => missing,
                false => Pages((missing.0 / 4).max(SWAP_CLUSTER_MAX)),
            };
            let part = ReclaimRequest { nr, ..request };
            let Some(shrunk) = self.slice(pass, (target, part), memory) else {
                return false;
            };
            ongoing.reclaimed.0 += shrunk.reclaimed.0;
            if shrunk.reclaimed == Pages(0) {
                *retries -= 1;
                if *retries == 0 || shrunk.no_swap {
                    return true;
                }
            }
            if !self.tree.exists(target) {
                return true;
            }
            if memory.wants_pause() {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
