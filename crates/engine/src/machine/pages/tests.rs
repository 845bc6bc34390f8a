//! Tests of pages that kernel reclaim took.

use super::*;
use crate::lruvec::Policy;
use crate::machine::shrink::tests::{Scripted, cold};
use crate::units::Millis;
use crate::vmscan::{PageOut, ScanReason};
use crate::vmstat::VmEvent;
use crate::word::Flag;
use alloc::vec::Vec;

const ONE: MemcgId = MemcgId::FIRST;

fn classic() -> Policy {
    Policy::ActiveInactive(crate::active_inactive::Stage::Detection, Pages(4000))
}

/// Pages that the kernel's own reclaim swapped out count as refaults when they fault in.
#[test]
fn a_page_taken_by_kernel_reclaim_is_a_shadow_and_refaults() {
    for policy in [Policy::default(), classic()] {
        let mut machine = cold(64, policy, [200, 200]);
        for id in (100..300).map(FolioId) {
            assert!(machine.left(ONE, id));
            assert!(!machine.left(ONE, id), "only once");
            machine.check_invariants();
        }
        let memcg = machine.tree().get(ONE);
        assert_eq!(
            (memcg.usage(), memcg.swap_usage()),
            (Pages(200), Pages(100))
        );
        let stat = machine.lruvec(ONE).stat();
        assert_eq!(
            (stat.pgsteal(), stat.pgscan()),
            (0, 0),
            "the engine stole none"
        );
        assert_eq!(stat.get(VmEvent::Pswpout), 100);
        assert_eq!(stat.get(VmEvent::PgstealKernel), 200, "of both types");
        let refault =
            machine.fault_in(ONE, FolioId(150), FolioType::Anon, FaultKind::Refault, true);
        assert!(refault.is_some(), "{policy:?}");
        assert_eq!(
            machine
                .lruvec(ONE)
                .stat()
                .get(VmEvent::WorkingsetRefaultAnon),
            1
        );
        assert_eq!(machine.tree().get(ONE).swap_usage(), Pages(99));
        machine.check_invariants();
    }
}

#[test]
fn isolated_unevictable_touched_and_absent_pages_may_leave() {
    let mut machine = cold(64, Policy::default(), [200, 0]);
    let mut isolated = Vec::new();
    machine.isolate(ONE, 10, ScanReason::Direct, &mut isolated);
    assert!(machine.left(ONE, isolated[0]));
    let outcome = (PageOut::Stored, ScanReason::Direct);
    assert_eq!(
        machine.finish_page(ONE, isolated[0], outcome),
        crate::vmscan::PageEnd::NotIsolated
    );
    machine
        .lruvec_mut(ONE)
        .set_flag(FolioId(150), Flag::Unevictable, true);
    assert!(machine.lruvec_mut(ONE).touch(FolioId(151)));
    assert!(machine.left(ONE, FolioId(150)) && machine.left(ONE, FolioId(151)));
    machine.unmap_range(ONE, FolioId(152), 1);
    assert!(!machine.left(ONE, FolioId(152)), "it was removed");
    machine.check_invariants();
    // The accessed bit of an evicted page must not survive: the page faults in without it.
    machine.fault_in(
        ONE,
        FolioId(151),
        FolioType::Anon,
        FaultKind::Readahead,
        true,
    );
    assert!(!machine.lruvec(ONE).folios().is_accessed(FolioId(151)));
    machine.check_invariants();
}

/// Pages of a tenant are evicted and refault many times: its lists and its swap charge stay
/// correct.
#[test]
fn many_evictions_and_refaults_keep_accounts_sound() {
    for policy in [Policy::default(), classic()] {
        let mut machine = cold(64, policy, [500, 0]);
        let mut memory = Scripted::new(|_| PageOut::Stored);
        for round in 0..40u32 {
            let ids = (0..500u32).filter(|id| (id * 7 + round) % 3 == 0);
            for id in ids.map(FolioId) {
                machine.left(ONE, id);
            }
            machine.walk_and_age(ONE, Millis(u64::from(round) + 10), &mut memory);
            for id in (0..500).map(FolioId) {
                machine.fault_in(ONE, id, FolioType::Anon, FaultKind::Refault, true);
            }
            machine.check_invariants();
        }
        assert_eq!(machine.tree().get(ONE).swap_usage(), Pages(0));
    }
}
