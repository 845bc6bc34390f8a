//! Limits, full devices and what is found again after keepers freed behind our back.

use std::io;
use std::sync::atomic::Ordering;

use keeper::Place;
use keeper::word::{self, Bytes, Slot};

use super::{Both, WARM, assert_holds, page};
use crate::store::{Compress, Store, StoreFull};

/// Seeds of pages that do not compress: 32 fill a slab.
fn noise() -> impl Iterator<Item = u32> {
    (0u32..).map(|n| n * 4 + 1)
}

fn slot(place: Place) -> Slot {
    match place.bytes() {
        Some(Bytes::Slot(slot)) => slot,
        other => panic!("not a slot: {other:?}"),
    }
}

fn fill(store: &mut Store) -> (Vec<(Place, u32)>, StoreFull) {
    let mut stored = Vec::new();
    for seed in noise().take(10_000) {
        match store.put(&page(seed), WARM) {
            Ok(place) => stored.push((place, seed)),
            Err(full) => return (stored, full),
        }
    }
    panic!("the limit does not hold")
}

#[test]
fn the_pool_overflows_into_the_file_and_the_file_into_not_evicted() {
    let both = Both::new(2);
    let mut store = both.open(Compress::Lz4);
    let (stored, full) = fill(&mut store);
    assert_eq!((stored.len(), full), (128, StoreFull::Limit));
    let tiers: Vec<_> = stored.iter().map(|(place, _)| slot(*place).tier).collect();
    assert!(tiers[..64].iter().all(|tier| *tier == word::Tier::Pool));
    assert!(tiers[64..].iter().all(|tier| *tier == word::Tier::File));
    assert!(
        store.put(&page(0), WARM).is_ok(),
        "a page of one word needs no room"
    );
    for (place, seed) in stored {
        assert_holds(&mut store, place, seed);
    }
}

#[test]
fn all_that_keepers_freed_is_found_again() {
    let both = Both::new(2);
    let mut store = both.open(Compress::Lz4);
    for round in 0..4 {
        let (stored, _) = fill(&mut store);
        assert_eq!(stored.len(), 128, "round {round}");
        stored
            .iter()
            .for_each(|(place, _)| both.keeper_frees(*place));
    }
}

#[test]
fn one_slot_freed_anywhere_is_found_before_a_page_is_refused() {
    let both = Both::new(16);
    let mut store = both.open(Compress::Lz4);
    let (mut stored, _) = fill(&mut store);
    for index in [0, 700, 300, 1023, 5] {
        both.keeper_frees(stored[index].0);
        stored[index].0 = store
            .put(&page(stored[index].1), WARM)
            .expect("a free slot");
    }
    both.check(stored.iter().map(|(place, _)| place));
}

#[test]
fn a_batch_longer_than_a_slab_and_than_a_tier_is_stored_whole() {
    let both = Both::new(2);
    let mut store = both.open(Compress::Lz4);
    let seeds: Vec<u32> = noise().take(130).collect();
    let pages: Vec<_> = seeds.iter().map(|seed| page(*seed)).collect();
    let mut out = Vec::new();
    store.put_batch(&pages, WARM, &mut out);
    assert!(out[128..] == [Err(StoreFull::Limit); 2]);
    for (seed, result) in seeds.iter().zip(&out).take(128) {
        assert_holds(&mut store, result.expect("room for 128"), *seed);
    }
}

#[test]
fn a_slot_of_a_fork_lives_until_both_are_done() {
    let both = Both::new(1);
    let mut store = both.open(Compress::Lz4);
    let place = store.put(&page(1), WARM).unwrap();
    store.share(place);
    store.free(place);
    fill(&mut store);
    assert_holds(&mut store, place, 1);
    both.keeper_frees(place);
    assert!(store.put(&page(5), WARM).is_ok(), "its granules are free");
}

#[test]
fn a_full_disk_means_not_evicted_and_tears_nothing() {
    let both = Both::new(2);
    let mut store = both.open(Compress::None);
    // The write is cut in the middle of a page: at the third of the batch in the file tier.
    both.pool.set_room(Some(0));
    both.file.set_room(Some(2 * 4096 + 1000));
    let pages: Vec<_> = noise().take(4).map(page).collect();
    let mut out = Vec::new();
    store.put_batch(&pages, WARM, &mut out);
    let full = StoreFull::Device(io::ErrorKind::StorageFull);
    assert_eq!(out, [Err(full); 4]);
    let counts = both.pool.counts.iter().chain(both.file.counts.iter());
    assert!(
        counts
            .map(|count| count.load(Ordering::Relaxed))
            .all(|count| count == 0)
    );
    assert_eq!(store.stats().live_bytes, 0);
    assert_eq!(store.stats().refused, 4);

    both.file.set_room(None);
    let place = store.put(&pages[0], WARM).unwrap();
    assert_eq!(slot(place).tier, word::Tier::File);
    assert_holds(&mut store, place, 1);
}

#[test]
fn neighbours_lie_side_by_side() {
    let both = Both::new(4);
    let mut store = both.open(Compress::Tiered);
    let seeds: Vec<u32> = (1..200).filter(|seed| seed % 4 >= 2).take(32).collect();
    let pages: Vec<_> = seeds.iter().map(|seed| page(*seed)).collect();
    let mut out = Vec::new();
    store.put_batch(&pages, WARM, &mut out);
    let slots: Vec<_> = out.into_iter().map(|place| slot(place.unwrap())).collect();
    for pair in slots.windows(2) {
        let end = pair[0].offset + u64::from(pair[0].len).next_multiple_of(64);
        assert_eq!(pair[1].offset, end);
    }
}

#[test]
fn a_saturated_count_is_never_freed_until_rebuilt() {
    let both = Both::new(1);
    let mut store = both.open(Compress::Lz4);
    let place = store.put(&page(1), WARM).unwrap();
    (0..70_000).for_each(|_| store.share(place));
    (0..80_000).for_each(|_| store.free(place));
    fill(&mut store);
    assert_holds(&mut store, place, 1);
    store.rebuild([place]);
    store.free(place);
    assert_eq!(store.stats().live_bytes, 0);
}
