//! Tests with frames far from each other: chunks that are widened, split and joined must agree with
//! a plain map of frames, and take little memory.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{ANON, OLD, YOUNG};
use crate::age_table::{AgeTable, Owner};

/// An age table, and a map of each frame's owner and last access.
struct World {
    age_table: AgeTable,
    owners: Vec<Owner>,
    model: BTreeMap<u64, (Owner, u64)>,
    now_ms: u64,
}

impl World {
    fn new(owners: usize) -> World {
        let mut age_table = AgeTable::new(0);
        World {
            owners: (0..owners).filter_map(|_| age_table.add_owner()).collect(),
            age_table,
            model: BTreeMap::new(),
            now_ms: 0,
        }
    }

    /// Does a scan that finds `frames`; those for which `is_young` returns true are accessed.
    fn scan(&mut self, frames: &[u64], is_young: impl Fn(u64) -> bool) {
        self.now_ms += 1000;
        self.age_table.begin_scan(self.now_ms);
        let mut model = BTreeMap::new();
        for (number, owner) in (0..).zip(&self.owners) {
            let of = |frame: &&u64| **frame % self.owners.len() as u64 == number;
            for &frame in frames.iter().filter(of) {
                let (young, known) = (is_young(frame), self.model.get(&frame));
                let last = known
                    .filter(|_| !young)
                    .map_or(self.now_ms, |known| known.1);
                model.insert(frame, (*owner, last));
                let observation = if young { YOUNG } else { OLD };
                self.age_table.see(*owner, ANON, frame, 1, observation);
            }
        }
        self.age_table.end_scan();
        self.model = model;
    }

    fn check(&self, others: impl Iterator<Item = u64>) {
        self.age_table.frames.check();
        assert_eq!(self.age_table.pages(), self.model.len() as u64);
        for (frame, (owner, last)) in &self.model {
            assert_eq!(self.age_table.look_up(*frame), Some((*owner, Some(*last))));
        }
        for frame in others.filter(|frame| !self.model.contains_key(frame)) {
            assert_eq!(self.age_table.look_up(frame), None);
        }
    }

    fn bytes_a_page(&self) -> f64 {
        self.age_table.memory_bytes() as f64 / self.age_table.pages() as f64
    }
}

/// Generates frames as allocators return them: runs, strides, and some at random.
fn shape() -> impl Strategy<Value = Vec<u64>> {
    let run = (
        0_u64..200_000,
        prop::sample::select(vec![1_u64, 2, 3, 8, 64, 100, 700]),
        1_usize..200,
    );
    let strided = run.prop_map(|(first, stride, frames)| {
        let all = (0_u64..).map(|number| first + number * stride);
        all.take(frames).collect::<Vec<u64>>()
    });
    let far = prop::collection::vec(0_u64..1 << 39, 0..30);
    (prop::collection::vec(strided, 0..6), far).prop_map(|(runs, far)| {
        let mut all: Vec<u64> = runs.into_iter().flatten().chain(far).collect();
        all.sort_unstable();
        all.dedup();
        all
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn an_age_table_of_scattered_frames_agrees_with_a_map(
        scans in prop::collection::vec((shape(), 0_usize..4, 0_u64..50), 1..12),
    ) {
        let mut world = World::new(3);
        let mut before: Vec<u64> = Vec::new();
        for (shape, what, salt) in scans {
            let frames: Vec<u64> = match what {
                // The frames of the last scan with some removed or added.
                0 => before.iter().copied().step_by(3).collect(),
                1 => before.iter().copied().filter(|frame| frame / 64 % 5 == salt % 5).collect(),
                2 => {
                    let mut all = [before.clone(), shape].concat();
                    all.sort_unstable();
                    all.dedup();
                    all
                }
                _ => shape,
            };
            world.scan(&frames, |frame| (frame ^ salt) % 3 == 0);
            world.check(before.iter().flat_map(|frame| [*frame, frame ^ 1, frame ^ 64]));
            before = frames;
        }
        world.scan(&[], |_| false);
        world.check(before.into_iter());
    }
}

/// Regression: a frame 64 frames away from the next one had a chunk of its own, of 440 bytes.
#[test]
fn a_frame_costs_little_however_far_its_neighbours_are() {
    for stride in [1, 2, 3, 8, 64, 100, 512, 2048, 30_000] {
        let frames: Vec<u64> = (0..50_000).map(|number| 1000 + number * stride).collect();
        let mut world = World::new(1);
        world.scan(&frames, |_| false);
        world.scan(&frames, |frame| frame % 7 == 0);
        let bytes = world.bytes_a_page();
        println!("stride {stride}: {bytes:.2} bytes a frame");
        // The widest chunk spans 128 MiB; its cost is divided among few records.
        let widest = stride as f64 * 600.0 / 32_768.0;
        let most = if stride == 1 { 8.0 } else { 20.0 + widest };
        assert!(bytes <= most, "stride {stride}: {bytes}");
    }
    // A fixed xorshift: the test is the same in every run.
    let mut dice = 88_172_645_463_325_252_u64;
    let mut frames: Vec<u64> = (0..50_000)
        .map(|_| {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            dice >> 40
        })
        .collect();
    frames.sort_unstable();
    frames.dedup();
    let mut world = World::new(1);
    world.scan(&frames, |_| false);
    let bytes = world.bytes_a_page();
    println!("anywhere in 64 GiB: {bytes:.2} bytes a frame");
    assert!(bytes <= 16.0, "{bytes}");
}

/// Regression: when most of a run of frames was freed, each frame that remained kept a whole chunk.
#[test]
fn remaining_records_of_many_frames_are_joined() {
    for keep in [2, 5, 16, 64, 500] {
        let mut world = World::new(1);
        let all: Vec<u64> = (0..200_000).collect();
        world.scan(&all, |_| false);
        let left: Vec<u64> = all.iter().copied().step_by(keep).collect();
        world.scan(&left, |_| false);
        world.check(0..1000);
        let fixed = 24_000.0 / left.len() as f64;
        let bytes = world.bytes_a_page();
        println!("each of {keep}: {bytes:.2} bytes a frame");
        assert!(bytes <= 22.0 + 8.0 * fixed, "each of {keep}: {bytes}");
    }
}
