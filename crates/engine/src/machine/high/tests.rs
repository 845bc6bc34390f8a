//! Tests of memory.high, memory.swap.high, memory.swap.max, and of limits that are set below the
//! usage.

use super::super::MachineConfig;
use super::super::tests::{Simple, machine, usage};
use super::*;
use crate::folio::{FolioId, FolioType};
use crate::lruvec::{FaultKind, Policy};
use crate::memcg::{MemcgLimits, MemcgProfile};
use crate::units::Limit;
use crate::word::Flag;

fn pages(nr: u64) -> Limit {
    Limit::of(Pages(nr))
}

fn make_unevictable(machine: &mut Machine, id: MemcgId, nr: u32) {
    for page in (0..nr).map(FolioId) {
        let lruvec = machine.lruvec_mut(id);
        lruvec.set_flag(page, Flag::Unevictable, true);
    }
}

fn count(machine: &Machine, id: MemcgId, event: MemcgEvent) -> u64 {
    machine.memory_events_local(id).get(event)
}

#[test]
fn above_high_is_reclaimed_before_a_task_sleeps() {
    let (mut machine, ids) = machine(MemcgProfile::Newer, 2, 150);
    let high = MemcgLimits {
        high: pages(100),
        ..MemcgLimits::default()
    };
    machine.set_limits(ids[0], high);
    let delay = machine.over_high(ids[0], Pages(64), Millis(1), &mut Simple);
    assert_eq!(delay, Millis(0));
    // Reclaim stops when the delay is too short for a sleep: at 1% above the limit, not at the
    // limit.
    assert!(
        usage(&machine, ids[0]) <= 101,
        "{}",
        usage(&machine, ids[0])
    );
    assert_eq!(usage(&machine, ids[1]), 150);
    assert_eq!(count(&machine, ids[0], MemcgEvent::High), 1);
    machine.check_invariants();
}

#[test]
fn a_task_sleeps_if_nothing_can_be_reclaimed() {
    let (mut machine, ids) = machine(MemcgProfile::Newer, 1, 150);
    make_unevictable(&mut machine, ids[0], 150);
    let high = MemcgLimits {
        high: pages(100),
        ..MemcgLimits::default()
    };
    machine.set_limits(ids[0], high);
    for (nr, sleep) in [(64, 2000), (1, 250)] {
        let delay = machine.over_high(ids[0], Pages(nr), Millis(1), &mut Simple);
        assert_eq!(delay, Millis(sleep));
    }
    assert_eq!(usage(&machine, ids[0]), 150, "and nothing is killed");
    assert_eq!(count(&machine, ids[0], MemcgEvent::High), 2);
    assert_eq!(count(&machine, ids[0], MemcgEvent::Oom), 0);
}

/// reclaim-control.md 3: swap.high throttles as high does, by the number of pages above it.
#[test]
fn swap_high_throttles_and_is_counted() {
    let (mut machine, ids) = machine(MemcgProfile::Newer, 1, 500);
    let high = MemcgLimits {
        swap_high: pages(100),
        ..MemcgLimits::default()
    };
    machine.set_limits(ids[0], high);
    let delay =
        |machine: &mut Machine| machine.over_high(ids[0], Pages(64), Millis(1), &mut Simple);
    assert_eq!(delay(&mut machine), Millis(0));
    machine.reclaim_subtree(ids[0], direct(Pages(150), Millis(1)), &mut Simple);
    let swapped = machine.tree().get(ids[0]).swap_usage();
    assert!(swapped >= Pages(150));
    let resident = usage(&machine, ids[0]);
    assert_eq!(delay(&mut machine), Millis(2000));
    assert_eq!(count(&machine, ids[0], MemcgEvent::SwapHigh), 1);
    assert_eq!(count(&machine, ids[0], MemcgEvent::High), 0);
    assert_eq!(
        usage(&machine, ids[0]),
        resident,
        "swap.high reclaims nothing"
    );
    let root = machine.memory_events(MemcgId::ROOT);
    assert_eq!(root.get(MemcgEvent::SwapHigh), 1, "hierarchical");
}

