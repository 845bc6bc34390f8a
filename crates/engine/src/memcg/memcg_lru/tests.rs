//! The numbered tests of memcg-lru.md 10 that need no memory.

use super::*;

fn online(nr: u32) -> MemcgLru {
    let mut lru = MemcgLru::new(MemcgProfile::Newer, 1);
    (0..nr).for_each(|id| lru.online(MemcgId(id)));
    lru.check_invariants();
    lru
}

fn nr(lru: &MemcgLru) -> (usize, usize) {
    (
        lru.nr_memcgs(lru.old_slot()),
        lru.nr_memcgs(lru.young_slot()),
    )
}

#[test]
fn test_01_online() {
    let lru = online(5);
    assert_eq!(nr(&lru), (5, 0));
    assert!((0..5).all(|id| lru.segment(MemcgId(id)) == Segment::Default));
}

#[test]
fn test_02_young_until_the_old_slot_is_empty() {
    let mut lru = online(5);
    (0..4).for_each(|id| lru.rotate(MemcgId(id), MemcgOp::Young));
    assert_eq!((nr(&lru), lru.seq()), ((1, 4), 0));
    lru.rotate(MemcgId(4), MemcgOp::Young);
    assert_eq!((nr(&lru), lru.seq()), ((5, 0), 1));
    lru.check_invariants();
}

#[test]
fn test_03_head_and_tail_stay() {
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
    assert_eq!((nr(&lru), lru.seq()), ((2, 0), 0));
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
    assert_eq!((nr(&lru), lru.seq()), ((1, 0), 1));
    lru.check_invariants();
}

/// Test 10: B moves the entry at A's cursor; A starts its bin anew and sees no young entry.
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

/// R2 and I9: the pending operation is carried out once, when the walk moves on or ends.
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
    assert_eq!((lru.slot_of(second), nr(&lru)), (Some(1), (8, 2)));
}

/// Test 15, deterministically: eight walks and all operations interleaved by a seed.
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
        assert!(seq > 10, "{profile:?}: the test must get somewhere: {seq}");
    }
}

/// Canaries: each plants one bug that `check_invariants` must find.
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

/// A reclaimer that always ends early. With random starts, the numbers of visits to each memcg
/// would spread by a fifth of their mean over 300 walks.
#[test]
fn in_turn_all_are_met_as_often() {
    let mut lru = MemcgLru::new(MemcgProfile::Newer, 7);
    let ids: Vec<MemcgId> = (1..=50).map(MemcgId).collect();
    ids.iter().for_each(|id| lru.online(*id));
    lru.set_in_turn();
    let mut met = [0_u32; 51];
    for walks in 0..300 {
        let mut walk = MemcgWalk::new(&mut lru);
        for _ in 0..=(walks * 7 % 13) {
            let Some(id) = walk.next(&mut lru) else { break };
            met[id.index()] += 1;
        }
        walk.finish(&mut lru);
        lru.check_invariants();
    }
    let (least, most) = (met[1..].iter().min(), met[1..].iter().max());
    let apart = most.zip(least).map(|(most, least)| most - least);
    assert!(apart <= Some(1), "{met:?}");
}

/// A memcg that moves away does not change the order of those that stay.
#[test]
fn in_turn_an_entry_that_stays_is_met_again_after_all_others() {
    let mut lru = MemcgLru::new(MemcgProfile::Newer, 3);
    let ids: Vec<MemcgId> = (1..=20).map(MemcgId).collect();
    ids.iter().for_each(|id| lru.online(*id));
    lru.set_in_turn();
    let mut met = [0_u32; 21];
    while met[1..].contains(&0) {
        let mut walk = MemcgWalk::new(&mut lru);
        for _ in 0..3 {
            let Some(id) = walk.next(&mut lru) else { break };
            met[id.index()] += 1;
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
    assert!(met.iter().all(|times| *times <= 2), "{met:?}");
}
