//! Reclaims in slices: between two of them whoever reclaims does something else, and tenants, pages and limits may change.
//!
//! Invariants: a reclaim that is resumed before anything else has happened takes the pages that it would have taken without
//! bailing out, in the same order: by the memcg LRU it stands at the same entry, by the hierarchy at the same memcg. What is
//! protected when it goes on is spared from then on.

use super::by_age::ByAge;
use super::passes::Pass;
use super::{GlobalReclaim, Machine, ReclaimRequest};
use crate::memcg::{MAX_RECLAIM_RETRIES, MemcgId};
use crate::units::{Millis, Pages};
use crate::vmscan::{Memory, SWAP_CLUSTER_MAX, ScanReason, Shrunk};

/// A reclaim that is under way. Dropped, it has ended.
#[derive(Debug)]
pub struct Ongoing {
    target: MemcgId,
    request: ReclaimRequest,
    kind: Kind,
    got: Pages,
}

#[derive(Debug)]
enum Kind {
    /// One pass.
    Once(Option<Pass>),
    /// Passes until it is enough, or so many more got nothing.
    Proactive { retries: u32, pass: Option<Pass> },
    /// What memory finds old enough, of the target's own pages alone.
    ByAge(Option<ByAge>),
}

impl Ongoing {
    const fn new(target: MemcgId, request: ReclaimRequest, kind: Kind) -> Self {
        Self {
            target,
            request,
            kind,
            got: Pages(0),
        }
    }

    /// As [`Machine::proactive_reclaim`].
    #[must_use]
    pub const fn proactive(target: MemcgId, request: ReclaimRequest) -> Self {
        let request = ReclaimRequest {
            reason: ScanReason::Proactive,
            ..request
        };
        let (retries, pass) = (MAX_RECLAIM_RETRIES, None);
        Self::new(target, request, Kind::Proactive { retries, pass })
    }

    /// One pass: as [`Machine::reclaim_root`] of the root by the memcg LRU, else as [`Machine::reclaim_subtree`].
    #[must_use]
    pub const fn once(target: MemcgId, request: ReclaimRequest) -> Self {
        Self::new(target, request, Kind::Once(None))
    }

    /// As [`Machine::reclaim_own_by_age`].
    #[must_use]
    pub const fn own_by_age(target: MemcgId, most: Pages, now: Millis) -> Self {
        let request = ReclaimRequest {
            reason: ScanReason::Proactive,
            nr: most,
            swappiness: None,
            now,
        };
        Self::new(target, request, Kind::ByAge(None))
    }

    /// Whose memory it takes.
    #[must_use]
    pub const fn target(&self) -> MemcgId {
        self.target
    }

    /// What it got in passes that are over.
    #[must_use]
    pub const fn reclaimed(&self) -> Pages {
        self.got
    }
}

impl Machine {
    /// Goes on with a reclaim until it is over (true) or memory wants a pause. Its target is there: of one that was removed a
    /// reclaim is dropped.
    pub fn resume<M: Memory>(
        &mut self,
        ongoing: &mut Ongoing,
        now: Millis,
        memory: &mut M,
    ) -> bool {
        // What memory said of swap in the last slice holds in this one.
        if self.no_swap == Some(ongoing.request.now) {
            self.no_swap = Some(now);
        }
        ongoing.request.now = now;
        let (target, request) = (ongoing.target, ongoing.request);
        match &mut ongoing.kind {
            Kind::ByAge(begun) => {
                let fresh = || ByAge::own(target, request.nr);
                let mut by_age = begun.take().unwrap_or_else(fresh);
                let is_over = self.go_on_by_age(&mut by_age, now, memory);
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

    /// A slice of the pass that is under way, or of a new one; what the pass got if it is over.
    fn slice<M: Memory>(
        &mut self,
        pass: &mut Option<Pass>,
        (target, request): (MemcgId, ReclaimRequest),
        memory: &mut M,
    ) -> Option<Shrunk> {
        let by_lru = target == MemcgId::ROOT && self.config.global == GlobalReclaim::MemcgLru;
        let mut one = match pass.take() {
            Some(pass) => pass,
            None if by_lru => self.lru_pass(request, memory),
            None => self.hierarchy_pass(target, request, memory),
        };
        one.set_now(request.now);
        let got = self.go_on(&mut one, memory);
        if got.is_none() {
            *pass = Some(one);
        }
        got
    }

    /// Pass after pass, until it is enough or too many got nothing.
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
