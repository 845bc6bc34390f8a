//! Charging pages under memory.max: reclaims from the memcg whose limit would be exceeded, and
//! fails if that frees too little.
//! spec: reclaim-control.md 1.
//!
//! Invariant: after a success, neither the charged memcg nor any above it exceeds its memory.max;
//! after a failure, the event OOM was counted once.

use super::{Machine, ReclaimRequest};
use crate::memcg::{MAX_RECLAIM_RETRIES, MemcgEvent, MemcgId};
use crate::units::{Millis, Pages};
use crate::vmscan::{Memory, SWAP_CLUSTER_MAX, ScanReason};

/// Reclaim from the memcg `at` could not free enough: a process there must be killed, or the charge
/// must fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OomAt {
    /// The memcg whose memory.max would be exceeded.
    pub at: MemcgId,
}

impl Machine {
    /// Reclaims until `nr` more pages of `id` fit below the memory.max of `id` and of every memcg
    /// above it. Makes up to 16 reclaims, and drains the stocks after the first. Counts the event
    /// MAX once for each memcg whose memory.max is in the way. (The kernel counts MAX at each
    /// retry.)
    ///
    /// # Errors
    /// [`OomAt`] if the pages do not fit; OOM is counted at that memcg.
    pub fn make_room<M: Memory>(
        &mut self,
        id: MemcgId,
        nr: Pages,
        now: Millis,
        memory: &mut M,
    ) -> Result<(), OomAt> {
        let Some(mut at) = self.first_over(id, nr) else {
            return Ok(());
        };
        self.tree.event(at, MemcgEvent::Max);
        for attempt in 0..MAX_RECLAIM_RETRIES {
            let usage = Pages(self.tree.get(at).usage().0 + nr.0);
            let want = usage.less(self.tree.get(at).limits().max.pages());
            let request = ReclaimRequest {
                reason: ScanReason::Direct,
                nr: want.max(Pages(SWAP_CLUSTER_MAX)),
                swappiness: None,
                now,
            };
            let shrunk = self.reclaim_subtree(at, request, memory);
            if attempt == 0 {
                self.tree.drain_stocks();
            }
            match self.first_over(id, nr) {
                None => return Ok(()),
                Some(next) if next == at && shrunk.reclaimed == Pages(0) => break,
                Some(next) => {
                    if next != at {
                        self.tree.event(next, MemcgEvent::Max);
                    }
                    at = next;
                }
            }
        }
        self.tree.event(at, MemcgEvent::Oom);
        Err(OomAt { at })
    }

    /// Returns the lowest memcg, from `id` up, whose memory.max `nr` more pages would exceed.
    fn first_over(&self, id: MemcgId, nr: Pages) -> Option<MemcgId> {
        self.tree.ancestors(id).find(|&id| {
            let memcg = self.tree.get(id);
            Pages(memcg.usage().0.saturating_add(nr.0)) > memcg.limits().max.pages()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Simple, machine, usage};
    use super::*;
    use crate::folio::{FolioId, FolioType};
    use crate::lruvec::FaultKind;
    use crate::memcg::{MemcgLimits, MemcgProfile};
    use crate::units::Limit;
    use crate::word::Flag;

    fn limit(machine: &mut Machine, id: MemcgId, pages: u64) {
        let max = Limit::of(Pages(pages));
        machine.set_limits(
            id,
            MemcgLimits {
                max,
                ..MemcgLimits::default()
            },
        );
    }

    /// A charge that would exceed memory.max, with no evictable page, fails and counts MAX and OOM
    /// once.
    /// spec: reclaim-control.md 11, test 7.
    #[test]
    fn a_charge_over_max_with_nothing_to_reclaim() {
        let (mut machine, ids) = machine(MemcgProfile::Newer, 2, 100);
        limit(&mut machine, ids[0], 100);
        for page in (0..100).map(FolioId) {
            machine
                .lruvec_mut(ids[0])
                .set_flag(page, Flag::Unevictable, true);
        }
        let oom = machine.make_room(ids[0], Pages(1), Millis(1), &mut Simple);
        assert_eq!(oom, Err(OomAt { at: ids[0] }));
        let events = machine.memory_events_local(ids[0]);
        assert_eq!(
            (events.get(MemcgEvent::Max), events.get(MemcgEvent::Oom)),
            (1, 1)
        );
        assert_eq!(
            usage(&machine, ids[1]),
            100,
            "the other tenant keeps its pages"
        );
        machine.check_invariants();
    }

    /// Regression: reclaim-control.md 1. A parent was reclaimed from for its own memory.max, but
    /// its events did not count that.
    #[test]
    fn max_is_counted_at_each_memcg_over_its_limit() {
        let (mut machine, _) = machine(MemcgProfile::Newer, 1, 0);
        let parent = machine.create(MemcgId::ROOT, Millis(0));
        let [child, other] = [(); 2].map(|()| machine.create(parent, Millis(0)));
        for (id, pages) in [(child, 100), (other, 200)] {
            machine.lruvec_mut(id).ensure(200);
            for page in (0..pages).map(FolioId) {
                machine.fault_in(id, page, FolioType::Anon, FaultKind::FirstTouch, true);
            }
        }
        limit(&mut machine, child, 100);
        limit(&mut machine, parent, 150);
        let result = machine.make_room(child, Pages(1), Millis(1), &mut Simple);
        assert_eq!(result, Ok(()), "all is cold");
        let max = |id| machine.memory_events_local(id).get(MemcgEvent::Max);
        assert_eq!([child, parent, other].map(max), [1, 1, 0]);
        machine.check_invariants();
    }

    #[test]
    fn children_of_a_parent_over_its_max_are_reclaimed_from() {
        let (mut machine, _) = machine(MemcgProfile::Newer, 1, 0);
        let parent = machine.create(MemcgId::ROOT, Millis(0));
        let children = [
            machine.create(parent, Millis(0)),
            machine.create(parent, Millis(0)),
        ];
        limit(&mut machine, parent, 200);
        for page in 0..150u32 {
            for &child in &children {
                machine.lruvec_mut(child).ensure(150);
                let now = Millis(u64::from(page));
                machine
                    .make_room(child, Pages(1), now, &mut Simple)
                    .expect("cold pages");
                let id = FolioId(page);
                machine.fault_in(child, id, FolioType::Anon, FaultKind::FirstTouch, true);
                assert!(usage(&machine, parent) <= 200);
            }
        }
        machine.check_invariants();
        assert!(
            children.iter().all(|&child| usage(&machine, child) < 150),
            "both were reclaimed from"
        );
        let events = machine.memory_events_local(parent);
        assert!(events.get(MemcgEvent::Max) > 0 && events.get(MemcgEvent::Oom) == 0);
    }
}
