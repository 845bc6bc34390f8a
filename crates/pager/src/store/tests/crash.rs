//! A manager that dies at each step of a batch, one after the other, and its successor.

use std::panic::{AssertUnwindSafe, catch_unwind};

use keeper::{Place, Word};
use proptest::prelude::*;
use proptest::sample::Index;

use super::{Both, Killed, WARM, assert_holds, page};
use crate::store::Compress;

#[test]
fn death_at_any_step_loses_nothing_and_leaks_nothing() {
    let seeds: Vec<u32> = (1..40).collect();
    for step in 0.. {
        let both = Both::new(2);
        let mut store = both.open(Compress::Lz4);
        let before: Vec<_> = seeds
            .iter()
            .map(|seed| (store.put(&page(*seed), WARM).unwrap(), *seed))
            .collect();
        let pages: Vec<_> = (100..130).map(page).collect();
        both.pool.set_fuse(Some(step));
        let put = || store.put_batch(&pages, WARM, &mut Vec::new());
        let survived = catch_unwind(AssertUnwindSafe(put));
        both.pool.set_fuse(None);

        let mut store = both.open(Compress::Lz4);
        store.rebuild(before.iter().map(|(place, _)| *place));
        both.check(before.iter().map(|(place, _)| place));
        let live = store.stats().live_bytes;
        let mut out = Vec::new();
        store.put_batch(&pages, WARM, &mut out);
        for (place, seed) in &before {
            assert_holds(&mut store, *place, *seed);
        }
        for place in out
            .into_iter()
            .flatten()
            .chain(before.into_iter().map(|(place, _)| place))
        {
            store.free(place);
        }
        assert_eq!(store.stats().live_bytes, 0, "leaked; {live} were live");

        match survived {
            Ok(()) => {
                assert!(step > pages.len() / 2, "the fuse burns in the batch");
                return;
            }
            Err(cause) => assert!(cause.is::<Killed>(), "died of something else"),
        }
    }
}

#[test]
fn a_rebuild_that_is_killed_can_be_run_again() {
    let both = Both::new(2);
    let mut store = both.open(Compress::Lz4);
    let mut places: Vec<_> = (1..60)
        .filter(|seed| seed % 4 != 0)
        .map(|seed| store.put(&page(seed), WARM).unwrap())
        .collect();
    for index in 0..places.len() / 2 {
        store.share(places[index]);
        places.push(places[index]);
    }
    for step in (0..places.len()).step_by(7) {
        both.pool.set_fuse(Some(step));
        let mut store = both.open(Compress::Lz4);
        let rebuild = || store.rebuild(places.iter().copied());
        assert!(catch_unwind(AssertUnwindSafe(rebuild)).is_err());
        let found = both.open(Compress::Lz4).rebuild(places.iter().copied());
        assert_eq!(found.references, places.len() as u64);
        both.check(places.iter());
    }
}

#[test]
fn a_hostile_table_is_refused_or_harmless() {
    let both = Both::new(1);
    let mut store = both.open(Compress::Lz4);
    // Every bit pattern that a word can name a place with, far out of bounds and overlapping.
    let words = (0..20_000u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) & !7 | 4);
    let places: Vec<_> = words
        .filter_map(|word| keeper::Word(word).place())
        .collect();
    let near = (0..2048u64).map(|n| keeper::Word(n << 25 | 4000 << 10 | 1 << 6 | 4));
    let places: Vec<_> = places
        .into_iter()
        .chain(near.filter_map(keeper::Word::place))
        .collect();
    let found = store.rebuild(places.iter().copied());
    assert!(found.refused > 0 && found.references > 1000, "{found:?}");
    let mut bytes = [0; 4096];
    for place in places {
        let _ = store.get(place, &mut bytes);
        store.free(place);
        store.free(place);
    }
    store.shrink();
    assert_eq!(store.stats().live_bytes, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Recovery from a table of which parts were changed or doubled: what is truly stored stays as
    /// it was, whatever the rest says, however much is stored after that.
    #[test]
    fn a_changed_table_cannot_harm_what_is_true(
        seeds in prop::collection::btree_set(1u32..500, 1..40),
        junk in prop::collection::vec((any::<Index>(), 6u32..64, any::<u64>()), 0..60),
        order in any::<u64>(),
    ) {
        let both = Both::new(2);
        let mut store = both.open(Compress::Lz4);
        let put = |seed: &u32| (store.put(&page(*seed), WARM).expect("room"), *seed);
        let true_ones: Vec<_> = seeds.iter().map(put).collect();
        let mut places: Vec<Place> = true_ones.iter().map(|(place, _)| *place).collect();
        for (at, bit, noise) in junk {
            // A bit of a true one turned, or noise that looks like a place in the pool.
            let word = Word::stored(places[at.index(places.len())], false).0;
            let near = ((noise % 2048) << 25) | (((noise >> 20) % 4096) << 10) | (1 << 6) | 4;
            let word = if noise % 3 == 0 { near } else { word ^ (1 << bit) };
            places.extend(Word(word).place());
        }
        let turn = usize::try_from(order).expect("64 bits") % places.len();
        places.rotate_left(turn);
        let mut store = both.open(Compress::Lz4);
        store.rebuild(places);
        let _ = (1000..1600).map(page).filter(|page| store.put(page, WARM).is_ok()).count();
        for (place, seed) in true_ones {
            assert_holds(&mut store, place, seed);
        }
    }
}
