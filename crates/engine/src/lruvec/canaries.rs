//! Canaries: each test corrupts one count of a lruvec, which a check must find.

use super::*;
use crate::machine::{Machine, MachineConfig};
use crate::memcg::{MemcgId, MemcgLimits};
use crate::vmscan::ScanReason;
use crate::vmstat::VmEvent;

const ONE: MemcgId = MemcgId::FIRST;

pub(crate) fn healthy() -> Machine {
    let config = MachineConfig::default();
    let mut machine = Machine::of_one(config, MemcgLimits::default(), Millis(0));
    machine.lruvec_mut(ONE).ensure(100);
    for id in (0..100).map(FolioId) {
        machine.fault_in(ONE, id, FolioType::Anon, FaultKind::FirstTouch, true);
    }
    for now in 1..4 {
        machine.age(ONE, Millis(now));
    }
    let mut isolated = Vec::new();
    machine.isolate(ONE, 20, ScanReason::Direct, &mut isolated);
    assert_eq!(
        machine.evicted_all(ONE, &isolated[..10], ScanReason::Direct),
        Pages(10)
    );
    machine.check_invariants();
    machine
}

fn plant(bug: impl FnOnce(&mut Lruvec)) {
    let mut machine = healthy();
    bug(machine.lruvec_mut(ONE));
    machine.check_invariants();
}

#[test]
#[should_panic(expected = "present pages that are on no list")]
fn an_isolated_page_is_forgotten() {
    plant(|lruvec| lruvec.off_list[0] -= 1);
}

#[test]
#[should_panic(expected = "pages out")]
fn a_shadow_is_counted_for_the_other_type() {
    plant(|lruvec| {
        lruvec.out[0] -= 1;
        lruvec.out[1] += 1;
    });
}

#[test]
#[should_panic(expected = "pgsteal > pgscan")]
fn more_is_stolen_than_scanned() {
    plant(|lruvec| lruvec.stat.add(VmEvent::PgstealDirect, 100));
}

#[test]
#[should_panic(expected = "activate > refault")]
fn more_is_activated_than_refaulted() {
    plant(|lruvec| lruvec.stat.add(VmEvent::WorkingsetActivateAnon, 1));
}

#[test]
#[should_panic(expected = "pgscan by type and by source")]
fn a_scan_without_a_source() {
    plant(|lruvec| lruvec.stat.add(VmEvent::PgscanAnon, 1));
}
