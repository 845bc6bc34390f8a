//! Passes: reclaim from a target at one priority after the other, with rising pressure, until
//! enough is reclaimed. A pass chooses tenants by the memcg LRU, by heat levels or by the
//! hierarchy.
//! spec: memcg-lru.md 4-6; heat-level.md 4; reclaim-control.md 2.2.
//!
//! Direct reclaim by the hierarchy continues where the previous one stopped, and ends once it has
//! reclaimed enough (`reclaimers.rs`). Background reclaim, memory.reclaim, and direct reclaim that
//! has reclaimed nothing make a full walk: they shrink every memcg at each priority before they
//! check whether that is enough. So with many tenants they overshoot. With batches larger than the
//! kernel's, memory.reclaim behaves as direct reclaim, a full walk ends once it has reclaimed
//! enough, and the request is divided among tenants by size (`sharing.rs`).
//!
//! Invariant: between two slices the machine keeps no state of a pass; dropping the [`Pass`] ends
//! it.

use core::iter::Rev;
use core::ops::RangeInclusive;

use super::iterator::ForceLevel;
use super::{Machine, ReclaimRequest, Reclaimer};
use crate::lru_gen::DEF_PRIORITY;
use crate::memcg::MemcgId;
use crate::units::{Millis, Pages};
use crate::vmscan::{Memory, ScanReason, Shrunk};

/// One reclaim request for a target, over all priorities.
#[derive(Debug)]
pub(super) struct Pass {
    target: MemcgId,
    request: ReclaimRequest,
    choice: TenantChoice,
    /// What soft-limit reclaim reclaimed before this pass, if by the hierarchy or by heat levels.
    from_soft_limit: Shrunk,
    /// What this pass reclaimed; by the memcg LRU including soft-limit reclaim.
    total: Shrunk,
    /// Priorities still to be tried.
    priorities: Rev<RangeInclusive<u32>>,
    reclaimer: Option<Reclaimer>,
    is_over: bool,
}

/// How a pass chooses tenants, and which tenants are protected at its present stage.
#[derive(Clone, Copy, Debug)]
enum TenantChoice {
    Lru { takes_below_low: bool },
    Hierarchy(ForceLevel),
    Heat(ForceLevel),
}

impl Pass {
    /// Sets the time at which the pass continues.
    pub(super) fn set_now(&mut self, now: Millis) {
        self.request.now = now;
        if let Some(reclaimer) = &mut self.reclaimer {
            reclaimer.set_now(now);
        }
    }

    fn has_enough(&self) -> bool {
        self.total.reclaimed >= self.request.nr
    }
}

impl Machine {
    /// Begins a pass over the root by the memcg LRU, after soft-limit reclaim.
    pub(super) fn lru_pass<M: Memory>(&mut self, request: ReclaimRequest, memory: &mut M) -> Pass {
        let total = self.soft_limit_reclaim(request, memory);
        let is_over = total.reclaimed >= request.nr;
        let first_priority = if is_over {
            0
        } else {
            self.initial_priority(request.nr)
        };
        Pass {
            target: MemcgId::ROOT,
            request,
            choice: TenantChoice::Lru {
                takes_below_low: !self.config.low_last,
            },
            from_soft_limit: Shrunk::default(),
            total,
            priorities: (0..=first_priority).rev(),
            reclaimer: None,
            is_over,
        }
    }

    /// Begins a pass over any target by the hierarchy; over the root after soft-limit reclaim.
    pub(super) fn hierarchy_pass<M: Memory>(
        &mut self,
        target: MemcgId,
        request: ReclaimRequest,
        memory: &mut M,
    ) -> Pass {
        let from_soft_limit = match target == MemcgId::ROOT {
            true => self.soft_limit_reclaim(request, memory),
            false => Shrunk::default(),
        };
        let is_full = request.reason != ScanReason::Direct && !self.is_exact(request.reason);
        Pass {
            target,
            request: ReclaimRequest {
                nr: request.nr.less(from_soft_limit.reclaimed),
                ..request
            },
            choice: TenantChoice::Hierarchy(ForceLevel::new(is_full)),
            from_soft_limit,
            total: Shrunk::default(),
            priorities: (0..=DEF_PRIORITY).rev(),
            reclaimer: None,
            is_over: from_soft_limit.reclaimed > Pages(0)
                && from_soft_limit.reclaimed >= request.nr,
        }
    }

