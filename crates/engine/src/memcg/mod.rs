//! A memcg (memory control group): one tenant's limits, usage and protection.
//! spec: reclaim-control.md 1-3, 9.
//!
//! Invariants (reclaim-control.md 10): usage <= max except after a forced charge (I2); events never
//! decrease (I9); the throttle delay grows with the overage and is at most 2 s (I7).

mod counter;
mod events;
mod heat;
mod memcg_lru;
mod protection;
mod scan_protection;
mod shared_walk;
mod stock;
mod throttle;

// These modules use each other.
mod measured;
mod order;
mod tree;

pub use counter::{OverLimit, PageCounter};
pub use events::{MemcgEvent, MemcgEvents};
pub use heat::{HEAT_DECAY, HEAT_HOT, HEAT_MAX, HEAT_WARM, HeatLevel, HeatVisit, MemcgHeat};
pub use memcg_lru::{MEMCG_NR_BINS, MemcgLru, MemcgOp, MemcgProfile, MemcgWalk, Segment};
pub use protection::{Protection, ProtectionInput, effective_protection};
pub use scan_protection::ScanProtection;
pub use shared_walk::{SharedPositions, SharedWalk};
pub use throttle::{HighOverages, high_delay, overage};
pub use tree::{MemcgId, MemcgTree, OverMax};

use crate::units::{Limit, Millis, Pages, Swappiness};

/// Maximum number of reclaims before a charge fails; for other requests, of reclaims that reclaimed
/// nothing before the request ends.
pub const MAX_RECLAIM_RETRIES: u32 = 16;
/// Number of pages that a CPU charges ahead in the kernel; the throttle formula uses it as its
/// unit.
pub const MEMCG_CHARGE_BATCH: u64 = 64;

/// The memory and swap limits and the protection of a tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemcgLimits {
    /// memory.min: this many pages are never reclaimed for other tenants.
    pub min: Pages,
    /// memory.low: this many pages are reclaimed for other tenants only when nothing else remains.
    pub low: Pages,
    /// memory.high: above this usage tasks are throttled and pages reclaimed.
    pub high: Limit,
    /// memory.max: hard limit of the usage.
    pub max: Limit,
    /// memory.soft_limit_in_bytes of cgroup v1: memcgs above it are reclaimed from first when the
    /// machine runs short of memory.
    pub soft: Limit,
    /// memory.swap.max: hard limit of swapped-out pages.
    pub swap_max: Limit,
    /// memory.swap.high: above this many swapped-out pages tasks are throttled.
    pub swap_high: Limit,
}

/// One tenant: its limits, usage, events and effective protection.
#[derive(Clone, Debug)]
pub struct Memcg {
    memory: PageCounter,
    swap: PageCounter,
    low: Pages,
    min: Pages,
    high: Limit,
    swap_high: Limit,
    soft: Limit,
    swappiness: Swappiness,
    events: MemcgEvents,
    protection: Protection,
}

impl Memcg {
    /// Creates a tenant with no pages.
    #[must_use]
    pub fn new(limits: MemcgLimits, swappiness: Swappiness) -> Self {
        let mut memcg = Self {
            memory: PageCounter::default(),
            swap: PageCounter::default(),
            low: Pages(0),
            min: Pages(0),
            high: Limit::Max,
            swap_high: Limit::Max,
            soft: Limit::Max,
            swappiness,
            events: MemcgEvents::default(),
            protection: Protection::default(),
        };
        memcg.set_limits(limits);
        memcg
    }

    /// Replaces all limits. If usage is above a new limit, the caller must reclaim.
    pub const fn set_limits(&mut self, limits: MemcgLimits) {
        self.memory.set_max(limits.max);
        self.swap.set_max(limits.swap_max);
        self.low = limits.low;
        self.min = limits.min;
        self.high = limits.high;
        self.swap_high = limits.swap_high;
        self.soft = limits.soft;
        // For a tenant directly below the target of a reclaim, min and low are also the effective
        // protection.
        self.protection = Protection {
            min: limits.min,
            low: limits.low,
        };
    }

