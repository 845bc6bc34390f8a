//! Sets of events and the order in which they must be taken.

use super::*;

const PAGE: u64 = 0x1000;

fn moved(from: u64, to: u64, pages: u64) -> UffdMsg {
    UffdMsg {
        event: event::REMAP,
        arg0: from * PAGE,
        arg1: to * PAGE,
        arg2: pages * PAGE,
        ..UffdMsg::default()
    }
}

fn unmapped(at: u64, pages: u64) -> UffdMsg {
    UffdMsg {
        event: event::UNMAP,
        arg0: at * PAGE,
        arg1: (at + pages) * PAGE,
        ..UffdMsg::default()
    }
}

/// Registered ranges in pages; and where pages with bytes elsewhere cannot be, as places before
/// and after.
struct Known {
    registered: Vec<(u64, u64)>,
    impossible: Vec<(u64, u64)>,
}

impl Ground for Known {
    fn known(&self, start: u64, end: u64) -> (u64, u64) {
        let parts = self.registered.iter().map(|&(s, e)| (s * PAGE, e * PAGE));
        parts
            .map(|(s, e)| (s.max(start), e.min(end)))
            .filter(|(s, e)| s < e)
            .min()
            .unwrap_or((end, end))
    }
    fn registered(&self, _: u64, _: u64) -> Option<bool> {
        None
    }
    fn complete(&self) -> bool {
        true
    }
    fn refuted(&self, from: u64, to: u64, len: u64) -> bool {
        let inside = |at: u64, of: u64| at * PAGE >= of && at * PAGE < of + len;
        let at_once = |&&(f, t): &&(u64, u64)| {
            inside(f, from) && inside(t, to) && t.wrapping_sub(f) == to.wrapping_sub(from) / PAGE
        };
        self.impossible.iter().find(at_once).is_some()
    }
}

fn order(registered: &[(u64, u64)], impossible: &[(u64, u64)], set: &[UffdMsg]) -> Vec<u16> {
    let known = Known {
        registered: registered.to_vec(),
        impossible: impossible.to_vec(),
    };
    let mut plan = Box::new(Plan::new());
    for (turn, m) in (0..).zip(set) {
        plan.add(UffdMsg { turn, ..*m });
    }
    plan.work_out(&known);
    (0..plan.len()).map(|n| plan.nth(n).turn).collect()
}

#[test]
fn what_is_not_in_conflict_stays_as_it_was_read() {
    let set = [
        moved(10, 50, 4),
        unmapped(10, 4),
        moved(50, 80, 4),
        unmapped(50, 4),
    ];
    assert_eq!(order(&[(10, 14)], &[], &set), [0, 1, 2, 3]);
}

#[test]
fn the_former_owner_leaves_first() {
    let set = [
        moved(10, 50, 4),
        unmapped(10, 4),
        moved(50, 80, 4),
        unmapped(50, 4),
    ];
    assert_eq!(order(&[(10, 14), (50, 54)], &[], &set), [2, 0, 1, 3]);
}

/// A part of a mapping was moved to a place that another thread had just given up, and back at
/// once, before the other thread could say so. Both moves leave the place; the way back was taken
/// for the one that had to go first, it carried the other thread's pages along, and the
/// unmapping of the part emptied its own: zeros.
#[test]
fn there_and_back_over_a_place_that_was_just_left() {
    let set = [
        moved(100, 20, 4),
        unmapped(100, 4),
        moved(20, 100, 4),
        unmapped(20, 4),
        moved(16, 200, 10),
        unmapped(16, 10),
    ];
    assert_eq!(order(&[(16, 26), (98, 110)], &[], &set), [4, 0, 1, 2, 3, 5]);
}

#[test]
fn an_unmapping_that_is_read_late_explains_a_taken_place() {
    let set = [moved(10, 50, 4), unmapped(10, 4), unmapped(50, 4)];
    assert_eq!(order(&[(10, 14), (50, 54)], &[], &set), [0, 1, 2]);
}

/// The former owner may have unmapped the place, or moved away. A thread that tells of its
/// unmapping so late that another has come, returned and gone is less likely.
#[test]
fn of_two_explanations_the_one_that_needs_less_waiting() {
    let set = [
        moved(10, 50, 4),
        unmapped(10, 4),
        moved(50, 80, 4),
        unmapped(50, 4),
        unmapped(50, 4),
    ];
    assert_eq!(order(&[(10, 14), (50, 54)], &[], &set), [2, 0, 1, 3, 4]);
}

/// Two moves away from one place, of what was there and of what came there. By the events alone
/// it may be either; but a page with bytes elsewhere is not present.
#[test]
fn a_present_page_tells_who_went_where() {
    let set = [
        moved(10, 50, 4),
        moved(50, 80, 4),
        moved(50, 90, 4),
        unmapped(10, 4),
        unmapped(50, 4),
        unmapped(50, 4),
    ];
    let registered = [(10, 14), (50, 54)];
    assert_eq!(order(&registered, &[], &set), [1, 0, 2, 3, 4, 5]);
    assert_eq!(order(&registered, &[(52, 82)], &set), [2, 0, 1, 3, 4, 5]);
    assert_eq!(order(&registered, &[(52, 92)], &set), [1, 0, 2, 3, 4, 5]);
}

#[test]
fn three_that_follow_each_other() {
    let set = [
        moved(10, 20, 2),
        moved(20, 30, 2),
        moved(30, 40, 2),
        unmapped(10, 2),
        unmapped(20, 2),
        unmapped(30, 2),
    ];
    assert_eq!(
        order(&[(10, 12), (20, 22), (30, 32)], &[], &set),
        [2, 1, 0, 3, 4, 5]
    );
}

#[test]
fn every_set_is_ordered_whole() {
    let full: Vec<UffdMsg> = (0..QUEUE_MAX as u64)
        .map(|i| moved(i % 7, (i * 5) % 7, 1))
        .collect();
    let mut seen = order(&[(0, 7)], &[], &full);
    seen.sort_unstable();
    assert!((0..QUEUE_MAX).eq(seen.iter().map(|i| usize::from(*i))));
}

/// As many threads end at once, each of which gives its stack back: quickly, or they wait for long.
#[test]
fn a_full_queue_of_what_does_not_move_is_taken_as_it_is() {
    let removed = |i: u64| UffdMsg {
        event: event::REMOVE,
        ..unmapped(i * 2, 1)
    };
    let full: Vec<UffdMsg> = (0..QUEUE_MAX as u64).map(removed).collect();
    let seen = order(&[(0, 7)], &[], &full);
    assert!((0..QUEUE_MAX).eq(seen.iter().map(|i| usize::from(*i))));
}
