//! workingset.md 12, test 11: memory that became hot late, beside memory that is cold. The experiment
//! of workingset.md 9 with a page for each of its megabytes.
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

const COLD: Range<u32> = 0..512;
const HOT_1: Range<u32> = 512..608;
const HOT_2: Range<u32> = 608..704;
const COLD_PART: u32 = 128;
const MEMORY: Pages = Pages(280);
const ROUNDS: u32 = 20;

/// All pages can go; accessed bits are in the words.
struct Simple;

impl Memory for Simple {
    fn walk(&mut self, _: MemcgId, lruvec: &mut Lruvec) {
        lruvec.walk_accessed();
    }

    fn page_out(&mut self, _: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>) {
        outcome.extend(batch.iter().map(|_| PageOut::Stored));
    }
}

struct Program {
    machine: Machine,
    now: u64,
}

impl Program {
    fn new(stage: Stage) -> Self {
        let limits = MemcgLimits {
            max: Limit::Bytes(MEMORY.bytes()),
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

    fn access(&mut self, pages: Range<u32>) {
        self.now += 1000;
        for id in pages.map(FolioId) {
            if !self.machine.lruvec_mut(ONE).touch(id) {
                self.machine
                    .make_room(ONE, Pages(1), Millis(self.now), &mut Simple)
                    .expect("pages that can go");
                let kind = FaultKind::Refault;
                self.machine.fault_in(ONE, id, FolioType::Anon, kind, true);
                self.machine.lruvec_mut(ONE).touch(id);
            }
        }
    }

    /// Uses these pages until they are active.
    fn activate(&mut self, pages: Range<u32>) {
        for id in pages.map(FolioId) {
            self.machine.lruvec_mut(ONE).mark_accessed(id);
            self.machine.lruvec_mut(ONE).mark_accessed(id);
        }
    }
}

/// Pages swapped in over all, and of hot-2 in the last round.
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
fn detection_swaps_in_less() {
    let (without, hot_without) = run(Stage::Protection);
    let (with, hot_with) = run(Stage::Detection);
    assert!(with < without, "{with} with detection, {without} without");
    // What makes the difference: hot-2 is found to be in use, and hot-1 has to go.
    let all_of_hot_2 = u64::from(HOT_2.end - HOT_2.start);
    assert_eq!(hot_without, all_of_hot_2, "swapped in anew each round");
    assert!(hot_with < all_of_hot_2 / 4, "{hot_with} in the last round");
}
