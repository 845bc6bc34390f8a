use super::*;
use crate::units::Limit;

fn limit(pages: u64) -> Limit {
    Limit::of(Pages(pages))
}

fn exact() -> MemcgTree {
    MemcgTree::new(true, 1, 1)
}

fn low(pages: u64) -> MemcgLimits {
    MemcgLimits {
        low: Pages(pages),
        ..MemcgLimits::default()
    }
}

#[test]
fn a_charge_goes_up_and_is_undone_where_it_fails() {
    let mut tree = exact();
    let a = tree.create(MemcgId::ROOT);
    let b = tree.create(a);
    tree.set_limits(
        a,
        MemcgLimits {
            max: limit(10),
            ..MemcgLimits::default()
        },
    );
    assert_eq!(tree.try_charge(0, b, Pages(10)), Ok(()));
    assert_eq!(tree.try_charge(0, b, Pages(1)), Err(OverMax { at: a }));
    for id in [b, a, MemcgId::ROOT] {
        assert_eq!(tree.get(id).usage(), Pages(10), "{id:?}");
    }
    tree.charge_forced(b, Pages(1));
    assert_eq!(tree.get(b).usage(), Pages(11));
    let count = |id| tree.get(id).events().get(MemcgEvent::Max);
    assert_eq!([a, b, MemcgId::ROOT].map(count), [1, 0, 0]);
    tree.check_invariants();
}

#[test]
fn stocks_charge_ahead_by_at_most_a_batch() {
    let mut tree = MemcgTree::new(true, 2, 64);
    let (a, b) = (tree.create(MemcgId::ROOT), tree.create(MemcgId::ROOT));
    for n in 1..=64 {
        tree.try_charge(0, a, Pages(1)).expect("no limit");
        assert_eq!(
            (tree.get(a).usage(), tree.stocked(a)),
            (Pages(64), Pages(64 - n))
        );
    }
    tree.try_charge(1, a, Pages(1)).expect("no limit");
    tree.try_charge(1, b, Pages(1)).expect("no limit");
    assert_eq!(
        tree.get(a).usage(),
        Pages(65),
        "worker 1 gave a's stock back for b's"
    );
    for _ in 0..65 {
        tree.uncharge(0, a, Pages(1));
    }
    tree.drain_stocks();
    assert_eq!(
        (tree.get(a).usage(), tree.get(b).usage()),
        (Pages(0), Pages(1))
    );
    tree.check_invariants();
}

/// reclaim-control.md 11, test 1, through the tree.
#[test]
fn effective_low_is_shared() {
    let mut tree = exact();
    let parent = tree.create(MemcgId::ROOT);
    let (a, b) = (tree.create(parent), tree.create(parent));
    tree.set_limits(parent, low(10));
    for id in [a, b] {
        tree.set_limits(id, low(8));
        tree.try_charge(0, id, Pages(8)).expect("no limit");
    }
    for id in [a, b] {
        tree.calculate_path(MemcgId::ROOT, id);
        assert_eq!(tree.get(id).protection().low, Pages(5));
        assert!(!tree.below_low(MemcgId::ROOT, id));
    }
    tree.set_limits(b, low(2));
    tree.uncharge(0, b, Pages(6));
    for (id, expect) in [(a, 8), (b, 2)] {
        tree.calculate_path(MemcgId::ROOT, id);
        assert_eq!(tree.get(id).protection().low, Pages(expect));
        assert!(tree.below_low(MemcgId::ROOT, id) && !tree.below_low(id, id));
    }
    tree.check_invariants();
}

/// reclaim-control.md 11, tests 2 and 3, through the tree.
#[test]
fn recursive_protection() {
    for (recursive, expect) in [(true, [6, 3]), (false, [4, 0])] {
        let mut tree = MemcgTree::new(recursive, 1, 1);
        let parent = tree.create(MemcgId::ROOT);
        let (a, b) = (tree.create(parent), tree.create(parent));
        tree.set_limits(parent, low(10));
        tree.set_limits(a, low(4));
        for id in [a, b] {
            tree.try_charge(0, id, Pages(10)).expect("no limit");
        }
        for (id, expect) in [a, b].into_iter().zip(expect) {
            tree.calculate_path(MemcgId::ROOT, id);
            assert_eq!(
                tree.get(id).protection().low,
                Pages(expect),
                "recursive {recursive}"
            );
        }
    }
}

/// Regression: groups of a host stand one level below the root of their own hierarchy here. They
/// got no protection, because that root has none to distribute.
#[test]
fn a_memcg_that_stands_for_a_root_grants_all() {
    for grants_all in [false, true] {
        let mut tree = exact();
        let host = tree.create(MemcgId::ROOT);
        let (a, b) = (tree.create(host), tree.create(host));
        if grants_all {
            tree.set_hierarchy_root(host);
        }
        tree.set_limits(a, low(8));
        for id in [a, b] {
            tree.try_charge(0, id, Pages(8)).expect("no limit");
            tree.calculate_path(MemcgId::ROOT, id);
        }
        let below = [host, a, b].map(|id| tree.below_low(MemcgId::ROOT, id));
        assert_eq!(below, [false, grants_all, false]);
    }
}

