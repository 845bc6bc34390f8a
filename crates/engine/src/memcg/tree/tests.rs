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
fn a_charge_counts_in_all_ancestors_and_a_refused_one_in_none() {
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
        "worker 1 dropped its stock of a for one of b"
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

/// If two children claim more memory.low than their parent has, the tree gives each a part in
/// proportion.
/// spec: reclaim-control.md 11, test 1.
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

/// Memory.low that no child claims is divided by usage only with memory_recursiveprot.
/// spec: reclaim-control.md 11, tests 2 and 3.
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

/// Regression: in this tree the control groups of a host are children of a memcg that stands for
/// the root of their hierarchy. They got no protection, because that memcg has none to distribute.
#[test]
fn a_hierarchy_root_does_not_limit_its_childrens_protection() {
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
fn the_largest_overage_of_all_ancestors_counts() {
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

/// Canaries: each of the tests below corrupts the tree in one way that `check_invariants` must
/// find.
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

/// Builds a chain of a grandparent, a parent, and the parent's two children. Each row has a group's
/// measured usage, the charged pages of its subtree, and its protection (both min and low), in
/// pages. Returns which groups are fully protected.
fn covered(rows: [(u64, u64, u64); 4], recursive: bool) -> [bool; 4] {
    let mut tree = MemcgTree::new(recursive, 1, 1);
    let grandparent = tree.create(MemcgId::ROOT);
    let parent = tree.create(grandparent);
    let ids = [
        grandparent,
        parent,
        tree.create(parent),
        tree.create(parent),
    ];
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

/// Regression: the code of programs is charged only to the group that used it first, and some
/// groups have charged pages that no process maps. Each child claimed the larger of its usage and
/// its charged pages; the sum of the claims exceeded both figures of the parent. So each reclaim
/// took a part of a child below its min, until all its pages were gone.
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

/// Of two siblings one has a process that was moved there and whose pages are charged elsewhere. It
/// takes no protection from the other.
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
    let partly_protected = [
        (900, 1500, 2000),
        (900, 1500, 2000),
        (0, 600, 400),
        (900, 900, 900),
    ];
    assert_eq!(covered(partly_protected, false), [true, true, false, true]);
}
