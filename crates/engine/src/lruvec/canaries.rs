//! Canaries: each plants one bug in the accounts around a lruvec that a check must find.

use super::*;
use crate::engine::{Engine, EngineConfig};
use crate::vmscan::ScanReason;
use crate::vmstat::VmEvent;

fn healthy() -> Engine {
    let mut engine = Engine::new(EngineConfig::default(), Millis(0));
    engine.ensure(100);
    for id in (0..100).map(FolioId) {
        engine.fault_in(id, FolioType::Anon, FaultKind::FirstTouch, true);
    }
    for now in 1..4 {
        engine.age(Millis(now));
    }
    let mut out = Vec::new();
    engine.isolate(20, ScanReason::Direct, &mut out);
    assert_eq!(
        engine.evicted_all(&out[..10], ScanReason::Direct),
        Pages(10)
    );
    engine.check_invariants();
    engine
}

fn plant(bug: impl FnOnce(&mut Engine)) {
    let mut engine = healthy();
    bug(&mut engine);
    engine.check_invariants();
}

#[test]
#[should_panic(expected = "present pages that are on no list")]
fn an_isolated_page_is_forgotten() {
    plant(|engine| engine.lruvec.off_list[0] -= 1);
}

#[test]
#[should_panic(expected = "pages out")]
fn a_shadow_is_counted_for_the_other_type() {
    plant(|engine| {
        engine.lruvec.out[0] -= 1;
        engine.lruvec.out[1] += 1;
    });
}

#[test]
#[should_panic(expected = "pgsteal > pgscan")]
fn more_is_stolen_than_scanned() {
    plant(|engine| engine.lruvec.stat.add(VmEvent::PgstealDirect, 100));
}

#[test]
#[should_panic(expected = "activate > refault")]
fn more_is_activated_than_refaulted() {
    plant(|engine| engine.lruvec.stat.add(VmEvent::WorkingsetActivateAnon, 1));
}

#[test]
#[should_panic(expected = "pgscan by type and by source")]
fn a_scan_without_a_source() {
    plant(|engine| engine.lruvec.stat.add(VmEvent::PgscanAnon, 1));
}

#[test]
#[should_panic(expected = "usage is what is resident")]
fn a_charge_without_a_page() {
    plant(|engine| engine.memcg.charge_forced(Pages(1)));
}

#[test]
#[should_panic(expected = "swap usage")]
fn a_swap_charge_without_a_page() {
    plant(|engine| engine.memcg.charge_swap(Pages(1)));
}