    /// Returns the limits.
    #[must_use]
    pub const fn limits(&self) -> MemcgLimits {
        MemcgLimits {
            min: self.min,
            low: self.low,
            high: self.high,
            max: self.memory.max(),
            swap_max: self.swap.max(),
            swap_high: self.swap_high,
            soft: self.soft,
        }
    }

    /// Returns the number of charged pages: those that the engine knows of, and those in stocks.
    #[must_use]
    pub const fn charged(&self) -> Pages {
        self.memory.charged()
    }

    pub(crate) const fn unseen(&self) -> i64 {
        self.memory.unseen()
    }

    pub(crate) const fn set_unseen(&mut self, unseen: i64) {
        self.memory.set_unseen(unseen);
    }

    /// Returns memory.current: the charged pages, or, after a measurement, the measured usage
    /// ([`MemcgTree::set_measured`]).
    #[must_use]
    pub const fn usage(&self) -> Pages {
        self.memory.usage()
    }

    /// Returns the number of pages by which the protection of this memcg is computed: its usage, or
    /// its charged pages if the usage is less than half of them. The usage may be near zero if
    /// pages of a process that was moved here are still charged elsewhere. The charged pages alone
    /// will not do: together with pages that other memcgs are charged for, such as shared program
    /// code, they may exceed the usage of the parent.
    #[must_use]
    pub const fn held(&self) -> Pages {
        let (usage, charged) = (self.usage(), self.charged());
        if usage.0 < charged.0 / 2 {
            charged
        } else {
            usage
        }
    }

    /// Whether `protection` covers all pages of this memcg.
    const fn is_covered(&self, protection: Pages) -> bool {
        protection.0 >= self.held().0
    }

    /// Returns how many pages of this memcg may be reclaimed if `protection` applies.
    #[must_use]
    pub const fn beyond(&self, protection: Pages) -> Pages {
        match self.is_covered(protection) {
            true => Pages(0),
            false => self.held().less(protection),
        }
    }

    /// Returns memory.peak: the largest usage so far.
    #[must_use]
    pub const fn peak(&self) -> Pages {
        self.memory.watermark()
    }

    /// Returns memory.swap.current: the number of swapped-out anon pages.
    #[must_use]
    pub const fn swap_usage(&self) -> Pages {
        self.swap.usage()
    }

    /// Returns how many more pages may be swapped out below memory.swap.max.
    #[must_use]
    pub const fn swap_available(&self) -> Pages {
        self.swap.max().pages().less(self.swap.usage())
    }

    /// memory.swappiness.
    #[must_use]
    pub const fn swappiness(&self) -> Swappiness {
        self.swappiness
    }

    /// Sets memory.swappiness.
    pub const fn set_swappiness(&mut self, swappiness: Swappiness) {
        self.swappiness = swappiness;
    }

    /// Returns the events of this memcg alone: memory.events.local.
    #[must_use]
    pub const fn events(&self) -> &MemcgEvents {
        &self.events
    }

    pub(crate) const fn event(&mut self, event: MemcgEvent) {
        self.events.add(event, 1);
    }

    /// Charges `nr` pages if memory.max allows it.
    ///
    /// # Errors
    /// [`OverLimit`] when memory.max would be exceeded. The caller counts the event MAX, because
    /// only the caller knows whether this is the first attempt.
    pub const fn try_charge(&mut self, nr: Pages) -> Result<(), OverLimit> {
        self.memory.try_charge(nr)
    }

    /// Charges `nr` pages, even over memory.max; then counts the event MAX. For pages that are in
    /// memory already, such as those of a running program.
    pub const fn charge_forced(&mut self, nr: Pages) {
        if self.memory.try_charge(nr).is_err() {
            self.event(MemcgEvent::Max);
            self.memory.charge(nr);
        }
    }

    pub(crate) const fn charge_unchecked(&mut self, nr: Pages) {
        self.memory.charge(nr);
    }

    /// Returns the effective protection, as last computed.
    #[must_use]
    pub const fn protection(&self) -> Protection {
        self.protection
    }

    pub(crate) const fn set_protection(&mut self, protection: Protection) {
        self.protection = protection;
    }

    /// Uncharges `nr` pages.
    pub const fn uncharge(&mut self, nr: Pages) {
        self.memory.uncharge(nr);
    }

