//! The numbered tests of memcg-lru.md 10 that need no memory.

use super::*;

fn online(nr: u32) -> MemcgLru {
    let mut lru = MemcgLru::new(MemcgProfile::Newer, 1);
    (0..nr).for_each(|id| lru.online(MemcgId(id)));
    lru.check_invariants();
    lru
}

fn old_and_young_counts(lru: &MemcgLru) -> (usize, usize) {
    (
        lru.nr_memcgs(lru.old_slot()),
        lru.nr_memcgs(lru.young_slot()),
    )
}

#[test]
fn test_01_online() {
    let lru = online(5);
    assert_eq!(old_and_young_counts(&lru), (5, 0));
    assert!((0..5).all(|id| lru.segment(MemcgId(id)) == Segment::Default));
}

#[test]
fn test_02_young_until_the_old_slot_is_empty() {
    let mut lru = online(5);
    (0..4).for_each(|id| lru.rotate(MemcgId(id), MemcgOp::Young));
    assert_eq!((old_and_young_counts(&lru), lru.seq()), ((1, 4), 0));
    lru.rotate(MemcgId(4), MemcgOp::Young);
    assert_eq!((old_and_young_counts(&lru), lru.seq()), ((5, 0), 1));
    lru.check_invariants();
}

#[test]
fn test_03_head_and_tail_keep_the_generation() {
    let mut lru = online(1);
    lru.rotate(MemcgId(0), MemcgOp::Head);
    assert_eq!(lru.segment(MemcgId(0)), Segment::Head);
    lru.rotate(MemcgId(0), MemcgOp::Tail);
    assert_eq!((lru.seq(), lru.slot_of(MemcgId(0))), (0, Some(0)));
    assert_eq!(lru.segment(MemcgId(0)), Segment::Tail);
}

#[test]
fn test_04_offline_is_next() {
    let mut lru = online(2);
    lru.rotate(MemcgId(0), MemcgOp::Young);
    lru.offline(MemcgId(0));
    assert_eq!((old_and_young_counts(&lru), lru.seq()), ((2, 0), 0));
    let bin = lru.bin_of(MemcgId(0)).expect("linked");
    assert_eq!(
        lru.bin(lru.old_slot(), bin)[0],
        MemcgId(0),
        "head of its bin"
    );
    assert_eq!(lru.segment(MemcgId(0)), Segment::Default);
}

#[test]
fn test_05_release_of_the_last_advances() {
    let mut lru = online(2);
    lru.rotate(MemcgId(0), MemcgOp::Young);
    lru.release(MemcgId(1));
    assert_eq!((old_and_young_counts(&lru), lru.seq()), ((1, 0), 1));
    lru.check_invariants();
}

/// Test 10: another reclaimer moves the entry at a walk's cursor. The walk starts its bin again,
/// and visits no entry of the young generation.
#[test]
fn test_10_a_moved_cursor() {
    let mut lru = online(40);
    let mut walk = MemcgWalk::new(&mut lru);
    let first = walk.next(&mut lru).expect("entries");
    let bin = lru.bin_of(first).expect("linked");
    let before = lru.bin(0, bin);
    lru.rotate(first, MemcgOp::Young);
    let second = walk.next(&mut lru).expect("entries");
    assert_eq!(
        (lru.slot_of(second), Some(second)),
        (Some(0), before.get(1).copied())
    );
    let mut seen = alloc::vec![second];
    while let Some(id) = walk.next(&mut lru) {
        assert_eq!(lru.slot_of(id), Some(0));
        seen.push(id);
    }
    seen.sort();
    assert_eq!(seen.len(), 39);
    seen.dedup();
    assert_eq!(seen.len(), 39, "each once");
}

#[test]
fn test_11_soft_limit_moves_once() {
    let mut lru = online(100);
    lru.soft_limit_exceeded(MemcgId(7));
    let before = lru.bin_of(MemcgId(7));
    for _ in 0..20 {
        lru.soft_limit_exceeded(MemcgId(7));
        assert_eq!(lru.bin_of(MemcgId(7)), before);
    }
    lru.check_invariants();
}

#[test]
fn test_12_a_full_walk_visits_each_once() {
    for seed in 0..20 {
        let mut lru = MemcgLru::new(MemcgProfile::Newer, seed);
        (0..8).for_each(|id| lru.online(MemcgId(id)));
        let mut walk = MemcgWalk::new(&mut lru);
        let mut seen: Vec<u32> = core::iter::from_fn(|| walk.next(&mut lru))
            .map(|id| id.0)
            .collect();
        walk.finish(&mut lru);
        seen.sort_unstable();
        assert_eq!(seen, (0..8).collect::<Vec<_>>(), "seed {seed}");
    }
}

/// R2 and I9: a pending move is made once, when the walk continues or ends.
#[test]
fn a_pending_op_waits_for_the_next_step() {
    let mut lru = online(10);
    let mut walk = MemcgWalk::new(&mut lru);
    let first = walk.next(&mut lru).expect("entries");
    walk.pend(MemcgOp::Young);
    assert_eq!(lru.slot_of(first), Some(0));
    let second = walk.next(&mut lru).expect("entries");
    assert_eq!(lru.slot_of(first), Some(1));
    walk.pend(MemcgOp::Young);
    walk.finish(&mut lru);
    assert_eq!(
        (lru.slot_of(second), old_and_young_counts(&lru)),
        (Some(1), (8, 2))
    );
}

