//! Property tests: over hundreds of scans, address spaces start, end, idle, share frames, and split
//! and join huge pages. The age table must agree with the model in `naive.rs`.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::naive::Naive;
use crate::age_table::{AgeTable, Class, Observation, Owner};

/// Regions of 512 frames that are mapped at random. The second and the third are neighbours.
const REGIONS: [u64; 4] = [0, 1 << 20, (1 << 20) + 512, 77 << 30];

/// A generator of random numbers, started from the seed that proptest prints.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    fn pick(&mut self, limit: usize) -> usize {
        usize::try_from(self.below(limit as u64)).unwrap()
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

/// An address space: the first frame of each mapping, and whether it is a huge page.
#[derive(Default)]
struct Space {
    maps: BTreeMap<u64, bool>,
    hidden: bool,
}

struct World {
    dice: Dice,
    age_table: AgeTable,
    naive: Naive,
    spaces: BTreeMap<Owner, Space>,
    /// Whether owners are skipped only if their mappings did not change since their last walk.
    honest: bool,
    /// Owners whose mappings have changed since their last walk.
    changed: BTreeSet<Owner>,
}

impl World {
    fn new(seed: u64, limit: u32, honest: bool) -> World {
        World {
            dice: Dice(seed),
            age_table: AgeTable::with_scan_limit(0, limit),
            naive: Naive::new(),
            spaces: BTreeMap::new(),
            honest,
            changed: BTreeSet::new(),
        }
    }

    /// Checks that each mapped frame is owned by an address space that maps it, and that no other
    /// frame is in the table.
    fn compare_with_mappings(&self) {
        let of = |space: &Space| -> Vec<u64> {
            let frames = space.maps.iter();
            let all = frames.flat_map(|(frame, huge)| *frame..frame + if *huge { 512 } else { 1 });
            all.collect()
        };
        let maps: BTreeMap<Owner, BTreeSet<u64>> = self
            .spaces
            .iter()
            .map(|(owner, space)| (*owner, of(space).into_iter().collect()))
            .collect();
        let all: BTreeSet<u64> = maps.values().flatten().copied().collect();
        assert_eq!(self.age_table.pages(), all.len() as u64);
        for frame in all {
            let (owner, _) = self.age_table.look_up(frame).expect("it is mapped");
            let is_mapped = maps.get(&owner).is_some_and(|maps| maps.contains(&frame));
            assert!(is_mapped, "{frame} is {owner:?}'s, who does not map it");
        }
    }

    fn change_mappings(&mut self) {
        if self.spaces.len() < 5 && self.dice.percent(20) {
            let owner = self.age_table.add_owner().unwrap();
            self.naive.add(owner.index());
            let hidden = self.dice.percent(25);
            self.spaces.insert(
                owner,
                Space {
                    maps: BTreeMap::new(),
                    hidden,
                },
            );
        }
        for (owner, space) in &mut self.spaces {
            let region = REGIONS[self.dice.pick(4)];
            let is_huge = space.maps.get(&region) == Some(&true);
            match self.dice.below(60) {
                0 => space.maps.retain(|frame, _| frame / 512 != region / 512),
                1 => {
                    space.maps.retain(|frame, _| frame / 512 != region / 512);
                    space.maps.insert(region, true);
                }
                2 if is_huge => space
                    .maps
                    .extend((region..region + 512).map(|f| (f, false))),
                3..6 if !is_huge => {
                    let (from, pages) = (self.dice.below(512), self.dice.below(200));
                    let to = (from + pages).min(512);
                    space
                        .maps
                        .extend((region + from..region + to).map(|frame| (frame, false)));
                }
                6 if !is_huge => {
                    space
                        .maps
                        .extend((region..region + 512).map(|frame| (frame, false)));
                }
                _ => continue,
            }
            self.changed.insert(*owner);
        }
    }

    fn remove_one(&mut self) {
        let Some((&owner, _)) = self.spaces.iter().nth(self.dice.pick(9)) else {
            return;
        };
        self.age_table.remove_owner(owner);
        self.naive.remove(owner.index());
        self.spaces.remove(&owner);
    }

    fn read(&mut self, owner: Owner) {
        // In an `honest` world an owner is skipped only if it did nothing since its last walk and
        // is not pending.
        let may_sleep =
            !self.honest || (!self.changed.contains(&owner) && !self.age_table.is_due(owner));
        if may_sleep && self.dice.percent(if self.honest { 60 } else { 20 }) {
            self.age_table.skip(owner);
            return self.naive.skip(owner.index());
        }
        self.changed.remove(&owner);
        let (trusted, busy) = (self.dice.percent(70), self.dice.below(100));
        let (space, file) = (&self.spaces[&owner], self.dice.percent(5));
        let hidden = space.hidden && self.dice.percent(80);
        let idle = trusted && self.dice.percent(10);
        // Whether this walk does not clear the bits that it reads.
        let kept_bits = self.naive.times.len().is_multiple_of(4);
        for (&frame, &huge) in &space.maps {
            // Half of the frames are hardly ever accessed, so that their scans get merged.
            let cold = frame / if huge { 512 } else { 64 } % 2 == 1;
            let chance = if cold { 3 } else { busy * 100 };
            let accessed = self.dice.below(13_000) < chance;
            let observation = Observation {
                accessed,
                trusted,
                hidden,
                idle,
                kept_bits,
            };
            let class =
                u8::from(file) + u8::from(frame > 1 << 30) * 15 - u8::from(file && frame > 1 << 30);
            self.age_table.see(
                owner,
                Class(class),
                frame,
                if huge { 512 } else { 1 },
                observation,
            );
            self.naive
                .see(owner.index(), class, frame, huge, observation);
        }
    }

