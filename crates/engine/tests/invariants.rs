//! Checks all invariants after each of many pseudo-random operations, with every policy, profile
//! and several values of swappiness. Only this test covers profile P63 and reclaim of a single page
//! type, which the model of `against_naive.rs` lacks.
#![forbid(unsafe_code)]

use engine::active_inactive::Stage;
use engine::lru_gen::Profile;
use engine::memcg::MemcgLimits;
use engine::word::Flag;
use engine::{
    FaultKind, FolioId, FolioType, Machine, MachineConfig, MemcgId, Millis, PageOut, Pages, Policy,
    ScanReason, Swappiness,
};

const ONE: MemcgId = MemcgId::FIRST;

/// Number of page ids.
const PAGES: u32 = 400;

/// A generator of pseudo-random numbers, which are the same for the same seed.
struct Random(u64);

impl Random {
    /// Returns a random number below `n`.
    fn below(&mut self, n: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        u32::try_from(self.0 >> 33).unwrap_or(0) % n
    }
}

/// Returns `max_seq`, then `min_seq` of anonymous and of file pages; `None` for the classic lists.
fn seqs(machine: &Machine) -> Option<[u64; 3]> {
    let lru = machine.lruvec(ONE).multi_gen()?;
    Some([
        lru.max_seq(),
        lru.min_seq(FolioType::Anon),
        lru.min_seq(FolioType::File),
    ])
}

/// Applies one random operation.
fn step(machine: &mut Machine, random: &mut Random, isolated: &mut Vec<FolioId>, now: &mut u64) {
    let (id, len) = (FolioId(random.below(PAGES)), random.below(40));
    let range = (id.0..(id.0 + len).min(PAGES)).map(FolioId);
    let ty = FolioType::ALL[random.below(2) as usize];
    match random.below(12) {
        0..4 => {
            let kinds = [
                FaultKind::FirstTouch,
                FaultKind::Refault,
                FaultKind::Readahead,
                FaultKind::FaultReadahead,
                FaultKind::Descriptor,
            ];
            let (kind, recency) = (kinds[random.below(5) as usize], random.below(8) > 0);
            for id in range {
                machine.fault_in(ONE, id, ty, kind, recency);
            }
        }
        4 => range.for_each(|id| machine.lruvec_mut(ONE).young(id)),
        5 => {
            range.for_each(|id| {
                machine.lruvec_mut(ONE).touch(id);
            });
            machine.lruvec_mut(ONE).walk_accessed();
        }
        6 => range.for_each(|id| machine.lruvec_mut(ONE).mark_accessed(id)),
        7 => {
            machine.unmap_range(ONE, id, len as usize);
        }
        8 => {
            *now += u64::from(random.below(20));
            machine.age(ONE, Millis(*now));
        }
        9 => {
            let flags = [Flag::Dirty, Flag::Writeback, Flag::Unevictable, Flag::Exec];
            machine.lruvec_mut(ONE).set_flag(
                id,
                flags[random.below(4) as usize],
                random.below(2) == 0,
            );
        }
        10 => {
            machine.isolate(ONE, len as usize, ScanReason::Background, isolated);
        }
        _ => {
            let outcomes = [
                PageOut::Stored,
                PageOut::Stored,
                PageOut::Referenced,
                PageOut::Busy,
            ];
            for id in isolated.drain(..) {
                let outcome = outcomes[random.below(4) as usize];
                machine.finish_page(ONE, id, (outcome, ScanReason::Background));
            }
        }
    }
}

fn run(policy: Policy, swappiness: u8, seed: u64) -> u64 {
    println!("{policy:?}, swappiness {swappiness}, seed {seed}");
    let swappiness = Swappiness::new(swappiness).expect("in range");
    let config = MachineConfig {
        policy,
        ..MachineConfig::default()
    };
    let mut machine = Machine::of_one(config, MemcgLimits::default(), Millis(0));
    machine.set_swappiness(ONE, swappiness);
    machine.lruvec_mut(ONE).ensure(PAGES as usize);
    let (mut random, mut isolated, mut now) = (Random(seed), Vec::new(), 0);
    for _ in 0..400 {
        let before = seqs(&machine);
        step(&mut machine, &mut random, &mut isolated, &mut now);
        machine.check_invariants();
        if let (Some(before), Some(after)) = (before, seqs(&machine)) {
            assert!(
                (0..3).all(|n| before[n] <= after[n]),
                "I4: {before:?} {after:?}"
            );
            assert!(after[0] - before[0] <= 1, "I4: one at a time");
        }
    }
    machine.lruvec(ONE).stat().pgsteal()
}

#[test]
fn all_invariants_hold_after_every_operation() {
    let policies = [
        Policy::MultiGen(Profile::P616),
        Policy::MultiGen(Profile::P612),
        Policy::MultiGen(Profile::P63),
        Policy::ActiveInactive(Stage::Base, Pages(1000)),
        Policy::ActiveInactive(Stage::Protection, Pages(1000)),
        Policy::ActiveInactive(Stage::Detection, Pages(1000)),
    ];
    for policy in policies {
        for swappiness in [0, 1, 60, 200, 201] {
            let stolen: u64 = (0..12).map(|seed| run(policy, swappiness, seed)).sum();
            assert!(stolen > 0, "nothing was ever reclaimed");
        }
    }
}
