//! The numbered tests of rstat.md 9.

use super::*;
use crate::units::Millis;

/// Creates the root, A below it, and B below A, with two statistics, updated by `workers` workers;
/// also returns A and B.
fn chain(workers: usize) -> (Rstat, GroupId, GroupId) {
    let mut rstat = Rstat::new(2, workers);
    let a = rstat.create(GroupId::ROOT);
    let b = rstat.create(a);
    (rstat, a, b)
}

fn total_and_local(rstat: &Rstat, id: GroupId) -> (u64, u64) {
    (rstat.total(id, 0), rstat.local(id, 0))
}

#[test]
fn test_01_chain() {
    let (mut rstat, a, b) = chain(2);
    rstat.update(0, b, 0, 3);
    rstat.update(1, a, 0, 2);
    rstat.flush(GroupId::ROOT);
    assert_eq!(
        (total_and_local(&rstat, b), total_and_local(&rstat, a)),
        ((3, 3), (5, 2))
    );
    assert_eq!(total_and_local(&rstat, GroupId::ROOT), (5, 0));
    rstat.check_flushed();
}

/// Tests 2 and 3: a bug that the author of the kernel's patch found six days after posting it. A
/// child's -5 and the parent's own +5 on the same worker sum to zero; the parent's local +5 must
/// not be lost.
#[test]
fn test_02_opposite_changes_of_parent_and_child() {
    for flush_between in [false, true] {
        for stat in 0..2 {
            let (mut rstat, a, b) = chain(1);
            rstat.update(0, b, stat, -5);
            if flush_between {
                rstat.flush(GroupId::ROOT);
            }
            rstat.update(0, a, stat, 5);
            rstat.flush(GroupId::ROOT);
            rstat.check_flushed();
            assert_eq!((rstat.total(a, stat), rstat.local(a, stat)), (0, 5));
            assert_eq!(rstat.group(b).local[stat], -5);
            assert_eq!(rstat.local(b, stat), 0, "negative reads as zero");
        }
    }
}

#[test]
fn test_04_flush_of_a_subtree() {
    let (mut rstat, a, b) = chain(1);
    rstat.update(0, b, 0, 3);
    rstat.flush(b);
    assert_eq!(
        (total_and_local(&rstat, b), total_and_local(&rstat, a)),
        ((3, 3), (0, 0))
    );
    assert_eq!(rstat.group(a).pending[0], 3);
    for _ in 0..2 {
        rstat.flush(GroupId::ROOT);
        assert_eq!(total_and_local(&rstat, a), (3, 0));
        rstat.check_flushed();
    }
}

#[test]
fn test_05_only_updated_groups_are_flushed() {
    let (mut rstat, _, b) = chain(256);
    rstat.update(77, b, 0, 1);
    rstat.flush(GroupId::ROOT);
    assert_eq!(rstat.flushes(), 3);
    rstat.flush(GroupId::ROOT);
    assert_eq!(rstat.flushes(), 3);
}

#[test]
fn test_06_and_07_order_of_the_updated_tree() {
    let (mut rstat, a, b) = chain(1);
    let c = rstat.create(a);
    for id in [b, a, c, b] {
        rstat.update(0, id, 0, 1);
    }
    for id in [GroupId::ROOT, a, b, c] {
        assert!(rstat.updated.is_listed(0, id.index()));
    }
    let mut order = Vec::new();
    rstat.updated.pop_subtree(0, 0, None, &mut order);
    assert_eq!(order.len(), 4);
    for (at, &index) in order.iter().enumerate() {
        let parent = rstat.groups[index].as_ref().and_then(|g| g.parent);
        let parent_at = parent.and_then(|p| order.iter().position(|&o| o == p.index()));
        assert!(parent_at.is_none_or(|p| p > at), "{order:?}");
    }
    rstat.updated.check_empty();
}

#[test]
fn test_08_and_09_charge_here_and_uncharge_there() {
    let (mut rstat, a, b) = chain(2);
    rstat.update(0, b, 0, 10);
    rstat.update(1, b, 0, -10);
    rstat.flush(GroupId::ROOT);
    assert_eq!(
        (total_and_local(&rstat, b), total_and_local(&rstat, a)),
        ((0, 0), (0, 0))
    );
    rstat.update(1, b, 0, -4);
    rstat.flush(GroupId::ROOT);
    assert_eq!(total_and_local(&rstat, b), (0, 0));
    rstat.update(0, b, 0, 6);
    rstat.flush(GroupId::ROOT);
    assert_eq!(
        total_and_local(&rstat, b),
        (2, 2),
        "added to the true value"
    );
}

#[test]
fn test_10_threshold() {
    let (mut rstat, _, b) = chain(4);
    for _ in 0..4 {
        rstat.update(0, b, 0, 64);
    }
    assert_eq!(
        (rstat.stats_updates(b), rstat.flush_needed(b)),
        (256, false)
    );
    rstat.update(0, b, 0, 64);
    assert_eq!((rstat.stats_updates(b), rstat.flush_needed(b)), (320, true));
    assert!(rstat.flush_needed(GroupId::ROOT), "I9");
    assert!(Flusher::default().before_read(&mut rstat, b));
    assert_eq!((rstat.stats_updates(b), rstat.total(b, 0)), (0, 320));
}

