//! A simulated program with a memory limit. If it touches an absent page, the page is faulted in;
//! before that, reclaim frees a page if necessary.
//!
//! Invariant: resident pages never exceed the limit; all decisions are the engine's.

use crate::hardware;
use crate::mapped::Mapped;
use crate::vma::AddressSpace;
use ::engine::memcg::MemcgLimits;
use ::engine::vmstat::VmEvent;
use ::engine::word::State;
use ::engine::{
    FaultKind, FolioId, FolioType, Limit, Lruvec, Machine, MachineConfig, MemcgId, Millis, Pages,
    Policy,
};

const ONE: MemcgId = MemcgId::FIRST;

/// A program with a memory limit, on a machine of its own.
#[derive(Debug)]
pub struct Tenant {
    machine: Machine,
    /// The program's mappings, for simulations in which they matter.
    pub space: AddressSpace,
    now: Millis,
}

impl Tenant {
    /// Makes a program of up to `pages` pages, of which `limit` fit in memory.
    #[must_use]
    pub fn new(policy: Policy, pages: u32, limit: Pages) -> Self {
        let limits = MemcgLimits {
            max: Limit::of(limit),
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

    /// Sets the simulated time to `now`.
    pub fn at(&mut self, now: Millis) {
        self.now = now;
    }

    /// Touches an anonymous page; returns whether it was in memory.
    #[inline]
    pub fn touch(&mut self, page: u32) -> bool {
        let hit = self.lruvec_mut().touch(FolioId(page));
        if !hit {
            self.fault(page, FolioType::Anon, FaultKind::Refault);
        }
        hit
    }

    /// Faults in an absent page, and touches it. `swap_in` is the kind of the fault if the page was
    /// swapped out.
    ///
    /// # Panics
    /// If reclaim cannot free a page, which means that the limit is below the number of pinned
    /// pages.
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

    /// Returns the machine, whose only tenant is the program.
    #[must_use]
    pub const fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns the program's pages.
    #[must_use]
    pub fn lruvec(&self) -> &Lruvec {
        self.machine.lruvec(ONE)
    }

    /// Returns the program's pages, for operations other than touches.
    #[inline]
    pub fn lruvec_mut(&mut self) -> &mut Lruvec {
        self.machine.lruvec_mut(ONE)
    }

    /// Returns a counter of memory.stat.
    #[must_use]
    pub fn stat(&self, event: VmEvent) -> u64 {
        self.lruvec().stat().get(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds_and_evicted_pages_refault() {
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