    pub(crate) const fn charge_swap(&mut self, nr: Pages) {
        self.swap.charge(nr);
    }

    pub(crate) const fn uncharge_swap(&mut self, nr: Pages) {
        self.swap.uncharge(nr);
    }

    /// Returns the number of pages above memory.high.
    #[must_use]
    pub const fn over_high(&self) -> Pages {
        self.usage().less(self.high.pages())
    }

    /// Returns the number of swapped-out pages above memory.swap.high.
    #[must_use]
    pub const fn over_swap_high(&self) -> Pages {
        self.swap_usage().less(self.swap_high.pages())
    }

    /// Returns the overages of memory.high and of memory.swap.high; see [`overage`].
    #[must_use]
    pub fn high_overages(&self) -> HighOverages {
        HighOverages {
            memory: overage(self.usage(), self.high.pages()),
            swap: overage(self.swap_usage(), self.swap_high.pages()),
        }
    }

    /// Returns the number of pages above memory.max; more than 0 only after a forced charge.
    #[must_use]
    pub const fn over_max(&self) -> Pages {
        self.usage().less(self.memory.max().pages())
    }

    /// Whether effective min covers all pages of this memcg, so that reclaim for a memcg above
    /// takes none.
    #[must_use]
    pub const fn below_min(&self) -> bool {
        self.is_covered(self.protection.min)
    }

    /// Whether effective low covers all pages of this memcg.
    #[must_use]
    pub const fn below_low(&self) -> bool {
        self.is_covered(self.protection.low)
    }

    /// Returns how long a task that has just charged `nr` pages must sleep because usage is above
    /// memory.high or memory.swap.high. Counts the event HIGH or SWAP_HIGH for each that is
    /// exceeded.
    pub fn throttle(&mut self, nr: Pages) -> Millis {
        if self.over_high() > Pages(0) {
            self.event(MemcgEvent::High);
        }
        if self.over_swap_high() > Pages(0) {
            self.event(MemcgEvent::SwapHigh);
        }
        self.high_overages().delay(nr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(limits: MemcgLimits) -> Memcg {
        Memcg::new(limits, Swappiness::default())
    }

    fn pages(n: u64) -> Limit {
        Limit::of(Pages(n))
    }

    #[test]
    fn a_forced_charge_goes_over_and_is_counted() {
        let mut memcg = with(MemcgLimits {
            max: pages(10),
            ..MemcgLimits::default()
        });
        assert!(memcg.try_charge(Pages(10)).is_ok());
        assert!(memcg.try_charge(Pages(1)).is_err());
        assert_eq!(memcg.events().get(MemcgEvent::Max), 0);
        memcg.charge_forced(Pages(2));
        assert_eq!((memcg.usage(), memcg.over_max()), (Pages(12), Pages(2)));
        assert_eq!(memcg.events().get(MemcgEvent::Max), 1);
        memcg.uncharge(Pages(12));
        assert_eq!((memcg.usage(), memcg.peak()), (Pages(0), Pages(12)));
    }

    /// reclaim-control.md 11, test 16, and 2.1: a memcg is below min or low if these are at least
    /// its usage.
    #[test]
    fn below_its_protection() {
        let mut memcg = with(MemcgLimits {
            min: Pages(5),
            low: Pages(8),
            ..MemcgLimits::default()
        });
        memcg.charge_forced(Pages(5));
        assert!(memcg.below_min() && memcg.below_low());
        memcg.charge_forced(Pages(1));
        assert!(!memcg.below_min() && memcg.below_low());
        assert!(with(MemcgLimits::default()).below_low(), "0 >= 0");
    }

    #[test]
    fn throttling_starts_above_high() {
        let mut memcg = with(MemcgLimits {
            high: pages(25_600),
            ..MemcgLimits::default()
        });
        memcg.charge_forced(Pages(25_600));
        assert_eq!(memcg.throttle(Pages(64)), Millis(0));
        memcg.charge_forced(Pages(512));
        assert_eq!(memcg.throttle(Pages(64)), Millis(25));
        assert_eq!(memcg.events().get(MemcgEvent::High), 1);
    }
}
