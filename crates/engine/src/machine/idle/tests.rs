use super::super::tests::Simple;
use super::*;
use crate::active_inactive::Stage;
use crate::folio::{FolioId, FolioType};
use crate::lruvec::{FaultKind, Policy};
use crate::machine::{GlobalReclaim, MachineConfig};
use crate::memcg::MemcgLimits;
use crate::units::Millis;
use crate::vmscan::ScanReason;

fn machine(
    (tenants, pages): (u32, u32),
    policy: Policy,
    global: GlobalReclaim,
) -> (Machine, Vec<MemcgId>) {
    let config = MachineConfig {
        policy,
        global,
        vain_passes: false,
        ..MachineConfig::default()
    };
    let mut machine = Machine::new(config, Millis(0));
    let ids: Vec<MemcgId> = (0..tenants)
        .map(|_| machine.create(MemcgId::ROOT, Millis(0)))
        .collect();
    for &id in &ids {
        machine.lruvec_mut(id).ensure(pages as usize);
        for page in (0..pages).map(FolioId) {
            machine.fault_in(id, page, FolioType::Anon, FaultKind::FirstTouch, true);
        }
    }
    (machine, ids)
}

fn direct(nr: u64, now: u64) -> ReclaimRequest {
    ReclaimRequest::new(ScanReason::Direct, Pages(nr), Millis(now))
}

/// Regression: a run with 100,000 tenants of one page did not finish. For 128 pages every tenant
/// was visited twice at each of eight priorities at which one page, shifted right by the priority,
/// is zero.
#[test]
fn many_tenants_of_one_page_are_not_visited_in_vain() {
    let classic = Policy::ActiveInactive(Stage::Detection, Pages(2000));
    for (policy, global) in [
        (Policy::default(), GlobalReclaim::MemcgLru),
        (Policy::default(), GlobalReclaim::HeatLevel),
        (Policy::default(), GlobalReclaim::Iterator),
        (classic, GlobalReclaim::Iterator),
    ] {
        let (mut machine, ids) = machine((2000, 1), policy, global);
        // Two agings move each page into its tenant's oldest generation.
        for id in ids {
            (0..2).for_each(|_| machine.age(id, Millis(0)));
        }
        for now in 1..=10 {
            let request = direct(64, now);
            let shrunk = match global {
                GlobalReclaim::MemcgLru => machine.reclaim_root(request, &mut Simple),
                GlobalReclaim::HeatLevel => machine.reclaim_by_heat(request, &mut Simple),
                GlobalReclaim::Iterator => {
                    machine.reclaim_subtree(MemcgId::ROOT, request, &mut Simple)
                }
            };
            assert!(
                shrunk.reclaimed >= Pages(64),
                "{policy:?} {global:?} {now}: {shrunk:?}"
            );
            assert!(
                shrunk.visited <= 200,
                "{policy:?} {global:?} {now}: {shrunk:?}"
            );
        }
        machine.check_invariants();
    }
}

/// A memcg may be skipped only if it has no page to evict, so its outlook must follow every change.
#[test]
fn the_outlook_follows_size_age_protection_and_removal() {
    let (mut machine, ids) = machine((3, 64), Policy::default(), GlobalReclaim::MemcgLru);
    let highest = |machine: &mut Machine| {
        let request = direct(1, 1);
        (0..=DEF_PRIORITY)
            .rev()
            .find(|&p| machine.is_worth_a_pass(request, p))
    };
    assert_eq!(highest(&mut machine), Some(6), "64 pages");
    machine.lruvec_mut(ids[0]).ensure(1024);
    for page in (64..1024).map(FolioId) {
        machine.fault_in(ids[0], page, FolioType::Anon, FaultKind::FirstTouch, true);
    }
    assert_eq!(highest(&mut machine), Some(10), "1,024 pages");
    machine.unmap_range(ids[0], FolioId(1), 1024);
    assert_eq!(highest(&mut machine), Some(6));
    let low = MemcgLimits {
        low: Pages(1),
        ..MemcgLimits::default()
    };
    machine.set_limits(ids[2], low);
    assert_eq!(
        highest(&mut machine),
        Some(DEF_PRIORITY),
        "it counts events"
    );
    machine.set_limits(ids[2], MemcgLimits::default());
    for &id in &ids {
        machine.unmap_range(id, FolioId(0), 1024);
        machine.offline(id);
    }
    assert_eq!(highest(&mut machine), None, "no tenant remains");
}
