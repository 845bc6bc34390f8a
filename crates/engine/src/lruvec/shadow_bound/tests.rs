//! Tests of the bound on shadows, for a lruvec alone and in a machine under pressure, and of what
//! is lost with a shadow.

use super::*;
use crate::active_inactive::Stage;
use crate::folio::FolioType;
use crate::lru_gen::{IsolateBudget, LruGen};
use crate::lruvec::{FaultKind, Policy};
use crate::machine::{Machine, MachineConfig, ReclaimRequest};
use crate::memcg::MemcgId;
use crate::units::{Millis, Pages, Swappiness};
use crate::vmscan::{Memory, PageOut, ScanReason};
use alloc::vec::Vec;
use core::ops::Range;

const POLICIES: [Policy; 2] = [
    Policy::MultiGen(crate::lru_gen::Profile::P616),
    Policy::ActiveInactive(Stage::Detection, Pages(2000)),
];

fn bounded(policy: Policy, nodes: u32) -> Lruvec {
    let mut lruvec = Lruvec::new(policy, Millis(0));
    lruvec.ensure(nodes as usize * 64);
    lruvec.bound_shadows();
    lruvec
}

fn bring_in(lruvec: &mut Lruvec, pages: Range<u32>) {
    for page in pages.map(FolioId) {
        lruvec.fault_in(page, FolioType::Anon, FaultKind::Refault, true, true);
    }
}

fn evict_all(lruvec: &mut Lruvec) {
    let (swappiness, mut isolated) = (Swappiness::default(), Vec::new());
    while lruvec.resident() > Pages(0) {
        isolated.clear();
        let reason = ScanReason::Direct;
        lruvec.isolate(reason, swappiness, IsolateBudget::default(), &mut isolated);
        lruvec.evicted_all(&isolated, reason);
        if let Some(seq) = lruvec
            .multi_gen()
            .map(LruGen::max_seq)
            .filter(|_| isolated.is_empty())
        {
            lruvec.inc_max_seq(seq, swappiness, Millis(seq));
        }
        lruvec.check_invariants(swappiness);
    }
}

/// workingset.md 12, test 14: 80 pages in memory allow 10 nodes. Of 12 nodes the two oldest are
/// dropped; then refaults of their slots are not counted.
#[test]
fn the_oldest_nodes_beyond_an_eighth_are_dropped() {
    for policy in POLICIES {
        let mut lruvec = bounded(policy, 14);
        bring_in(&mut lruvec, 0..12 * 64);
        evict_all(&mut lruvec);
        bring_in(&mut lruvec, 12 * 64..12 * 64 + 80);
        assert_eq!(lruvec.shadow_nodes(), 12);
        assert_eq!(lruvec.reclaim_shadow_nodes(), 2);
        assert_eq!(
            (lruvec.shadow_nodes(), lruvec.reclaim_shadow_nodes()),
            (10, 0)
        );
        lruvec.check_invariants(Swappiness::default());
        assert_eq!(lruvec.stat().get(VmEvent::WorkingsetNodereclaim), 2);
        let counts = |lruvec: &Lruvec| {
            let [refaults, swapped, major] = [
                VmEvent::WorkingsetRefaultAnon,
                VmEvent::Pswpin,
                VmEvent::Pgmajfault,
            ];
            [refaults, swapped, major].map(|event| lruvec.stat().get(event))
        };
        bring_in(&mut lruvec, 0..2 * 64);
        assert_eq!(
            counts(&lruvec),
            [0, 128, 128],
            "{policy:?}: out, and forgotten"
        );
        bring_in(&mut lruvec, 2 * 64..12 * 64);
        assert_eq!(counts(&lruvec), [640, 768, 768], "{policy:?}");
        assert_eq!(
            (lruvec.shadow_nodes(), lruvec.out(FolioType::Anon)),
            (0, Pages(0))
        );
        lruvec.check_invariants(Swappiness::default());
    }
}

#[test]
fn removed_pages_and_truncated_shadows_are_uncounted_in_their_node() {
    let mut lruvec = bounded(Policy::default(), 4);
    bring_in(&mut lruvec, 0..128);
    evict_all(&mut lruvec);
    bring_in(&mut lruvec, 10..11);
    assert_eq!(lruvec.shadow_nodes(), 1, "a page keeps its node");
    lruvec.unmap_range(FolioId(10), 1);
    assert_eq!(lruvec.shadow_nodes(), 2);
    lruvec.reclaim_shadow_nodes();
    // Evicted pages without a shadow can be removed, too.
    assert_eq!(lruvec.unmap_range(FolioId(0), 200).out[0], Pages(127));
    lruvec.check_invariants(Swappiness::default());
    assert_eq!(lruvec.shadow_nodes(), 0);
}

struct Simple;

impl Memory for Simple {
    fn walk(&mut self, _: MemcgId, lruvec: &mut Lruvec) {
        lruvec.walk_accessed();
    }

    fn page_out(&mut self, _: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>) {
        outcome.extend(batch.iter().map(|_| PageOut::Stored));
    }
}

/// workingset.md 11, I6, holds after each reclaim of a machine. Without a bound no shadow is
/// dropped.
#[test]
fn a_machine_under_pressure_keeps_the_bound() {
    for policy in POLICIES {
        for bound_shadows in [true, false] {
            let config = MachineConfig {
                policy,
                bound_shadows,
                ..MachineConfig::default()
            };
            let mut machine = Machine::new(config, Millis(0));
            let id = machine.create(MemcgId::ROOT, Millis(0));
            machine.lruvec_mut(id).ensure(4096);
            for now in 0..60 {
                for n in 0..200u32 {
                    let page = FolioId(n.wrapping_mul(now * 2 + 7).wrapping_add(now * 64) % 4096);
                    let ty = FolioType::Anon;
                    machine.fault_in(id, page, ty, FaultKind::Refault, true);
                }
                let request = ReclaimRequest::new(
                    ScanReason::Background,
                    machine.lruvec(id).resident().less(Pages(100)),
                    Millis(u64::from(now)),
                );
                machine.reclaim_subtree(id, request, &mut Simple);
                machine.check_invariants();
                let lruvec = machine.lruvec(id);
                assert!(lruvec.shadow_nodes() <= lruvec.resident().0 / 8, "at {now}");
            }
            let freed = machine
                .lruvec(id)
                .stat()
                .get(VmEvent::WorkingsetNodereclaim);
            assert_eq!(freed > 0, bound_shadows, "{policy:?}");
        }
    }
}

#[test]
#[should_panic(expected = "node of FolioId(63)")]
fn canary_a_shadow_is_not_counted() {
    let mut lruvec = bounded(Policy::default(), 2);
    bring_in(&mut lruvec, 0..64);
    evict_all(&mut lruvec);
    let word = lruvec.folios.get(FolioId(5));
    lruvec.folios.set(FolioId(5), word.without_shadow());
    lruvec.check_invariants(Swappiness::default());
}
