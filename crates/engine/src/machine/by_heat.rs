//! Reclaim of the root by heat levels: what a walk does with each memcg, and its rounds.
//! spec: heat-level.md.
//!
//! Invariants (heat-level.md 6): I2 a round reclaims from no memcg whose heat is above the level of
//! the round; I3 nor from a memcg below min; and from one below low only after a reclaim that
//! reclaimed nothing.

use super::{Machine, ReclaimRequest};
use crate::active_inactive::Prepared;
use crate::lru_gen::DEF_PRIORITY;
use crate::lruvec::Lruvec;
use crate::memcg::{HeatLevel, HeatVisit, MemcgEvent, MemcgHeat, MemcgId, SharedWalk};
use crate::units::Pages;
use crate::vmscan::{Memory, ScanControl, Share, Shrunk};
use crate::vmstat::VmEvent;
use alloc::vec::IntoIter;

/// A walk over all memcgs in up to three rounds: cold, warm, hot.
#[derive(Debug)]
pub(super) struct HeatWalk {
    /// The level of the present round.
    level: HeatLevel,
    /// Whether this round has skipped a memcg above its level, so that another round follows.
    has_hotter: bool,
    round: Round,
    /// Whether the walk ends as soon as the request is met.
    ends_early: bool,
}

#[derive(Debug)]
enum Round {
    Shared(SharedWalk),
    /// All memcgs, from the first one.
    All(IntoIter<MemcgId>),
}

impl HeatWalk {
    pub(super) const fn ends_early(&self) -> bool {
        self.ends_early
    }
}

/// Parameters of a walk by heat levels, the same for all memcgs.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeatPass {
    pub(super) request: ReclaimRequest,
    pub(super) priority: u32,
    /// Whether to deactivate pages even if the inactive list is not low (classic policy).
    pub(super) deactivate: bool,
    /// Whether to take pages from memcgs below memory.low.
    pub(super) low: bool,
    /// Decisions made when the walk began; `None` under the multi-gen LRU.
    pub(super) prepared: Option<Prepared>,
}

impl Machine {
    /// The heat of all memcgs, read-only.
    #[must_use]
    pub const fn memcg_heat(&self) -> &MemcgHeat {
        &self.heat
    }

    /// Reclaims from the root by heat levels, with rising pressure until the request is met.
    pub fn reclaim_by_heat<M: Memory>(
        &mut self,
        request: ReclaimRequest,
        memory: &mut M,
    ) -> Shrunk {
        let pass = self.heat_pass(request, memory);
        self.run_pass(pass, memory)
    }

    /// Returns the priority at which reclaim by heat levels begins.
    /// spec: heat-level.md 4.
    pub(super) fn heat_priority(&mut self, nr: Pages) -> u32 {
        match self.lruvec(MemcgId::ROOT).classic() {
            None => self.initial_priority(nr),
            Some(_) => DEF_PRIORITY,
        }
    }

    /// Begins a walk. Its rounds begin at the first memcg if `is_full`, else where other walks
    /// ended.
    pub(super) fn heat_walk(&self, is_full: bool, is_exact: bool) -> HeatWalk {
        let is_classic = self.lruvec(MemcgId::ROOT).classic().is_some();
        HeatWalk {
            level: HeatLevel::Cold,
            has_hotter: false,
            round: self.heat_round(is_full),
            ends_early: !is_full || !is_classic || is_exact,
        }
    }

    fn heat_round(&self, is_full: bool) -> Round {
        match is_full {
            true => Round::All(self.tree.pre_order(MemcgId::ROOT).into_iter()),
            false => Round::Shared(SharedWalk::default()),
        }
    }

    /// Returns the next memcg of the present round or, if hotter ones were skipped, of the next
    /// round; `None` after the last round.
    pub(super) fn next_by_heat(&mut self, walk: &mut HeatWalk) -> Option<MemcgId> {
        loop {
            let next = match &mut walk.round {
                Round::Shared(shared) => self.shared.next(&self.tree, MemcgId::ROOT, shared),
                Round::All(ids) => ids.find(|id| self.tree.exists(*id)),
            };
            if next.is_some() {
                return next;
            }
            walk.level = walk.level.hotter().filter(|_| walk.has_hotter)?;
            walk.has_hotter = false;
            walk.round = self.heat_round(matches!(walk.round, Round::All(_)));
        }
    }

    /// Reclaims from one memcg of a walk, if its protection, its heat and its size allow that.
    /// `before`: what this visit reclaimed before its last pause; `None` at its beginning. Returns
    /// what was reclaimed now.
    pub(super) fn shrink_by_heat<M: Memory>(
        &mut self,
        (id, before): (MemcgId, Option<Shrunk>),
        (walk, pass): (&mut HeatWalk, HeatPass),
        memory: &mut M,
    ) -> Shrunk {
        let HeatPass {
            request, priority, ..
        } = pass;
        self.tree.calculate_path(MemcgId::ROOT, id);
        if self.tree.below_min(MemcgId::ROOT, id) {
            return Shrunk::default();
        }
        let is_low = self.tree.below_low(MemcgId::ROOT, id);
        if is_low && !pass.low {
            return Shrunk {
                low_skipped: true,
                ..Shrunk::default()
            };
        }
        if before.is_none() {
            if self.heat.level(id, request.now) > walk.level {
                walk.has_hotter = true;
                return Shrunk::default();
            }
            let swappiness = self.swappiness(id, request.swappiness);
            let has_generations = self.lruvec(id).multi_gen().is_some();
            if has_generations && !self.is_sizable(id, swappiness, priority) {
                return Shrunk::default();
            }
            if is_low {
                self.tree.event(id, MemcgEvent::Low);
            }
        }
        let sc = ScanControl {
            root: true,
            share: Share::BySize,
            force_deactivate: pass.deactivate,
            prepared: pass.prepared,
            protection: self.protection((MemcgId::ROOT, id), pass.low),
            before,
            ..self.scan_control(id, request, priority)
        };
        let mut shrunk = self.shrink((MemcgId::ROOT, id), &sc, memory);
        shrunk.low_skipped = sc.protection.is_some_and(|protection| protection.by_low);
        if !shrunk.bailed_out {
            let mut all = before.unwrap_or_default();
            all.add(shrunk);
            self.note_heat(id, all, request);
        }
        self.release_if_empty(id);
        shrunk
    }

    /// Updates the heat of `id` after a visit with the result `all`.
    fn note_heat(&mut self, id: MemcgId, all: Shrunk, request: ReclaimRequest) {
        let visit = HeatVisit {
            tried: all.tried(),
            reclaimed: all.reclaimed,
            refaults: refaults(self.lruvec(id)),
        };
        self.heat.visited(id, visit, request.now);
    }
}

/// Returns the number of workingset activations of a memcg's own pages, anon and file.
fn refaults(lruvec: &Lruvec) -> u64 {
    let events = [
        VmEvent::WorkingsetActivateAnon,
        VmEvent::WorkingsetActivateFile,
    ];
    events.map(|event| lruvec.stat().get(event)).iter().sum()
}

#[cfg(test)]
mod tests;
