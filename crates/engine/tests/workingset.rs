//! workingset.md 12, test 11: a program whose hot memory changes, beside cold memory. The test
//! repeats the experiment of workingset.md 9, with one page instead of each megabyte.
#![forbid(unsafe_code)]

use engine::active_inactive::Stage;
use engine::memcg::MemcgLimits;
use engine::vmstat::VmEvent;
use engine::{
    FaultKind, FolioId, FolioType, Limit, Lruvec, Machine, MachineConfig, MemcgId, Memory, Millis,
    PageOut, Pages, Policy,
};
use std::ops::Range;

const ONE: MemcgId = MemcgId::FIRST;

/// Cold pages, which are read in order, a part of them in each round.
const COLD: Range<u32> = 0..512;
/// Pages that are used at first, and then not any more.
const HOT_1: Range<u32> = 512..608;
/// Pages that are used in each round.
const HOT_2: Range<u32> = 608..704;
/// Number of cold pages that are read in each round.
const COLD_PART: u32 = 128;
/// The memory.max of the tenant.
const MEMORY: Pages = Pages(280);
/// Number of rounds.
const ROUNDS: u32 = 20;

/// A memory in which page-out always succeeds; accessed bits are kept in the lruvec.
struct Simple;

impl Memory for Simple {
    fn walk(&mut self, _: MemcgId, lruvec: &mut Lruvec) {
        lruvec.walk_accessed();
    }

    fn page_out(&mut self, _: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>) {
        outcome.extend(batch.iter().map(|_| PageOut::Stored));
    }
}

/// A simulated program in a machine with one tenant.
struct Program {
    machine: Machine,
    now: u64,
}

impl Program {
    fn new(stage: Stage) -> Self {
        let limits = MemcgLimits {
            max: Limit::of(MEMORY),
            ..MemcgLimits::default()
        };
        let config = MachineConfig {
            policy: Policy::ActiveInactive(stage, MEMORY),
            ..MachineConfig::default()
        };
        let mut machine = Machine::of_one(config, limits, Millis(0));
        machine.lruvec_mut(ONE).ensure(704);
        Self { machine, now: 0 }
    }

    /// Touches these pages; faults in those that are not in memory.
    fn access(&mut self, pages: Range<u32>) {
        self.now += 1000;
        for id in pages.map(FolioId) {
            if !self.machine.lruvec_mut(ONE).touch(id) {
                self.machine
                    .make_room(ONE, Pages(1), Millis(self.now), &mut Simple)
                    .expect("some pages can be evicted");
                let kind = FaultKind::Refault;
                self.machine.fault_in(ONE, id, FolioType::Anon, kind, true);
                self.machine.lruvec_mut(ONE).touch(id);
            }
        }
    }

    /// Accesses these pages twice, so that they are active.
    fn activate(&mut self, pages: Range<u32>) {
        for id in pages.map(FolioId) {
            self.machine.lruvec_mut(ONE).mark_accessed(id);
            self.machine.lruvec_mut(ONE).mark_accessed(id);
        }
    }
}

/// Returns the number of pages swapped in during the whole run, and the number of pages of `HOT_2`
/// swapped in during the last round.
fn run(stage: Stage) -> (u64, u64) {
    let mut program = Program::new(stage);
    let swapped_in = |program: &Program| program.machine.lruvec(ONE).stat().get(VmEvent::Pswpin);
    program.access(COLD);
    program.access(HOT_1);
    program.activate(HOT_1);
    program.access(HOT_2);
    let mut of_hot = 0;
    for round in 0..ROUNDS {
        let from = round * COLD_PART % COLD.end;
        program.access(from..from + COLD_PART);
        let before = swapped_in(&program);
        program.access(HOT_2);
        of_hot = swapped_in(&program) - before;
        program.machine.check_invariants();
    }
    (swapped_in(&program), of_hot)
}

#[test]
fn workingset_detection_swaps_in_fewer_pages() {
    let (without, hot_without) = run(Stage::Protection);
    let (with, hot_with) = run(Stage::Detection);
    assert!(with < without, "{with} with detection, {without} without");
    // With detection, refaults show that `HOT_2` is in use, so `HOT_1` is evicted.
    let all_of_hot_2 = u64::from(HOT_2.end - HOT_2.start);
    assert_eq!(hot_without, all_of_hot_2, "swapped in anew each round");
    assert!(hot_with < all_of_hot_2 / 4, "{hot_with} in the last round");
}
