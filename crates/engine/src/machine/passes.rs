//! Passes over a target with rising pressure, until it is enough: by the memcg LRU or by the hierarchy. spec: memcg-lru.md
//! 4-6; reclaim-control.md 2.2.
//!
//! Direct reclaim by the hierarchy continues where the last one stopped and ends once its aim is reached
//! (`reclaimers.rs`). A full walk (background, memory.reclaim, and direct reclaim that got nothing)
//! shrinks every memcg at each priority before it looks at the aim: that is what makes it overshoot
//! with many tenants. With batches larger than the kernel's, memory.reclaim goes as direct reclaim, a full walk ends at the
//! aim, and it is shared out by size (`sharing.rs`).
//!
//! Invariant: between two slices nothing of it is in the machine: whoever drops it ends it.

use core::iter::Rev;
use core::ops::RangeInclusive;

use super::iterator::Force;
use super::{Machine, ReclaimRequest, Reclaimer};
use crate::lru_gen::DEF_PRIORITY;
use crate::memcg::MemcgId;
use crate::units::{Millis, Pages};
use crate::vmscan::{Memory, ScanReason, Shrunk};

/// One reclaim of a target for one aim, at some priority.
#[derive(Debug)]
pub(super) struct Pass {
    target: MemcgId,
    request: ReclaimRequest,
    way: Way,
    /// What soft limits gave before, by the hierarchy.
    first: Shrunk,
    /// What this way gave.
    got: Shrunk,
    /// Those that are left.
    priorities: Rev<RangeInclusive<u32>>,
    reclaimer: Option<Reclaimer>,
    is_over: bool,
}

/// How tenants are chosen, and what is spared in this round.
#[derive(Clone, Copy, Debug)]
enum Way {
    Lru { low_gives: bool },
    Hierarchy(Force),
}

impl Pass {
    /// It goes on at another time.
    pub(super) fn set_now(&mut self, now: Millis) {
        self.request.now = now;
        if let Some(reclaimer) = &mut self.reclaimer {
            reclaimer.set_now(now);
        }
    }

    fn has_enough(&self) -> bool {
        self.got.reclaimed >= self.request.nr
    }
}

impl Machine {
    /// Of the root by the memcg LRU, after those above their soft limit.
    pub(super) fn lru_pass<M: Memory>(&mut self, request: ReclaimRequest, memory: &mut M) -> Pass {
        let got = self.soft_limit_reclaim(request, memory);
        let is_over = got.reclaimed >= request.nr;
        let first = if is_over {
            0
        } else {
            self.initial_priority(request.nr)
        };
        Pass {
            target: MemcgId::ROOT,
            request,
            way: Way::Lru {
                low_gives: !self.config.low_last,
            },
            first: Shrunk::default(),
            got,
            priorities: (0..=first).rev(),
            reclaimer: None,
            is_over,
        }
    }

    /// Of any target by the hierarchy; of the root after those above their soft limit.
    pub(super) fn hierarchy_pass<M: Memory>(
        &mut self,
        target: MemcgId,
        request: ReclaimRequest,
        memory: &mut M,
    ) -> Pass {
        let first = match target == MemcgId::ROOT {
            true => self.soft_limit_reclaim(request, memory),
            false => Shrunk::default(),
        };
        let is_full = request.reason != ScanReason::Direct && !self.is_exact(request.reason);
        Pass {
            target,
            request: ReclaimRequest {
                nr: request.nr.less(first.reclaimed),
                ..request
            },
            way: Way::Hierarchy(Force::new(is_full)),
            first,
            got: Shrunk::default(),
            priorities: (0..=DEF_PRIORITY).rev(),
            reclaimer: None,
            is_over: first.reclaimed > Pages(0) && first.reclaimed >= request.nr,
        }
    }

    /// Goes on with a pass until it is over or memory wants a pause; what it got if it is over.
    pub(super) fn go_on<M: Memory>(&mut self, pass: &mut Pass, memory: &mut M) -> Option<Shrunk> {
        while !pass.is_over {
            self.low_gives = !matches!(pass.way, Way::Lru { low_gives: false });
            let has_risen = self.rise(pass, memory);
            self.low_gives = true;
            if !has_risen {
                return None;
            }
            self.snapshot(pass.target);
            pass.is_over = !self.begin_round(pass);
        }
        let mut all = pass.first;
        all.add(pass.got);
        Some(all)
    }

    /// All of a pass.
    pub(super) fn run_pass<M: Memory>(&mut self, mut pass: Pass, memory: &mut M) -> Shrunk {
        loop {
            if let Some(got) = self.go_on(&mut pass, memory) {
                return got;
            }
        }
    }

    /// Goes on with rising pressure until it is enough or there is no higher one; false where it bailed out.
    fn rise<M: Memory>(&mut self, pass: &mut Pass, memory: &mut M) -> bool {
        loop {
            if let Some(mut reclaimer) = pass.reclaimer.take() {
                if !self.drive(&mut reclaimer, memory) {
                    pass.reclaimer = Some(reclaimer);
                    return false;
                }
                pass.got.add(self.finish(reclaimer));
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
                let reclaimer = match pass.way {
                    Way::Lru { .. } => self.lru_reclaimer(request, priority),
                    Way::Hierarchy(force) => {
                        self.forced_reclaimer(pass.target, (request, priority), force)
                    }
                };
                pass.reclaimer = Some(reclaimer.after(pass.got.reclaimed));
            }
        }
    }

    /// Whether there is a harder round than the one that is over, which has begun then.
    fn begin_round(&mut self, pass: &mut Pass) -> bool {
        if !self.tree.exists(pass.target) {
            return false;
        }
        match &mut pass.way {
            Way::Lru { low_gives: true } => return false,
            Way::Lru { low_gives } => {
                *low_gives = true;
                // As by the hierarchy: those below low give to a reclaim that got nothing, and only where they are whom it
                // passed by. Whoever got a part asks again, and gets what the others have left.
                let came = pass.got.reclaimed > Pages(0);
                if came || !pass.got.low_skipped || pass.has_enough() {
                    return false;
                }
                pass.priorities = (0..=self.initial_priority(pass.request.nr)).rev();
            }
            Way::Hierarchy(force) => {
                if pass.got.reclaimed > Pages(0) || !force.rise(&pass.got) {
                    return false;
                }
                pass.got = Shrunk::default();
                pass.priorities = (0..=DEF_PRIORITY).rev();
            }
        }
        true
    }
}