    fn change_and_scan(&mut self) {
        self.change_mappings();
        if self.dice.percent(2) {
            self.remove_one();
        }
        let removes = self.dice.percent(2).then(|| self.dice.below(5));
        self.scan(removes);
    }

    /// Does one scan. `removes`: the number of walks after which one address space is removed.
    fn scan(&mut self, removes: Option<u64>) {
        let interval = [0, 900, 1000, 1000, 1100, 5000][self.dice.pick(6)];
        let now_ms = self.naive.times.last().unwrap() + interval;
        self.naive.times.push(now_ms);
        self.age_table.begin_scan(now_ms);
        let mut order: Vec<Owner> = self.spaces.keys().copied().collect();
        for at in 1..order.len() {
            order.swap(at, self.dice.pick(at + 1));
        }
        for (at, owner) in (0..).zip(order) {
            if self.spaces.contains_key(&owner) {
                self.read(owner);
            }
            if removes == Some(at) {
                self.remove_one();
            }
        }
        let before: u64 = self.naive.again.values().sum();
        self.age_table.end_scan();
        self.naive.end_scan();
        let again: u64 = self.naive.again.values().sum();
        let owners = (0..=u16::from(u8::MAX)).map(Owner);
        let reported: u64 = owners
            .flat_map(|owner| self.age_table.again(owner).map(|(_, _, pages)| pages))
            .sum();
        assert_eq!(
            reported,
            again - before,
            "each page accessed again is some owner's"
        );
    }

    fn compare(&self) {
        assert_eq!(self.age_table.pages(), self.naive.pages());
        let (owned, mut pages) = (self.naive.owned(), 0);
        for (&(owner, class), owned) in &owned {
            let owner = Owner(u16::try_from(owner).unwrap());
            assert_eq!(self.age_table.resident(owner, Class(class)), owned.pages);
            assert_eq!(self.age_table.unknown(owner, Class(class)), owned.unknown);
            let ages = self
                .age_table
                .ages(owner)
                .filter(|(of, _, _)| of.number() == class);
            let reported: Vec<_> = ages.map(|(_, last_ms, pages)| (last_ms, pages)).collect();
            let known = owned
                .known
                .iter()
                .map(|(last_ms, pages)| (*last_ms, *pages))
                .collect();
            self.compare_times(reported, known);
            pages += owned.pages;
        }
        assert_eq!(
            pages,
            self.age_table.pages(),
            "the owners together have each frame once"
        );
    }

    /// Compares times. Times of the last 64 scans must be equal; older ones may be later by up to
    /// 1/32 of the age.
    fn compare_times(&self, reported: Vec<(u64, u64)>, known: Vec<(u64, u64)>) {
        let times = &self.naive.times;
        let (now, exact) = (
            times[times.len() - 1],
            times[times.len().saturating_sub(65)],
        );
        for_each_page(reported, known, |reported, known| {
            assert!(reported == known || known < exact, "{reported} {known}");
            assert!(
                reported >= known && (reported - known) * 32 <= now - reported,
                "{reported} {known}"
            );
        });
    }

    /// Compares the pages accessed again in the last scan, of all owners together.
    fn compare_again(&self) {
        let mut reported: Vec<(u64, u64)> = (0..=u16::MAX)
            .take(64)
            .flat_map(|owner| self.age_table.again(Owner(owner)))
            .map(|(_, last, pages)| (last, pages))
            .collect();
        reported.sort_unstable();
        let again = self.naive.again_now.iter();
        self.compare_times(reported, again.map(|(at, pages)| (*at, *pages)).collect());
    }

    /// Compares the ages that pages had before they were accessed again. They may differ like other
    /// ages, and be lower by up to 1/128.
    fn compare_reaccessed(&self) {
        let again = self
            .naive
            .again
            .iter()
            .map(|(age, pages)| (*age, *pages))
            .collect();
        for_each_page(
            self.age_table.reaccessed().collect(),
            again,
            |reported, age| {
                assert!(
                    reported <= age && (reported + 1) * 33 * 129 >= age * 32 * 128,
                    "{reported} {age}"
                );
            },
        );
    }
}

/// Calls `check` with the values of each pair of pages, after both lists are sorted by value.
fn for_each_page(one: Vec<(u64, u64)>, other: Vec<(u64, u64)>, check: impl Fn(u64, u64)) {
    let sum = |pairs: &[(u64, u64)]| pairs.iter().map(|pair| pair.1).sum::<u64>();
    assert_eq!(sum(&one), sum(&other), "as many pages");
    let (mut one, mut other) = (one.into_iter(), other.into_iter());
    let (mut a, mut b) = ((0, 0), (0, 0));
    loop {
        if a.1 == 0 {
            let Some(next) = one.next() else { break };
            a = next;
        }
        if b.1 == 0 {
            let Some(next) = other.next() else { break };
            b = next;
        }
        check(a.0, b.0);
        let both = a.1.min(b.1);
        (a.1, b.1) = (a.1 - both, b.1 - both);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(12) })]

    #[test]
    fn the_age_table_agrees_with_the_model(seed in 1_u64.., limit in 230_u32..500) {
        let mut world = World::new(seed, limit, false);
        for _ in 0..400 {
            world.change_and_scan();
            world.compare();
            world.compare_again();
        }
        world.compare_reaccessed();
    }

    /// Property: whatever was mapped, unmapped and skipped before, four scans after the last change
    /// the age table agrees with the mappings.
    #[test]
    fn the_age_table_converges_to_what_is_mapped(seed in 1_u64..) {
        let mut world = World::new(seed, 500, true);
        for _ in 0..60 {
            for _ in 0..world.dice.below(6) {
                world.change_and_scan();
                world.compare();
            }
            (0..4).for_each(|_| world.scan(None));
            world.compare_with_mappings();
        }
    }
}