/// reclaim-control.md 3: no pass exceeds swap.max, under either policy.
#[test]
fn swap_max_is_never_passed() {
    let classic = Policy::ActiveInactive(crate::active_inactive::Stage::Detection, Pages(9000));
    for policy in [Policy::default(), classic] {
        let config = MachineConfig {
            policy,
            ..MachineConfig::default()
        };
        let mut machine = Machine::new(config, Millis(0));
        let id = machine.create(MemcgId::ROOT, Millis(0));
        let limits = MemcgLimits {
            swap_max: pages(100),
            ..MemcgLimits::default()
        };
        machine.set_limits(id, limits);
        machine.lruvec_mut(id).ensure(9000);
        for page in (0..9000).map(FolioId) {
            machine.fault_in(id, page, FolioType::Anon, FaultKind::Refault, true);
        }
        for now in 1..10 {
            machine.reclaim_subtree(id, direct(Pages(5000), Millis(now)), &mut Simple);
            machine.check_invariants();
            assert!(
                machine.tree().get(id).swap_usage() <= Pages(100),
                "{policy:?}"
            );
        }
        assert!(
            machine.tree().get(id).swap_usage() > Pages(36),
            "{policy:?}"
        );
        let (max, fail) = (MemcgEvent::SwapMax, MemcgEvent::SwapFail);
        assert!(count(&machine, id, max) > 0, "{policy:?}");
        assert_eq!(count(&machine, id, max), count(&machine, id, fail));
    }
}

/// If the machine has no swap at all, FAIL is counted, but MAX at no memcg.
#[test]
fn without_swap_only_swap_fail_is_counted() {
    let config = MachineConfig {
        swap: pages(0),
        ..MachineConfig::default()
    };
    let mut machine = Machine::new(config, Millis(0));
    let id = machine.create(MemcgId::ROOT, Millis(0));
    machine.lruvec_mut(id).ensure(100);
    for page in (0..100).map(FolioId) {
        machine.fault_in(id, page, FolioType::Anon, FaultKind::Refault, true);
    }
    machine.reclaim_subtree(MemcgId::ROOT, direct(Pages(50), Millis(1)), &mut Simple);
    assert_eq!(usage(&machine, id), 100);
    let all = machine.memory_events(MemcgId::ROOT);
    assert_eq!(all.get(MemcgEvent::SwapMax), 0);
    assert!(count(&machine, id, MemcgEvent::SwapFail) > 0);
}

/// reclaim-control.md 3: after memory.max is lowered, usage is reclaimed down to it, or a process
/// must be killed; a lowered memory.high only throttles.
#[test]
fn smaller_limits_are_reclaimed_to() {
    for (max, high) in [(pages(100), Limit::Max), (Limit::Max, pages(100))] {
        let (mut machine, ids) = machine(MemcgProfile::Newer, 2, 300);
        let limits = MemcgLimits {
            max,
            high,
            ..MemcgLimits::default()
        };
        machine.set_limits(ids[0], limits);
        let result = machine.enforce_limits(ids[0], Millis(1), &mut Simple);
        assert_eq!(result, Ok(()));
        assert!(usage(&machine, ids[0]) <= 100);
        assert_eq!(usage(&machine, ids[1]), 300);
        machine.check_invariants();

        let unevictable = ids[1];
        make_unevictable(&mut machine, unevictable, 200);
        machine.set_limits(unevictable, limits);
        let result = machine.enforce_limits(unevictable, Millis(2), &mut Simple);
        let is_max = max != Limit::Max;
        assert_eq!(
            result,
            if is_max {
                Err(OomAt { at: unevictable })
            } else {
                Ok(())
            }
        );
        assert_eq!(
            count(&machine, unevictable, MemcgEvent::Oom),
            u64::from(is_max)
        );
        assert_eq!(usage(&machine, unevictable), 200);
    }
}
