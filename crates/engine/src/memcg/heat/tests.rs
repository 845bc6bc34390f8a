//! The numbered tests of heat-level.md 7 that need no memory.

use super::*;

const ID: MemcgId = MemcgId::FIRST;

fn online(now: u64) -> MemcgHeat {
    let mut heat = MemcgHeat::default();
    heat.online(MemcgId::ROOT, Millis(now));
    heat.online(ID, Millis(now));
    heat
}

const fn visit(tried: u64, reclaimed: u64, refaults: u64) -> HeatVisit {
    HeatVisit {
        tried,
        reclaimed: Pages(reclaimed),
        refaults,
    }
}

/// Heat from 4 on is warm, and from 8 on hot.
/// spec: heat-level.md 7, test 1.
#[test]
fn test_01_levels() {
    use HeatLevel::{Cold, Hot, Warm};
    let of = [0, 3, 4, 7, 8, 12].map(HeatLevel::of);
    assert_eq!(of, [Cold, Cold, Warm, Warm, Hot, Hot]);
    assert_eq!(
        [Cold, Warm, Hot].map(HeatLevel::hotter),
        [Some(Warm), Some(Hot), None]
    );
    assert!(Cold < Warm && Warm < Hot);
}

/// heat-level.md 7, test 2: each row of the table at its bounds. The visits have one refault, which
/// changes nothing: it is neither zero nor more than was reclaimed.
#[test]
fn test_02_what_a_visit_changes() {
    for (tried, reclaimed, expect) in [
        (100, 100, -2),
        (100, 50, -2),
        (101, 50, -1),
        (100, 25, -1),
        (101, 25, 1),
        (100, 1, 1),
        (u64::MAX, u64::MAX, -2),
    ] {
        let change = visit(tried, reclaimed, 1).change(0);
        assert_eq!(change, expect, "{reclaimed} of {tried}");
    }
    // If no page was tried, the change is 12, minus one without refaults, plus one with any.
    let changes = [0, 1].map(|refaults| visit(0, 0, refaults).change(0));
    assert_eq!(changes, [11, 13]);
}

/// heat-level.md 7, test 2: heat stays between 0 and its maximum.
#[test]
fn test_02_heat_is_clamped() {
    let mut heat = online(0);
    heat.visited(ID, visit(64, 64, 0), Millis(0));
    assert_eq!(heat.heat(ID), 0);
    for refaults in 1..4 {
        heat.visited(ID, visit(0, 0, refaults), Millis(0));
        assert_eq!(heat.heat(ID), HEAT_MAX);
    }
    heat.visited(ID, visit(64, 64, 3), Millis(0));
    assert_eq!(heat.heat(ID), HEAT_MAX - 2);
    heat.check_invariants();
}

/// Refaults since the previous visit raise heat, and their absence lowers it.
/// spec: heat-level.md 7, test 3.
#[test]
fn test_03_refaults() {
    // Of 100 pages tried, 10 reclaimed raise heat by one, and 50 reclaimed lower it by two.
    for (reclaimed, refaults, expect) in [
        (10, 11, 2),
        (10, 10, 1),
        (10, 1, 1),
        (10, 0, 0),
        (50, 51, -1),
        (50, 50, -2),
        (50, 0, -2),
    ] {
        let change = visit(100, reclaimed, 7 + refaults).change(7);
        assert_eq!(change, expect, "{reclaimed} reclaimed, {refaults} refaults");
    }
    // Only refaults since the previous visit count.
    let mut heat = online(0);
    heat.visited(ID, visit(100, 10, 1000), Millis(0));
    assert_eq!(heat.heat(ID), 2);
    heat.visited(ID, visit(100, 10, 1000), Millis(0));
    assert_eq!(heat.heat(ID), 2, "none since");
}

/// Heat falls by one when more than a second has passed, and by no more after an hour.
/// spec: heat-level.md 7, test 4.
#[test]
fn test_04_decay() {
    let mut heat = online(500);
    heat.visited(ID, visit(0, 0, 0), Millis(500));
    let mut heat_at = |now| {
        heat.level(ID, Millis(now));
        heat.heat(ID)
    };
    assert_eq!(heat_at(1500), 11, "exactly one second has passed");
    assert_eq!(heat_at(1501), 10);
    assert_eq!(heat_at(1501), 10, "once");
    assert_eq!(heat_at(2501), 10, "since the last decay");
    assert_eq!(heat_at(3_600_000), 9, "one step even after an hour");
}

/// heat-level.md 7, test 4: a visit decays first, and heat does not fall below 0.
#[test]
fn test_04_a_visit_decays_first() {
    let mut heat = online(0);
    heat.visited(ID, visit(0, 0, 0), Millis(0));
    heat.visited(ID, visit(100, 10, 5), Millis(2000));
    assert_eq!(heat.heat(ID), 11, "11 - 1 + 1");
    let mut cold = online(0);
    assert_eq!(cold.level(ID, Millis(5000)), HeatLevel::Cold);
    assert_eq!(cold.heat(ID), 0);
}

/// Visits do not heat the root.
/// spec: heat-level.md 6, I1.
#[test]
fn the_root_stays_cold() {
    let mut heat = online(0);
    heat.visited(MemcgId::ROOT, visit(0, 0, 9), Millis(0));
    assert_eq!(heat.level(MemcgId::ROOT, Millis(0)), HeatLevel::Cold);
    heat.check_invariants();
}

/// A memcg that gets the id of a released one starts with heat 0 and no refaults.
/// spec: heat-level.md 7, test 9.
#[test]
fn test_09_a_new_memcg_starts_with_heat_0() {
    let mut heat = online(0);
    heat.visited(ID, visit(0, 0, 9), Millis(0));
    heat.online(ID, Millis(700));
    assert_eq!(heat.heat(ID), 0);
    heat.visited(ID, visit(100, 10, 0), Millis(1700));
    assert_eq!(heat.heat(ID), 0, "its refaults and its decay are new, too");
}

#[test]
#[should_panic(expected = "I1")]
fn canary_too_hot() {
    let mut heat = online(0);
    heat.heats[1].heat = HEAT_MAX + 1;
    heat.check_invariants();
}

#[test]
#[should_panic(expected = "heat of the root")]
fn canary_a_hot_root() {
    let mut heat = online(0);
    heat.heats[0].heat = 1;
    heat.check_invariants();
}
