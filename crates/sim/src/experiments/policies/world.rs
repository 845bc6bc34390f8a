//! A program without limits on a machine of its own, minded by a policy, and what is counted of it from outside.
//!
//! Invariant: figures are the program's: what it used, and what of it had left. The policy is shown none of them.

use super::programs::Program;
use crate::hardware;
use crate::in_words::InWords;
use crate::minder::Minder;
use engine::policy::{Order, Settings};
use engine::word::State;
use engine::{FaultKind, FolioId, FolioType, Machine, MachineConfig, MemcgId, Millis};

const ONE: MemcgId = MemcgId::FIRST;
/// A page that is used within this is in use: 120 s, as in far memory.
const IN_USE_S: u32 = 120;

/// A program at work.
pub(super) struct World {
    machine: Machine,
    pub(super) minder: Minder,
    program: Program,
    /// By page, the second after its last use; 0 before the first.
    used: Vec<u32>,
    second: u64,
    /// Pages that had left and were used again, until now.
    pub(super) refaults: u64,
}

impl World {
    /// `cost_us` as in [`Minder::new`].
    pub(super) fn new(program: Program, policy: Settings, cost_us: u64) -> Self {
        let config = MachineConfig::default();
        let mut machine = Machine::of_one(config, Default::default(), Millis(0));
        let pages = program.pages() as usize;
        machine.lruvec_mut(ONE).ensure(pages);
        let mut world = Self {
            machine,
            minder: Minder::new(policy, pages, cost_us, Millis(0)),
            used: vec![0; pages],
            second: 0,
            refaults: 0,
            program,
        };
        world.program.loads().for_each(|page| world.touch(page));
        world
    }

    /// The program works for so many seconds, then there is a look, and the policy decides.
    pub(super) fn step(&mut self, seconds: u64) -> Option<Order> {
        if let Some(gone) = self.program.given_back(self.second) {
            let pages = gone.len();
            self.machine.unmap_range(ONE, FolioId(gone.start), pages);
            for page in gone {
                self.minder.forget(FolioId(page));
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
        self.minder.look(now);
        let order = self.minder.mind((&mut self.machine, ONE), &mut InWords);
        debug_assert_eq!(self.minder.done().refaults, self.refaults);
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
        self.minder.touch(id, had_left);
        self.used[page as usize] = u32::try_from(self.second + 1).unwrap_or(u32::MAX);
    }

    /// Pages that were used in the last two minutes.
    pub(super) fn in_use(&self) -> u64 {
        let now = u32::try_from(self.second).unwrap_or(u32::MAX);
        let since = now.saturating_sub(IN_USE_S);
        // The second of a step is that of its beginning.
        self.used.iter().filter(|used| **used > since).count() as u64
    }

    /// Pages in memory.
    pub(super) fn resident(&self) -> u64 {
        self.machine.lruvec(ONE).resident().0
    }

    pub(super) fn check(&self) {
        self.machine.check_invariants();
    }
}