#[test]
fn test_11_small_changes_wait_for_the_periodic_flush() {
    let (mut rstat, _, b) = chain(4);
    let mut flusher = Flusher::default();
    rstat.update(0, b, 0, 10);
    assert!(!flusher.before_read(&mut rstat, b) && rstat.total(b, 0) == 0);
    assert!(!flusher.periodic(&mut rstat, Millis(1999)));
    assert!(flusher.periodic(&mut rstat, Millis(2000)));
    assert_eq!(rstat.total(b, 0), 10);
}

#[test]
fn test_12_rate_limited_reads() {
    let (mut rstat, _, b) = chain(1);
    let mut flusher = Flusher::default();
    assert!(flusher.periodic(&mut rstat, Millis(10_000)));
    rstat.update(0, b, 0, 1000);
    assert!(!flusher.before_limited_read(&mut rstat, b, Millis(10_001)));
    assert!(flusher.before_limited_read(&mut rstat, b, Millis(15_000)));
    assert_eq!(rstat.total(b, 0), 1000);
}

/// Test 13, but deterministic: updates and flushes in three levels, in an order that a seed
/// decides.
#[test]
fn test_13_interleaved_stress() {
    let mut rstat = Rstat::new(3, 8);
    let mut ids = alloc::vec![GroupId::ROOT];
    for n in 1..100 {
        let parent = if n <= 10 {
            GroupId::ROOT
        } else {
            ids[1 + n % 10]
        };
        ids.push(rstat.create(parent));
    }
    let mut x = 0x1357_9bdfu32;
    let mut sums = [0i64; 3];
    for _ in 0..30_000 {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        let id = ids[(x >> 8) as usize % ids.len()];
        if x.is_multiple_of(50) {
            rstat.flush(id);
        } else {
            let stat = (x >> 20) as usize % 3;
            let delta = i64::from(x >> 24) - 100;
            rstat.update(x as usize % 8, id, stat, delta);
            sums[stat] += delta;
        }
    }
    rstat.flush(GroupId::ROOT);
    rstat.check_flushed();
    for (stat, sum) in sums.into_iter().enumerate() {
        assert_eq!(rstat.group(GroupId::ROOT).total[stat], sum);
    }
}

#[test]
fn test_14_removal() {
    let (mut rstat, a, b) = chain(2);
    rstat.update(1, b, 0, 7);
    rstat.remove(b);
    rstat.flush(GroupId::ROOT);
    assert_eq!(total_and_local(&rstat, a), (7, 0));
    rstat.check_flushed();
}

/// Test 15, which counts flushes instead of measuring times: local values agree with the sum over
/// all workers.
#[test]
fn test_15_local_reads_agree_with_summing() {
    let (mut rstat, _, b) = chain(256);
    for worker in 0..256 {
        rstat.update(worker, b, 0, 2);
    }
    rstat.flush(GroupId::ROOT);
    assert_eq!(rstat.local(b, 0), 512);
    assert_eq!(rstat.local_by_summing(b, 0), 512);
    assert_eq!(rstat.flushes(), 3 * 256);
}

/// A flush reads the changed lines, and the pending values of the groups that it visits. Summing
/// reads one counter of each worker that ever changed the group.
#[test]
fn counter_reads_are_counted_where_they_happen() {
    let (mut rstat, _, b) = chain(256);
    rstat.flush(GroupId::ROOT);
    assert_eq!((rstat.counters_read(), rstat.summed(b, 0)), (0, (0, 0)));
    for worker in 0..3 {
        rstat.update(worker, b, 0, 2);
    }
    rstat.flush(GroupId::ROOT);
    // The flush reads a line of eight counters on each of three workers, and two pending statistics
    // in each of three groups.
    assert_eq!(
        (rstat.counters_read(), rstat.summed(b, 0)),
        (3 * 8 + 3 * 2, (6, 3))
    );
    rstat.flush(GroupId::ROOT);
    assert_eq!(rstat.counters_read(), 30, "nothing has changed");
}

/// For canaries: corrupts the statistics in one way, which `check_flushed` must find.
fn planted(bug: impl FnOnce(&mut Rstat, GroupId, GroupId)) {
    let (mut rstat, a, b) = chain(2);
    rstat.update(0, b, 0, 3);
    rstat.update(1, a, 0, 2);
    rstat.flush(GroupId::ROOT);
    bug(&mut rstat, a, b);
    rstat.check_flushed();
}

#[test]
#[should_panic(expected = "I1: group")]
fn canary_a_parent_misses_its_child() {
    planted(|rstat, a, _| rstat.groups[a.index()].as_mut().expect("there").total[0] -= 3);
}

#[test]
#[should_panic(expected = "I3: group")]
fn canary_a_change_stays_pending() {
    planted(|rstat, a, _| rstat.groups[a.index()].as_mut().expect("there").pending[0] = 1);
}

/// A worker's change is lost: total and local values agree with each other, but not with the
/// workers' sums.
#[test]
#[should_panic(expected = "I2: group")]
fn canary_a_worker_is_forgotten() {
    planted(|rstat, _, b| {
        for id in [GroupId::ROOT, GroupId(1), b] {
            rstat.groups[id.index()].as_mut().expect("there").total[0] -= 3;
        }
        rstat.groups[b.index()].as_mut().expect("there").local[0] -= 3;
    });
}
