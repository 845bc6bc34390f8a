//! Tests of what a tier keeps for which time, and of a wrong clock.

use super::super::row::{FIELDS, REFAULTS};
use super::*;

fn rows(name: u32, size: u64, events: u64) -> BTreeMap<u32, Row> {
    let mut row = Row([0; FIELDS]);
    row.0[0] = size;
    row.0[REFAULTS[0]] = events;
    BTreeMap::from([(name, row)])
}

fn seen(tier: &Tier, now_ms: u64) -> Vec<(usize, u64, u64, u64)> {
    let mut found = Vec::new();
    tier.visit(now_ms, |seen, row| {
        if seen.is_own {
            found.push((seen.place, seen.covered_ms, row.0[0], row.0[REFAULTS[0]]));
        }
    });
    found
}

#[test]
fn sizes_are_the_newest_and_events_add_up() {
    let mut tier = Tier::new(100, 3);
    tier.push(1000, 0, &rows(1, 5, 0));
    tier.push(1050, 50, &rows(1, 7, 2));
    tier.push(1099, 49, &rows(1, 6, 3));
    tier.push(1210, 110, &rows(1, 9, 1));
    assert_eq!(seen(&tier, 1210), [(0, 99, 6, 5), (2, 110, 9, 1)]);
    tier.push(1310, 100, &rows(1, 1, 1));
    assert_eq!(seen(&tier, 1310), [(1, 110, 9, 1), (2, 100, 1, 1)]);
    assert_eq!(seen(&tier, 1410), [(0, 110, 9, 1), (1, 100, 1, 1)]);
    assert_eq!(seen(&tier, 9999), []);
}

/// If snapshots are further apart than columns there are no gaps; after a restart there is one.
#[test]
fn a_snapshot_fills_the_columns_that_it_covers() {
    let mut tier = Tier::new(100, 9);
    for (at, covered) in [(1000, 0), (1300, 300), (1800, 0)] {
        tier.push(at, covered, &rows(1, at, 0));
    }
    let mut found = Vec::new();
    tier.visit(1800, |seen, row| {
        found.push((seen.place, row.0[0], seen.is_own))
    });
    let expected = [
        (0, 1000, true),
        (1, 1300, false),
        (2, 1300, false),
        (3, 1300, true),
        (8, 1800, true),
    ];
    assert_eq!(found, expected);
}

fn slots(columns: impl Iterator<Item = Column>) -> Vec<u64> {
    columns.map(|column| column.slot).collect()
}

fn cost(columns: impl Iterator<Item = Column>) -> usize {
    columns.map(|column| column.cost()).sum()
}

/// Regression: a machine started with its clock a day behind, made one snapshot, and then set the
/// clock: the last day of data was lost.
#[test]
fn a_snapshot_with_a_wrong_clock_loses_only_itself() {
    for wrong in [300, 99_000] {
        let mut tier = Tier::new(100, 20);
        for at in [1000, 1100] {
            tier.push(at, 10, &rows(1, at, 5));
        }
        tier.push(wrong, 98_000, &rows(1, wrong, 5));
        assert_eq!(seen(&tier, wrong), [(19, 0, wrong, 0)], "what it says");
        assert_eq!(
            slots(tier.saved_columns()),
            [10, 11],
            "a file has what was before"
        );
        assert_eq!(
            tier.bytes(),
            cost(tier.columns()) + cost(tier.saved_columns())
        );
        for at in [1200, 1250] {
            tier.push(at, 50, &rows(1, at, 5));
        }
        let expected = [(17, 10, 1000, 5), (18, 10, 1100, 5), (19, 50, 1250, 5)];
        assert_eq!(seen(&tier, 1250), expected, "{wrong}");
        assert_eq!(slots(tier.saved_columns()), [10, 11, 12]);
        assert_eq!(tier.bytes(), cost(tier.columns()));
    }
}

/// Two jumps that last: a clock is set to the correct time, and an outage is longer than all
/// columns.
#[test]
fn a_lasting_jump_of_the_clock_is_accepted() {
    let mut tier = Tier::new(100, 20);
    for at in [1000, 1100, 2500] {
        tier.push(at, 10, &rows(1, at, 0));
    }
    // The clock was ahead: columns that are earlier than the corrected time stay.
    (0..=30).for_each(|n| tier.push(1200 + n, 1, &rows(1, n, 0)));
    assert_eq!(slots(tier.columns()), [10, 11, 12]);
    assert_eq!(slots(tier.saved_columns()), [10, 11, 12]);
    (0..=30).for_each(|n| tier.push(9_000 + n, 1, &rows(1, n, 0)));
    assert_eq!(slots(tier.columns()), [90]);
    assert_eq!(tier.bytes(), cost(tier.columns()));
}

/// If the clock jumps years ahead and back, the tier stays within its size limit: columns that were
/// set aside are dropped first.
#[test]
fn columns_set_aside_are_dropped_first() {
    let mut tier = Tier::new(100, 5);
    for at in [1000, 1100, 1200, 99_000, 99_100] {
        tier.push(at, 10, &rows(1, at, 0));
    }
    while tier.drop_oldest() {}
    assert_eq!(
        (slots(tier.saved_columns()), slots(tier.columns())),
        (vec![12], vec![991])
    );
}

#[test]
fn a_restart_continues_in_the_same_column() {
    let mut tier = Tier::new(100, 3);
    tier.push(1000, 20, &rows(1, 5, 4));
    let mut again = Tier::new(100, 3)
        .with(tier.columns().collect())
        .expect("in order");
    again.push(1050, 20, &rows(1, 6, 4));
    assert_eq!(seen(&again, 1050), [(2, 40, 6, 8)]);
    let twice: Vec<Column> = tier.columns().chain(tier.columns()).collect();
    assert!(Tier::new(100, 3).with(twice).is_none());
}
