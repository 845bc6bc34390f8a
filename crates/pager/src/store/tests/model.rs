//! Random puts, batches, frees of either side, forks, shrinking, full devices, kills and
//! rebuilds: every referenced page stays what it was, whatever else happened.

use std::panic::{AssertUnwindSafe, catch_unwind};

use keeper::Place;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};

use super::{Both, Killed, WARM, assert_holds, page};
use crate::store::{Compress, Store, Temperature};

#[derive(Clone, Debug)]
enum Op {
    Put(Vec<u32>, bool),
    Free(usize),
    KeeperFrees(usize),
    KeeperFreesMany(usize),
    Fork(usize),
    Shrink,
    Rebuild,
    Room(Option<usize>),
    KillIn(usize, Vec<u32>),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (prop::collection::vec(any::<u32>(), 1..40), any::<bool>()).prop_map(|(s, cold)| Op::Put(s, cold)),
        3 => any::<usize>().prop_map(Op::Free),
        3 => any::<usize>().prop_map(Op::KeeperFrees),
        2 => (2..5usize).prop_map(Op::KeeperFreesMany),
        2 => any::<usize>().prop_map(Op::Fork),
        1 => Just(Op::Shrink),
        1 => Just(Op::Rebuild),
        1 => prop::option::of(0..40_000usize).prop_map(Op::Room),
        1 => (0..12usize, prop::collection::vec(any::<u32>(), 1..8)).prop_map(|(n, s)| Op::KillIn(n, s)),
    ]
}

struct World {
    both: Both,
    compress: Compress,
    store: Store,
    references: Vec<(Place, u32)>,
}

impl World {
    fn new(compress: Compress) -> World {
        let both = Both::new(3);
        let store = both.open(compress);
        World {
            both,
            compress,
            store,
            references: Vec::new(),
        }
    }

    fn put(&mut self, seeds: &[u32], hint: Temperature) {
        let pages: Vec<_> = seeds.iter().map(|seed| page(*seed)).collect();
        let mut out = Vec::new();
        self.store.put_batch(&pages, hint, &mut out);
        assert_eq!(out.len(), seeds.len());
        for (seed, result) in seeds.iter().zip(out) {
            self.references
                .extend(result.ok().map(|place| (place, *seed)));
        }
    }

    fn remove(&mut self, index: usize) -> Option<Place> {
        let index = index.checked_rem(self.references.len())?;
        Some(self.references.swap_remove(index).0)
    }

    fn rebuild(&mut self) {
        let places = self.references.iter().map(|(place, _)| *place);
        let found = self.store.rebuild(places);
        assert_eq!(found.references, self.references.len() as u64);
        assert_eq!(found.refused, 0);
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Put(seeds, false) => self.put(seeds, WARM),
            Op::Put(seeds, true) => self.put(seeds, Temperature::Cold),
            Op::Free(index) => {
                if let Some(place) = self.remove(*index) {
                    self.store.free(place);
                }
            }
            Op::KeeperFrees(index) => {
                if let Some(place) = self.remove(*index) {
                    self.both.keeper_frees(place);
                }
            }
            Op::KeeperFreesMany(stride) => {
                for index in (0..self.references.len()).rev().step_by(*stride) {
                    let (place, _) = self.references.swap_remove(index);
                    self.both.keeper_frees(place);
                }
            }
            Op::Fork(index) => {
                if let Some(index) = index.checked_rem(self.references.len()) {
                    self.store.share(self.references[index].0);
                    self.references.push(self.references[index]);
                }
            }
            Op::Shrink => {
                self.store.shrink();
            }
            Op::Rebuild => self.rebuild(),
            Op::Room(room) => self.both.file.set_room(*room),
            Op::KillIn(steps, seeds) => self.kill_in(*steps, seeds),
        }
    }

    /// The manager dies while it puts; what it had not handed out is nobody's.
    fn kill_in(&mut self, steps: usize, seeds: &[u32]) {
        self.both.pool.set_fuse(Some(steps));
        let survived = catch_unwind(AssertUnwindSafe(|| self.put(seeds, WARM)));
        self.both.pool.set_fuse(None);
        if let Err(cause) = survived {
            assert!(cause.is::<Killed>(), "died of something else");
            self.store = self.both.open(self.compress);
            self.rebuild();
        }
    }

    fn check(&mut self) {
        self.both
            .check(self.references.iter().map(|(place, _)| place));
        for (place, seed) in &self.references {
            assert_holds(&mut self.store, *place, *seed);
        }
    }
}

#[test]
fn every_referenced_page_stays_what_it_was() {
    let seed = std::env::var("PAGETIDE_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("PAGETIDE_SEED={seed} repeats this run");
    let config = ProptestConfig {
        cases: 128,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let compress = prop::sample::select(vec![Compress::Lz4, Compress::Tiered, Compress::None]);
    let ops = (compress, prop::collection::vec(op(), 1..40));
    let run = TestRunner::new(config).run(&ops, |(compress, ops)| {
        let mut world = World::new(compress);
        for op in &ops {
            world.apply(op);
            world.check();
        }
        Ok(())
    });
    run.unwrap_or_else(|failure| panic!("{failure}"));
}
