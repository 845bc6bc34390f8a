//! Reclaims in slices: between two slices the caller does other work, and tenants, pages and limits
//! may change.
//!
//! Invariants: a reclaim that is resumed before anything else has happened takes the same pages, in
//! the same order, as it would have taken without the pause: it goes on at the same entry of the
//! memcg LRU, or at the same memcg of the hierarchy. Pages that are protected when it is resumed
//! are not taken from then on.

use super::by_age::ByAge;
use super::passes::Pass;
use super::{GlobalReclaim, Machine, ReclaimRequest};
use crate::memcg::{MAX_RECLAIM_RETRIES, MemcgId};
use crate::units::{Millis, Pages};
use crate::vmscan::{Memory, SWAP_CLUSTER_MAX, ScanReason, Shrunk};
use crate::word::NodeId;

/// A reclaim that is under way. Dropping it ends the reclaim.
#[derive(Debug)]
pub struct Ongoing {
    target: MemcgId,
    request: ReclaimRequest,
    kind: Kind,
    node: Option<NodeId>,
    got: Pages,
}

#[derive(Debug)]
enum Kind {
    /// One pass; `None` before it has begun.
    Once(Option<Pass>),
    /// Passes until enough is reclaimed, or until `retries` more passes reclaimed nothing.
    Proactive { retries: u32, pass: Option<Pass> },
    /// Reclaim of the target's own pages that memory finds old enough.
    ByAge(Option<ByAge>),
}

impl Ongoing {
    const fn new(target: MemcgId, request: ReclaimRequest, kind: Kind) -> Self {
        Self {
            target,
            request,
            kind,
            node: None,
            got: Pages(0),
        }
    }

    /// Begins what [`Machine::proactive_reclaim`] does.
    #[must_use]
    pub const fn proactive(target: MemcgId, request: ReclaimRequest) -> Self {
        let request = ReclaimRequest {
            reason: ScanReason::Proactive,
            ..request
        };
        let (retries, pass) = (MAX_RECLAIM_RETRIES, None);
        Self::new(target, request, Kind::Proactive { retries, pass })
    }

    /// Begins one pass: for the root, by the configured choice, what [`Machine::reclaim_root`] or
    /// [`Machine::reclaim_by_heat`] does, else
    /// what [`Machine::reclaim_subtree`] does.
    #[must_use]
    pub const fn once(target: MemcgId, request: ReclaimRequest) -> Self {
        Self::new(target, request, Kind::Once(None))
    }

    /// Begins what [`Machine::reclaim_own_by_age`] does.
    #[must_use]
    pub const fn own_by_age(target: MemcgId, most: Pages, now: Millis) -> Self {
        let request = ReclaimRequest::new(ScanReason::Proactive, most, now);
        Self::new(target, request, Kind::ByAge(None))
    }

    /// Takes pages of one memory node alone; `None` for all. No effect on a reclaim by age, and on
    /// classic lists.
    #[must_use]
    pub fn on_node(self, node: Option<NodeId>) -> Self {
        Self { node, ..self }
    }

    /// Returns the memcg that is reclaimed from.
    #[must_use]
    pub const fn target(&self) -> MemcgId {
        self.target
    }

    /// Returns the pages reclaimed in finished passes.
    #[must_use]
    pub const fn reclaimed(&self) -> Pages {
        self.got
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
        // If memory reported in the last slice that there is no swap, that holds in this one.
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
            Kind::ByAge(begun) => {
                let fresh = || ByAge::own(target, request.nr);
                let mut by_age = begun.take().unwrap_or_else(fresh);
                let is_over = self.go_on_by_age(&mut by_age, request.now, memory);
                ongoing.got = by_age.got.reclaimed;
                *begun = Some(by_age);
                is_over
            }
            Kind::Once(pass) => {
                let got = self.slice(pass, (target, request), memory);
                ongoing.got = got.map_or(Pages(0), |got| got.reclaimed);
                got.is_some()
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
        let mut one = match (pass.take(), self.choice_for(target)) {
            (Some(pass), _) => pass,
            (None, GlobalReclaim::MemcgLru) => self.lru_pass(request, memory),
            (None, GlobalReclaim::HeatLevel) => self.heat_pass(request, memory),
            (None, GlobalReclaim::Iterator) => self.hierarchy_pass(target, request, memory),
        };
        one.set_now(request.now);
        let got = self.go_on(&mut one, memory);
        if got.is_none() {
            *pass = Some(one);
        }
        got
    }

    /// Runs pass after pass, until enough is reclaimed or too many passes got nothing (true), or
    /// until `memory` wants a pause (false).
    fn retry<M: Memory>(&mut self, ongoing: &mut Ongoing, memory: &mut M) -> bool {
        let is_exact = self.is_exact(ScanReason::Proactive);
        let (target, request) = (ongoing.target, ongoing.request);
        let Kind::Proactive { retries, pass } = &mut ongoing.kind else {
            return true;
        };
        while pass.is_some() || ongoing.got < request.nr {
            let left = request.nr.less(ongoing.got);
            let nr = match is_exact {
                true => left,
                false => Pages((left.0 / 4).max(SWAP_CLUSTER_MAX)),
            };
            let part = ReclaimRequest { nr, ..request };
            let Some(got) = self.slice(pass, (target, part), memory) else {
                return false;
            };
            ongoing.got.0 += got.reclaimed.0;
            if got.reclaimed == Pages(0) {
                *retries -= 1;
                if *retries == 0 || got.no_swap {
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
