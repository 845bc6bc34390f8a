//! A simulated machine with one program and without limits, managed by a policy; and counts of the
//! program's page uses and refaults.
//!
//! Invariant: the counts are made outside the policy, which gets none of them.

use super::programs::Program;
use crate::hardware;
use crate::in_words::InWords;
use crate::policy_runner::PolicyRunner;
use engine::policy::{Order, PolicySettings};
use engine::word::State;
use engine::{FaultKind, FolioId, FolioType, Machine, MachineConfig, MemcgId, Millis};

const ONE: MemcgId = MemcgId::FIRST;
/// A page counts as in use for this many seconds after a use, as in far-memory systems.
const IN_USE_S: u32 = 120;

/// A program that runs on a machine under a policy.
pub(super) struct World {
    machine: Machine,
    pub(super) policy_runner: PolicyRunner,
    program: Program,
    /// For each page: the second of its last use, plus 1; 0 if it was never used.
    used: Vec<u32>,
    second: u64,
    /// Number of uses of evicted pages so far.
    pub(super) refaults: u64,
}

impl World {
    /// Makes a machine on which the program has loaded its pages. `cost_us`: see
    /// [`PolicyRunner::new`].
    pub(super) fn new(program: Program, policy: PolicySettings, cost_us: u64) -> Self {
        let config = MachineConfig::default();
        let mut machine = Machine::of_one(config, Default::default(), Millis(0));
        let pages = program.pages() as usize;
        machine.lruvec_mut(ONE).ensure(pages);
        let mut world = Self {
            machine,
            policy_runner: PolicyRunner::new(policy, pages, cost_us, Millis(0)),
            used: vec![0; pages],
            second: 0,
            refaults: 0,
            program,
        };
        world.program.loads().for_each(|page| world.touch(page));
        world
    }

    /// Lets the program work for `seconds`, then scans and runs the policy. Returns the policy's
    /// order, if any.
    pub(super) fn step(&mut self, seconds: u64) -> Option<Order> {
        if let Some(gone) = self.program.given_back(self.second) {
            let pages = gone.len();
            self.machine.unmap_range(ONE, FolioId(gone.start), pages);
            for page in gone {
                self.policy_runner.forget(FolioId(page));
                self.used[page as usize] = 0;
            }
        }
        let mut uses = Vec::new();
        let length = crate::stats::number(seconds);
        self.program
            .uses(self.second, length, &mut |page| uses.push(page));
        self.second += seconds;
        for page in uses {
            self.touch(page);
        }
        let now = Millis(self.second * 1000);
        self.machine.walk_and_age(ONE, now, &mut InWords);
        self.policy_runner.scan(now);
        let order = self
            .policy_runner
            .run_policy((&mut self.machine, ONE), &mut InWords);
        debug_assert_eq!(self.policy_runner.done().refaults, self.refaults);
        order
    }

    fn touch(&mut self, page: u32) {
        let id = FolioId(page);
        let had_left = self.machine.lruvec(ONE).folios().get(id).state() == State::Shadow;
        if !self.machine.lruvec_mut(ONE).touch(id) {
            hardware::fault(
                &mut self.machine,
                (ONE, id),
                FolioType::Anon,
                FaultKind::Refault,
                true,
            );
        }
        self.refaults += u64::from(had_left);
        self.policy_runner.touch(id, had_left);
        self.used[page as usize] = u32::try_from(self.second + 1).unwrap_or(u32::MAX);
    }

    /// Returns the number of pages that were used in the last two minutes.
    pub(super) fn in_use(&self) -> u64 {
        let now = u32::try_from(self.second).unwrap_or(u32::MAX);
        let since = now.saturating_sub(IN_USE_S);
        // All uses in a step have the time of its first second.
        self.used.iter().filter(|used| **used > since).count() as u64
    }

    /// Returns the number of pages in memory.
    pub(super) fn resident(&self) -> u64 {
        self.machine.lruvec(ONE).resident().0
    }

    pub(super) fn check(&self) {
        self.machine.check_invariants();
    }
}