    /// Begins a pass over the root by heat levels, after soft-limit reclaim.
    pub(super) fn heat_pass<M: Memory>(&mut self, request: ReclaimRequest, memory: &mut M) -> Pass {
        let from_soft_limit = self.soft_limit_reclaim(request, memory);
        let nr = request.nr.less(from_soft_limit.reclaimed);
        let is_classic = self.lruvec(MemcgId::ROOT).classic().is_some();
        let is_full = request.reason == ScanReason::Background && !is_classic;
        Pass {
            target: MemcgId::ROOT,
            request: ReclaimRequest { nr, ..request },
            choice: TenantChoice::Heat(ForceLevel::new(is_full)),
            from_soft_limit,
            total: Shrunk::default(),
            priorities: (0..=self.heat_priority(nr)).rev(),
            reclaimer: None,
            is_over: from_soft_limit.reclaimed > Pages(0) && nr == Pages(0),
        }
    }

    /// Continues a pass until it has ended or `memory` wants a pause. Returns what the pass
    /// reclaimed if it has ended, else `None`.
    pub(super) fn go_on<M: Memory>(&mut self, pass: &mut Pass, memory: &mut M) -> Option<Shrunk> {
        while !pass.is_over {
            self.takes_below_low = !matches!(
                pass.choice,
                TenantChoice::Lru {
                    takes_below_low: false
                }
            );
            let has_ended = self.run_priorities(pass, memory);
            self.takes_below_low = true;
            if !has_ended {
                return None;
            }
            self.snapshot(pass.target);
            pass.is_over = !self.begin_round(pass);
        }
        let mut all = pass.from_soft_limit;
        all.add(pass.total);
        Some(all)
    }

    /// Runs a pass to its end, without pauses; returns what it reclaimed.
    pub(super) fn run_pass<M: Memory>(&mut self, mut pass: Pass, memory: &mut M) -> Shrunk {
        loop {
            if let Some(shrunk) = self.go_on(&mut pass, memory) {
                return shrunk;
            }
        }
    }

    /// Reclaims at one priority after the other, until enough is reclaimed or no priority remains.
    /// Returns false if `memory` wants a pause before that.
    fn run_priorities<M: Memory>(&mut self, pass: &mut Pass, memory: &mut M) -> bool {
        loop {
            if let Some(mut reclaimer) = pass.reclaimer.take() {
                if !self.drive(&mut reclaimer, memory) {
                    pass.reclaimer = Some(reclaimer);
                    return false;
                }
                pass.total.add(self.finish(reclaimer));
                if pass.has_enough() {
                    return true;
                }
            }
            if !self.tree.exists(pass.target) {
                return true;
            }
            let Some(priority) = pass.priorities.next() else {
                return true;
            };
            let request = pass.request;
            self.note_pressure(pass.target, (priority, request.reason), request.now);
            if self.is_worth_a_pass(request, priority) {
                let reclaimer = match pass.choice {
                    TenantChoice::Lru { .. } => {
                        let missing = request.nr.less(pass.total.reclaimed);
                        self.lru_reclaimer((request, priority), missing)
                    }
                    TenantChoice::Hierarchy(force) => {
                        self.forced_reclaimer(pass.target, (request, priority), force)
                    }
                    TenantChoice::Heat(force) => self.heat_reclaimer(request, priority, force),
                };
                pass.reclaimer = Some(reclaimer.after(pass.total.reclaimed));
            }
        }
    }

    /// Begins the next harder stage of a pass; returns false if there is none.
    fn begin_round(&mut self, pass: &mut Pass) -> bool {
        if !self.tree.exists(pass.target) {
            return false;
        }
        match &mut pass.choice {
            TenantChoice::Lru {
                takes_below_low: true,
            } => return false,
            TenantChoice::Lru { takes_below_low } => {
                *takes_below_low = true;
                // As in reclaim by the hierarchy, memcgs below low are reclaimed from only if
                // nothing was reclaimed and some memcgs were skipped. A caller that got only a part
                // requests again, and then gets what the other memcgs still have.
                let has_reclaimed = pass.total.reclaimed > Pages(0);
                if has_reclaimed || !pass.total.low_skipped || pass.has_enough() {
                    return false;
                }
                pass.priorities = (0..=self.initial_priority(pass.request.nr)).rev();
            }
            TenantChoice::Hierarchy(force) => {
                if pass.total.reclaimed > Pages(0) || !force.escalate(&pass.total) {
                    return false;
                }
                pass.total = Shrunk::default();
                pass.priorities = (0..=DEF_PRIORITY).rev();
            }
            TenantChoice::Heat(force) => {
                if pass.total.reclaimed > Pages(0) || !force.escalate(&pass.total) {
                    return false;
                }
                pass.total = Shrunk::default();
                pass.priorities = (0..=self.heat_priority(pass.request.nr)).rev();
            }
        }
        true
    }
}
