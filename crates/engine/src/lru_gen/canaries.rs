//! Canaries: each test corrupts a lruvec in one way that its invariant check must find.

use super::*;
use crate::lruvec::{FaultKind, Lruvec, Policy};
use crate::vmscan::ScanReason;

fn healthy() -> Lruvec {
    let mut lruvec = Lruvec::new(Policy::default(), Millis(0));
    lruvec.ensure(200);
    for id in (0..200).map(FolioId) {
        lruvec.fault_in(id, FolioType::Anon, FaultKind::FirstTouch, true, true);
    }
    for now in [5, 10, 15] {
        let seq = lruvec.lru_gen().max_seq();
        lruvec.inc_max_seq(seq, Swappiness::default(), Millis(now));
    }
    let mut isolated = Vec::new();
    let budget = IsolateBudget::default();
    lruvec.isolate(
        ScanReason::Direct,
        Swappiness::default(),
        budget,
        &mut isolated,
    );
    assert!(!isolated.is_empty());
    lruvec.evicted_all(&isolated, ScanReason::Direct);
    lruvec.check_invariants(Swappiness::default());
    lruvec
}

fn plant(bug: impl FnOnce(&mut LruGen, &mut FolioTable)) {
    let mut lruvec = healthy();
    let (lru, folios) = lruvec.multi_gen_mut().expect("multi-gen");
    bug(lru, folios);
    lruvec.check_invariants(Swappiness::default());
}

#[test]
#[should_panic(expected = "I3")]
fn a_page_is_counted_twice() {
    plant(|lru, _| lru.nr_pages[0][0] += 1);
}

#[test]
#[should_panic(expected = "I1")]
fn a_generation_too_many() {
    plant(|lru, _| {
        lru.max_seq += 1;
        let slot = slot_of(lru.max_seq);
        lru.timestamps[slot] = Millis(15);
    });
}

#[test]
#[should_panic(expected = "I5")]
fn a_generation_is_older_than_the_one_before() {
    plant(|lru, _| lru.timestamps[slot_of(lru.max_seq)] = Millis(1));
}

#[test]
#[should_panic(expected = "I6")]
fn the_types_have_drifted_apart() {
    plant(|lru, _| {
        lru.max_seq += 1;
        lru.min_seq = [lru.max_seq - 1, lru.max_seq - 3];
        // I6 is checked before the counts of pages, so these need not fit.
        lru.nr_pages = [[0; 2]; SLOTS];
        let slot = slot_of(lru.max_seq - 1);
        lru.nr_pages[slot][0] = lru.lists.live().try_into().expect("few");
    });
}

#[test]
#[should_panic(expected = "I3")]
fn a_page_changes_its_generation_uncounted() {
    plant(|lru, folios| {
        let (id, word) = folios
            .iter()
            .find(|(_, word)| word.state() == crate::word::State::Listed)
            .expect("a listed page");
        let next = (word.generation() + 1) % SLOTS;
        let window = lru.min_seq(FolioType::Anon)..=lru.max_seq;
        assert!(window.contains(&lru.seq_of(next, FolioType::Anon)));
        folios.set(id, word.with_generation(next));
    });
}

#[test]
#[should_panic(expected = "left in the future")]
fn a_shadow_is_from_the_future() {
    plant(|lru, folios| {
        let (id, word) = folios
            .iter()
            .find(|(_, word)| word.state() == crate::word::State::Shadow)
            .expect("an evicted page");
        let listed = word.into_state(crate::word::State::Listed);
        let off = listed.into_state(crate::word::State::OffList);
        let seq = u32::try_from(lru.max_seq + 5).expect("small");
        folios.set(id, off.into_shadow(seq << LRU_REFS_WIDTH, false));
    });
}
