//! Watermarks of a node's free memory, and the background reclaimer that keeps them.
//! spec: reclaim-control.md 5.1, 5.2.

use super::SWAP_CLUSTER_MAX;
use crate::lru_gen::DEF_PRIORITY;
use crate::memcg::MAX_RECLAIM_RETRIES;
use crate::units::Pages;

/// Free pages at which something happens. Invariant: min <= low <= high <= promo (I6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// Below it allocations reclaim on their own time.
    pub min: Pages,
    /// Below it the background reclaimer is woken.
    pub low: Pages,
    /// At it the background reclaimer stops.
    pub high: Pages,
    /// The same where colder memory takes demoted pages.
    pub promo: Pages,
}

/// The default of `watermark_scale_factor`, in ten-thousandths.
pub const WATERMARK_SCALE_FACTOR: u64 = 10;

impl Watermarks {
    /// Watermarks of a zone of `managed` pages whose share of the reserve is `min`.
    #[must_use]
    pub fn new(managed: Pages, min: Pages, scale_factor: u64) -> Self {
        let gap = (min.0 / 4).max(managed.0.saturating_mul(scale_factor) / 10_000);
        let above = |n: u64| Pages(min.0 + n * gap);
        Self {
            min,
            low: above(1),
            high: above(2),
            promo: above(3),
        }
    }
}

/// min_free_kbytes for so much low memory.
#[must_use]
pub fn min_free_kbytes(lowmem_kb: u64) -> u64 {
    (lowmem_kb.saturating_mul(16)).isqrt().clamp(128, 262_144)
}

/// The background reclaimer of one node, as a state to be driven: when it runs, how hard, when it
/// gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kswapd {
    priority: u32,
    failures: u32,
    progress: bool,
}

impl Default for Kswapd {
    fn default() -> Self {
        Self {
            priority: DEF_PRIORITY,
            failures: 0,
            progress: false,
        }
    }
}

/// What the background reclaimer does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KswapdStep {
    /// Reclaim so many pages at this priority, then report.
    Reclaim {
        /// The aim.
        nr: Pages,
        /// How hard.
        priority: u32,
    },
    /// Sleep: balanced, or hopeless until a direct reclaim succeeds.
    Sleep,
}

impl Kswapd {
    /// The next step with `free` pages.
    #[must_use]
    pub fn next(&self, free: Pages, marks: Watermarks) -> KswapdStep {
        if free >= marks.high || self.is_hopeless() {
            return KswapdStep::Sleep;
        }
        let nr = marks.high.max(Pages(SWAP_CLUSTER_MAX));
        KswapdStep::Reclaim {
            nr,
            priority: self.priority,
        }
    }

    /// A step has reclaimed and scanned so much. A round goes from priority 12 to 1; without any
    /// progress it counts as a failure.
    pub fn done(&mut self, nr: Pages, scanned: u64, reclaimed: Pages) {
        self.progress |= reclaimed > Pages(0);
        if scanned >= nr.0 && reclaimed > Pages(0) {
            return;
        }
        self.priority -= 1;
        if self.priority == 0 {
            self.failures = if self.progress { 0 } else { self.failures + 1 };
            (self.priority, self.progress) = (DEF_PRIORITY, false);
        }
    }

    /// Balanced: the next round starts gently.
    pub fn balanced(&mut self) {
        *self = Self::default();
    }

    /// A direct reclaim got something: worth trying again.
    pub const fn direct_success(&mut self) {
        self.failures = 0;
    }

    /// Sixteen rounds got nothing.
    #[must_use]
    pub const fn is_hopeless(&self) -> bool {
        self.failures >= MAX_RECLAIM_RETRIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// reclaim-control.md 11, test 9.
    #[test]
    fn watermarks_and_reserve() {
        let marks = Watermarks::new(Pages(1_000_000), Pages(4000), WATERMARK_SCALE_FACTOR);
        let expect = [4000, 5000, 6000, 7000].map(Pages);
        assert_eq!([marks.min, marks.low, marks.high, marks.promo], expect);
        assert_eq!(min_free_kbytes(16 << 20), 16_384);
        assert_eq!(
            (min_free_kbytes(1), min_free_kbytes(u64::MAX)),
            (128, 262_144)
        );
    }

    /// reclaim-control.md 11, test 10.
    #[test]
    fn stops_at_high_and_after_sixteen_fruitless_rounds() {
        let marks = Watermarks::new(Pages(1000), Pages(100), WATERMARK_SCALE_FACTOR);
        let mut kswapd = Kswapd::default();
        assert_eq!(kswapd.next(marks.high, marks), KswapdStep::Sleep);
        let mut steps = 0;
        while let KswapdStep::Reclaim { nr, priority } = kswapd.next(Pages(0), marks) {
            assert_eq!(nr, marks.high);
            assert_eq!(u64::from(priority), 12 - steps % 12);
            kswapd.done(nr, 0, Pages(0));
            steps += 1;
        }
        assert_eq!(steps, 16 * 12);
        kswapd.direct_success();
        assert_ne!(kswapd.next(Pages(0), marks), KswapdStep::Sleep);
        kswapd.done(Pages(10), 20, Pages(5));
        kswapd.balanced();
        assert_eq!(kswapd, Kswapd::default());
    }
}