#[test]
fn offline_ends_protection_and_release_waits_for_the_pages() {
    let mut tree = exact();
    let a = tree.create(MemcgId::ROOT);
    let limits = MemcgLimits {
        min: Pages(5),
        low: Pages(9),
        ..MemcgLimits::default()
    };
    tree.set_limits(a, limits);
    tree.try_charge(0, a, Pages(5)).expect("no limit");
    assert!(!tree.release(a), "online");
    tree.offline(a);
    tree.calculate_path(MemcgId::ROOT, a);
    assert!(!tree.below_min(MemcgId::ROOT, a) && !tree.is_online(a));
    assert!(!tree.release(a), "pages remain");
    tree.uncharge(0, a, Pages(5));
    assert!(tree.release(a) && !tree.exists(a));
    assert!(tree.children(MemcgId::ROOT).next().is_none());
    assert_eq!(tree.create(MemcgId::ROOT), a, "the id is free again");
    tree.check_invariants();
}

#[test]
fn swap_is_limited_by_the_strictest_level() {
    let mut tree = exact();
    let a = tree.create(MemcgId::ROOT);
    let b = tree.create(a);
    tree.set_limits(
        a,
        MemcgLimits {
            swap_max: limit(10),
            ..MemcgLimits::default()
        },
    );
    tree.set_limits(
        b,
        MemcgLimits {
            swap_max: limit(100),
            ..MemcgLimits::default()
        },
    );
    tree.charge_swap(b, Pages(4));
    assert_eq!(tree.swap_available(b), Pages(6));
    tree.uncharge_swap(b, Pages(4));
    assert_eq!(tree.swap_available(b), Pages(10));
}

#[test]
fn the_worst_overage_on_the_way_up_counts() {
    let mut tree = exact();
    let a = tree.create(MemcgId::ROOT);
    let b = tree.create(a);
    tree.set_limits(
        a,
        MemcgLimits {
            high: limit(100),
            ..MemcgLimits::default()
        },
    );
    tree.set_limits(
        b,
        MemcgLimits {
            high: limit(1000),
            ..MemcgLimits::default()
        },
    );
    tree.try_charge(0, b, Pages(150)).expect("no max");
    assert_eq!(tree.high_overages(b).memory, 1 << 19);
    assert_eq!(tree.pre_order(MemcgId::ROOT), [MemcgId::ROOT, a, b]);
}

/// Canaries: each plants one bug that `check_invariants` must find.
#[test]
#[should_panic(expected = "I1: memcg 0")]
fn canary_a_charge_that_does_not_go_up() {
    let mut tree = exact();
    let a = tree.create(MemcgId::ROOT);
    let node = tree.nodes[a.index()].as_mut().expect("just made");
    node.memcg.charge_unchecked(Pages(1));
    tree.check_invariants();
}

#[test]
#[should_panic(expected = "memcg 0")]
fn canary_protection_that_is_not_summed() {
    let mut tree = exact();
    let a = tree.create(MemcgId::ROOT);
    tree.try_charge(0, a, Pages(10)).expect("no limit");
    tree.set_limits(a, low(10));
    let root = tree.nodes[0].as_mut().expect("the root");
    root.children_low = Pages(0);
    tree.check_invariants();
}

/// The tree is `over`, below it `p`, and below that `a` and `b`. Each row has a group's measured
/// usage, the pages of its processes, and its protection (low and min). Returns which groups are
/// covered.
fn covered(rows: [(u64, u64, u64); 4], recursive: bool) -> [bool; 4] {
    let mut tree = MemcgTree::new(recursive, 1, 1);
    let over = tree.create(MemcgId::ROOT);
    let p = tree.create(over);
    let ids = [over, p, tree.create(p), tree.create(p)];
    for (id, (usage, charged, protected)) in ids.into_iter().zip(rows).rev() {
        let below: u64 = tree.children(id).map(|id| tree.get(id).charged().0).sum();
        tree.charge_forced(id, Pages(charged - below));
        tree.set_measured(id, Some(Pages(usage)));
        let limits = MemcgLimits {
            min: Pages(protected),
            ..low(protected)
        };
        tree.set_limits(id, limits);
        tree.check_invariants();
    }
    ids.map(|id| {
        tree.calculate_path(MemcgId::ROOT, id);
        let memcg = tree.get(id);
        assert_eq!(memcg.below_min(), memcg.below_low());
        memcg.below_min()
    })
}

/// Regression: programs' text is charged to the group that used it first, and some groups have
/// tables of pages that no process maps. Each child claimed the larger of its usage and its pages;
/// together that was more than both figures of the parent. So a part of a child below its min
/// counted as beyond min in each reclaim, until all its pages were gone.
#[test]
fn children_that_map_more_than_they_use_claim_no_more_than_their_parent_has() {
    let rows = [
        (720, 730, 800),
        (720, 730, 2000),
        (400, 430, 1000),
        (320, 300, 500),
    ];
    for recursive in [true, false] {
        assert_eq!(covered(rows, recursive), [true; 4], "{recursive}");
    }
}

/// A memcg with a process that was moved here and is charged elsewhere, beside a memcg without.
#[test]
fn a_moved_process_takes_nothing_from_its_siblings_protection() {
    let rows = [
        (900, 1500, 2000),
        (900, 1500, 2000),
        (0, 600, 600),
        (900, 900, 900),
    ];
    for recursive in [true, false] {
        assert_eq!(covered(rows, recursive), [true; 4], "{recursive}");
    }
    let less = [
        (900, 1500, 2000),
        (900, 1500, 2000),
        (0, 600, 400),
        (900, 900, 900),
    ];
    assert_eq!(covered(less, false), [true, true, false, true]);
}
