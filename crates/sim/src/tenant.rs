//! One program under a limit: what it touches and does not find is faulted in, after room was made.
//!
//! Invariant: resident pages never exceed the limit; all decisions are the engine's.

use crate::hardware;
use crate::mapped::Mapped;
use ::engine::memcg::MemcgLimits;
use ::engine::vmstat::VmEvent;
use ::engine::word::State;
use ::engine::{
    FaultKind, FolioId, FolioType, Limit, Lruvec, Machine, MachineConfig, MemcgId, Millis, Pages,
    Policy,
};
use models::vma::AddressSpace;

const ONE: MemcgId = MemcgId::FIRST;

/// The program.
#[derive(Debug)]
pub struct Tenant {
    machine: Machine,
    /// What it has mapped, where that matters.
    pub space: AddressSpace,
    now: Millis,
}

impl Tenant {
    /// A program that may have `pages` pages of which `limit` fit.
    #[must_use]
    pub fn new(policy: Policy, pages: u32, limit: Pages) -> Self {
        let limits = MemcgLimits {
            max: Limit::Bytes(limit.bytes()),
            ..MemcgLimits::default()
        };
        let config = MachineConfig {
            policy,
            ..MachineConfig::default()
        };
        let mut machine = Machine::of_one(config, limits, Millis(0));
        machine.lruvec_mut(ONE).ensure(pages as usize);
        Self {
            machine,
            space: AddressSpace::default(),
            now: Millis(0),
        }
    }

    /// Time goes on to `now`.
    pub fn at(&mut self, now: Millis) {
        self.now = now;
    }

    /// A touch of an anon page. True when it was in memory.
    #[inline]
    pub fn touch(&mut self, page: u32) -> bool {
        let hit = self.lruvec_mut().touch(FolioId(page));
        if !hit {
            self.fault(page, FolioType::Anon, FaultKind::Refault);
        }
        hit
    }

    /// Brings in a page that is not there, and touches it. `swap_in` is how a page that was out
    /// comes.
    ///
    /// # Panics
    /// When no room can be made: a simulation whose limit is below what it pins is wrong.
    pub fn fault(&mut self, page: u32, ty: FolioType, swap_in: FaultKind) {
        let id = FolioId(page);
        self.machine
            .make_room(ONE, Pages(1), self.now, &mut Mapped(&self.space))
            .expect("pages that can go");
        let was_out = self.lruvec().folios().get(id).state() == State::Shadow;
        let kind = if was_out {
            swap_in
        } else {
            FaultKind::FirstTouch
        };
        let has_recency = self.space.is_recent(id);
        hardware::fault(&mut self.machine, (ONE, id), ty, kind, has_recency);
    }

    /// The machine, of which the program is the only tenant.
    #[must_use]
    pub const fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The program's pages.
    #[must_use]
    pub fn lruvec(&self) -> &Lruvec {
        self.machine.lruvec(ONE)
    }

    /// The program's pages, for what is not a touch.
    #[inline]
    pub fn lruvec_mut(&mut self) -> &mut Lruvec {
        self.machine.lruvec_mut(ONE)
    }

    /// A counter of memory.stat.
    #[must_use]
    pub fn stat(&self, event: VmEvent) -> u64 {
        self.lruvec().stat().get(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds_and_what_left_comes_back() {
        for policy in [
            Policy::default(),
            Policy::ActiveInactive(::engine::active_inactive::Stage::Detection, Pages(300)),
        ] {
            let mut tenant = Tenant::new(policy, 300, Pages(200));
            for round in 0..5 {
                tenant.at(Millis(round));
                (0..300).for_each(|page| {
                    tenant.touch(page);
                });
                assert!(tenant.lruvec().resident() <= Pages(200));
                tenant.machine().check_invariants();
            }
            assert!(tenant.stat(VmEvent::Pswpin) >= 4 * 100);
        }
    }
}