/// Test 15, but deterministic: eight walks and all operations interleaved in an order that a seed
/// decides.
#[test]
fn test_15_interleaved_stress() {
    for profile in [MemcgProfile::Seed, MemcgProfile::Newer] {
        let mut lru = MemcgLru::new(profile, 42);
        (0..50).for_each(|id| lru.online(MemcgId(id)));
        let mut walks: Vec<MemcgWalk> = (0..8).map(|_| MemcgWalk::new(&mut lru)).collect();
        let mut x = 0x9e37_79b9u32;
        let mut seq = 0;
        for _ in 0..20_000 {
            x ^= x << 13;
            x ^= x >> 17;
            x ^= x << 5;
            let id = MemcgId(x >> 8 & 63);
            let op = [
                MemcgOp::Head,
                MemcgOp::Tail,
                MemcgOp::Old,
                MemcgOp::Young,
                MemcgOp::Nop,
            ];
            match x % 64 {
                0 if lru.slot_of(id).is_none() => lru.online(id),
                0 => lru.offline(id),
                1 => lru.release(id),
                2 => lru.rotate(id, op[(x >> 20) as usize % 5]),
                _ => {
                    let walk = &mut walks[(x >> 16) as usize % 8];
                    if walk.next(&mut lru).is_none() {
                        *walk = MemcgWalk::new(&mut lru);
                    }
                    let young = x >> 24 & 3 > 0;
                    walk.pend(if young {
                        MemcgOp::Young
                    } else {
                        op[(x >> 20) as usize % 5]
                    });
                }
            }
            lru.check_invariants();
            assert!(lru.seq() >= seq, "I4");
            seq = lru.seq();
        }
        assert!(seq > 10, "{profile:?}: too few generations passed: {seq}");
    }
}

/// Canaries: each of the tests below corrupts the LRU in one way that `check_invariants` must find.
#[test]
#[should_panic(expected = "I2: slot 0")]
fn canary_a_memcg_is_miscounted() {
    let mut lru = online(5);
    lru.nr_memcgs[0] -= 1;
    lru.check_invariants();
}

#[test]
#[should_panic(expected = "I3: slot")]
fn canary_a_memcg_remains_in_an_unused_slot() {
    let mut lru = online(5);
    let slot = (0..lru.profile.slots())
        .find(|&slot| slot != lru.old_slot() && slot != lru.young_slot())
        .expect("three slots");
    lru.links.unlink(MemcgId(0));
    lru.nr_memcgs[lru.old_slot()] -= 1;
    lru.links.push_head(slot * MEMCG_NR_BINS, MemcgId(0));
    lru.nr_memcgs[slot] += 1;
    lru.check_invariants();
}

/// With reclaimers that always end early, all memcgs are visited equally often. With random starts,
/// the standard deviation of the visits to each memcg after 300 walks would be a fifth of the mean.
#[test]
fn in_turn_all_memcgs_are_visited_equally_often() {
    let mut lru = MemcgLru::new(MemcgProfile::Newer, 7);
    let ids: Vec<MemcgId> = (1..=50).map(MemcgId).collect();
    ids.iter().for_each(|id| lru.online(*id));
    lru.set_in_turn();
    let mut visits = [0_u32; 51];
    for walks in 0..300 {
        let mut walk = MemcgWalk::new(&mut lru);
        for _ in 0..=(walks * 7 % 13) {
            let Some(id) = walk.next(&mut lru) else { break };
            visits[id.index()] += 1;
        }
        walk.finish(&mut lru);
        lru.check_invariants();
    }
    let (least, most) = (visits[1..].iter().min(), visits[1..].iter().max());
    let difference = most.zip(least).map(|(most, least)| most - least);
    assert!(difference <= Some(1), "{visits:?}");
}

/// A memcg that moves to the young generation does not change the order of the others.
#[test]
fn in_turn_no_entry_is_visited_again_before_all_others() {
    let mut lru = MemcgLru::new(MemcgProfile::Newer, 3);
    let ids: Vec<MemcgId> = (1..=20).map(MemcgId).collect();
    ids.iter().for_each(|id| lru.online(*id));
    lru.set_in_turn();
    let mut visits = [0_u32; 21];
    while visits[1..].contains(&0) {
        let mut walk = MemcgWalk::new(&mut lru);
        for _ in 0..3 {
            let Some(id) = walk.next(&mut lru) else { break };
            visits[id.index()] += 1;
            let op = if id.0 % 3 == 0 {
                MemcgOp::Young
            } else {
                MemcgOp::Nop
            };
            walk.pend(op);
        }
        walk.finish(&mut lru);
        lru.check_invariants();
    }
    assert!(visits.iter().all(|times| *times <= 2), "{visits:?}");
}
