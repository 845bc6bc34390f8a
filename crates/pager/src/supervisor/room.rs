//! What the limits allow: where reclaim starts and stops, and how many pages may come meanwhile.
//!
//! Invariant: plain arithmetic. `memory.max` is a wall: what is allowed never passes it.
//! `memory.high` is a slope: above it a page costs the delay of the kernel's formula
//! (`reclaim-control.md` 3), however far above; it stops nobody.

use engine::Pages;
use engine::memcg::{high_delay, overage};

pub(super) const PAGE: u64 = 4096;
/// Pages that the kernel charges, and delays, at a time.
const BATCH: u64 = 64;

/// `memory.max` and `memory.high`, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Bounds {
    pub(super) max: Option<u64>,
    pub(super) high: Option<u64>,
}

impl Bounds {
    /// The lower of the two: what reclaim holds.
    pub(super) fn upper(&self) -> Option<u64> {
        match (self.max, self.high) {
            (Some(max), Some(high)) => Some(max.min(high)),
            (max, high) => max.or(high),
        }
    }

    /// Bytes that must go now. Reclaim starts with half of the headroom used up and makes all of
    /// it, so that it works in batches and a fault seldom waits.
    pub(super) fn surplus(&self, resident: u64) -> u64 {
        let Some(upper) = self.upper() else { return 0 };
        let headroom = headroom(upper);
        if resident + headroom / 2 <= upper {
            return 0;
        }
        resident.saturating_sub(upper - headroom)
    }

    /// Pages that may come before the next look, the last having been `ms` ago.
    pub(super) fn allowance(&self, resident: u64, slope: &mut Slope, ms: u64) -> u64 {
        let wall = self
            .max
            .map_or(u64::MAX, |max| max.saturating_sub(resident) / PAGE);
        let Some(high) = self.high else { return wall };
        let below = high.saturating_sub(resident) / PAGE;
        wall.min(below.saturating_add(slope.pages(resident, high, ms)))
    }
}

/// Room that reclaim leaves below a limit.
fn headroom(limit: u64) -> u64 {
    (limit / 32).clamp(1 << 20, 64 << 20).min(limit / 8)
}

/// Time that has passed above `memory.high` and was not yet spent on pages: milliseconds times
/// [`BATCH`], so that no part of a page is lost.
#[derive(Default, Debug)]
pub(super) struct Slope {
    unspent: u64,
}

impl Slope {
    /// Pages that the time since the last look is worth, `ms`.
    fn pages(&mut self, resident: u64, high: u64, ms: u64) -> u64 {
        let (usage, bound) = (Pages(resident / PAGE), Pages(high / PAGE));
        let delay = high_delay(overage(usage, bound), Pages(BATCH)).0;
        if delay == 0 {
            self.unspent = 0;
            return BATCH;
        }
        self.unspent = (self.unspent + ms.min(delay) * BATCH).min(delay * BATCH);
        let pages = self.unspent / delay;
        self.unspent -= pages * delay;
        pages
    }
}

/// Pages of the target that eviction by age may take: none below `memory.min`, and below
/// `memory.low` only when the host has nothing else left. Eviction by age makes room for others;
/// the target's own limits and `pagetide reclaim` ask nobody (as the kernel, which does not
/// protect the group that reclaim starts at).
pub(super) fn unprotected(resident: u64, min: u64, low: u64, host_short: bool) -> u64 {
    let floor = if host_short { min } else { min.max(low) };
    resident.saturating_sub(floor) / PAGE
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn bounds(max: Option<u64>, high: Option<u64>) -> Bounds {
        let bytes = |mib: Option<u64>| mib.map(|mib| mib * MIB);
        Bounds {
            max: bytes(max),
            high: bytes(high),
        }
    }

    #[test]
    fn reclaim_works_in_batches_below_the_lower_limit() {
        for b in [
            bounds(Some(64), None),
            bounds(None, Some(64)),
            bounds(Some(99), Some(64)),
        ] {
            assert_eq!(b.surplus(62 * MIB), 0);
            assert_eq!(b.surplus(63 * MIB), 0);
            assert_eq!(b.surplus(63 * MIB + MIB / 2), MIB + MIB / 2);
            assert_eq!(b.surplus(70 * MIB), 8 * MIB);
        }
        assert_eq!(bounds(None, None).surplus(u64::MAX), 0);
    }

    #[test]
    fn max_is_a_wall() {
        let (b, mut slope) = (bounds(Some(64), None), Slope::default());
        assert_eq!(b.allowance(63 * MIB, &mut slope, 1), 256);
        assert_eq!(b.allowance(64 * MIB, &mut slope, 1000), 0);
        assert_eq!(b.allowance(80 * MIB, &mut slope, 1000), 0);
    }

    #[test]
    fn high_is_a_slope_that_stops_nobody() {
        let b = bounds(None, Some(100));
        let in_a_second = |over: u64| {
            let mut slope = Slope::default();
            let looks = (0..1000).map(|_| b.allowance((100 + over) * MIB, &mut slope, 1));
            looks.sum::<u64>()
        };
        // No delay below 10 ms; then 25 ms for 64 pages at 2%, 639 ms at 10%, never over 2 s.
        assert_eq!(in_a_second(1), 64_000);
        assert!((2300..2700).contains(&in_a_second(2)), "{}", in_a_second(2));
        assert!((90..110).contains(&in_a_second(10)), "{}", in_a_second(10));
        assert!((30..=32).contains(&in_a_second(90)), "{}", in_a_second(90));
    }

    #[test]
    fn both_limits_hold_at_once() {
        let (b, mut slope) = (bounds(Some(101), Some(100)), Slope::default());
        assert_eq!(b.allowance(100 * MIB + MIB / 2, &mut slope, 1), 64);
        assert_eq!(b.allowance(101 * MIB - PAGE, &mut slope, 1), 1);
        assert_eq!(b.allowance(99 * MIB, &mut slope, 1), 256 + 64);
    }

    #[test]
    fn protection_is_strict_for_min_and_yields_for_low() {
        let pages = |resident: u64, short| unprotected(resident * MIB, 10 * MIB, 30 * MIB, short);
        assert_eq!(pages(40, false), 10 * MIB / PAGE);
        assert_eq!(pages(20, false), 0);
        assert_eq!(pages(20, true), 10 * MIB / PAGE);
        assert_eq!(pages(10, true), 0);
    }
}
