//! Decides for the limits of one tenant after each measurement of its usage: what is done, and when
//! usage is measured next.
//!
//! Invariant: reclaim is left to the kernel alone only while it enforces the limit. That is done if
//! the tenant is thrashing ([`super::thrashing_detector`]), or if it allocates faster than
//! proactive reclaim ([`super::allocation_race`]).
//!
//! Pages that proactive reclaim takes from such tenants are refaulted at once. With proactive
//! reclaim, two Redis servers under one limit served 64% of the requests that they served under the
//! kernel alone.

use std::time::Duration;

use engine::Pages;
use engine::vmscan::{Headroom, Wanted};

use super::super::ahead_of_limit::LimitOrder;
use super::super::moment::Moment;
use super::allocation_race::AllocationRace;
use super::swap_cache::SwapCacheRequests;
use super::thrashing_detector::ThrashingDetector;

/// A measurement of a tenant that has a limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct LimitUsage {
    pub(super) usage: Pages,
    /// What the limits require at this usage.
    pub(super) wanted: Wanted,
    /// The part of the usage that the kernel frees first and at no cost, such as page cache.
    pub(super) free: Pages,
    /// Whether the kernel drops mapped files in use together with page cache.
    pub(super) files_are_dropped: bool,
    /// Whether the kernel enforces the limits.
    pub(super) is_enforced: bool,
}

/// Functions that read counters of the tenant's group. They are called only if the decision depends
/// on the counter.
pub(super) struct LimitCounters<'a> {
    /// Total number of charges that met the limit.
    pub(super) hits: &'a dyn Fn() -> Option<u64>,
    /// Total number of page faults that had to read.
    pub(super) majors: &'a dyn Fn() -> Option<u64>,
}

/// What is done for a tenant's limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LimitStep {
    /// Nothing for this time.
    Wait(Duration),
    /// The manager requests that the kernel free memory at no cost.
    DropFirst,
    /// For the time `left` only the kernel reclaims, at the tenant's `memory.max`. If the kernel
    /// would reclaim protected memory, the engine reclaims `pages` instead.
    LeaveToKernel {
        left: Duration,
        is_thrashing: bool,
        pages: Pages,
    },
    /// The engine reclaims this many pages.
    Reclaim(Pages),
}

/// Decides for the limits of one tenant.
#[derive(Debug)]
pub(super) struct LimitController {
    /// When usage is measured next.
    next: Moment,
    /// Last usage, and how well reclaim works.
    room: Headroom,
    thrashing: ThrashingDetector,
    allocation_race: AllocationRace,
    swap_cache: SwapCacheRequests,
}

impl LimitController {
    pub(super) fn new(now: Moment) -> LimitController {
        LimitController {
            next: Moment::BEGIN,
            room: Headroom::default(),
            thrashing: ThrashingDetector::default(),
            allocation_race: AllocationRace::new(now),
            swap_cache: SwapCacheRequests::default(),
        }
    }

    /// Returns the time until usage is measured.
    pub(super) const fn wait(&self, now: Moment) -> Duration {
        self.next.since(now)
    }

    /// Makes usage be measured at once, because the limits have changed.
    pub(super) const fn restart(&mut self) {
        self.next = Moment::BEGIN;
    }

    /// Sets the time until usage is measured to `wait`, and returns it.
    pub(super) const fn measure_after(&mut self, now: Moment, wait: Duration) -> Duration {
        self.next = now.after(wait);
        wait
    }

    /// Decides what is done now.
    pub(super) fn step(
        &mut self,
        now: Moment,
        measured: &LimitUsage,
        counters: &LimitCounters<'_>,
    ) -> LimitStep {
        let LimitUsage {
            usage,
            wanted,
            free,
            is_enforced,
            ..
        } = *measured;
        match LimitOrder::of(wanted.pages, free, is_enforced) {
            LimitOrder::Wait if wanted.pages == Pages(0) => {
                LimitStep::Wait(self.room.pause(usage, wanted.left))
            }
            // At its limit the kernel drops page cache as the tenant grows.
            LimitOrder::Wait => {
                let spare = free.less(wanted.pages);
                LimitStep::Wait(self.room.pause_at_hard_limit(usage.less(free), spare))
            }
            LimitOrder::DropFirst => LimitStep::DropFirst,
            LimitOrder::Reclaim(pages) if is_enforced => {
                let race = self.allocation_race.left(now, counters.hits);
                let is_thrashing = race.is_none();
                let left = race.or_else(|| self.thrashing.left(now, usage, counters.majors));
                left.map_or(LimitStep::Reclaim(pages), |left| LimitStep::LeaveToKernel {
                    left,
                    is_thrashing,
                    pages,
                })
            }
            LimitOrder::Reclaim(pages) => LimitStep::Reclaim(pages),
        }
    }

    /// Records that the kernel dropped `got` of `most` pages of page cache. Returns the time until
    /// the next measurement; `None` if that was hardly any.
    pub(super) fn dropped(
        &mut self,
        (got, most): (Pages, Pages),
        measured: &LimitUsage,
    ) -> Option<Duration> {
        if !Headroom::is_worth_it(got, most) {
            return None;
        }
        self.room.note(got, most);
        Some(self.room.pause(measured.usage, measured.wanted.left))
    }

    /// Whether to request that the kernel free clean swap cache; `written` is the size of that
    /// cache.
    pub(super) fn takes_swap_cache(&mut self, written: Pages, measured: &LimitUsage) -> bool {
        self.swap_cache.may_go_on(written, measured.wanted.pages)
    }

    /// Records that the kernel freed `got` of `most` pages of clean swap cache.
    pub(super) fn note_swap_cache(&mut self, got: Pages, most: Pages) {
        self.swap_cache.note(got, most);
    }

    /// Records that a reclaim got `got` of `most` pages. `before`: usage and headroom when it
    /// began. Returns the time until the next measurement.
    pub(super) fn reclaimed(
        &mut self,
        (got, most): (Pages, Pages),
        before: (Pages, Pages),
    ) -> Duration {
        self.room.note(got, most);
        self.room.wait_after((got, most), before)
    }
}

#[cfg(test)]
mod tests {
    use engine::Limit;
    use proptest::prelude::*;

    use super::super::super::moment::at_ms;
    use super::*;

    /// The limit of these tests, in pages: 400 MiB.
    const MAX: u64 = 102_400;

    /// Returns a measurement of a tenant with a memory.max of [`MAX`].
    fn at(usage: u64, free: u64, is_enforced: bool) -> LimitUsage {
        let max = Limit::Bytes(Pages(MAX).bytes());
        let wanted = Headroom::wanted((max, Limit::Max), Pages(usage));
        LimitUsage {
            usage: Pages(usage),
            wanted: wanted.expect("a limit"),
            free: Pages(free),
            files_are_dropped: false,
            is_enforced,
        }
    }

    /// A tenant at its limit, with the kernel's counters.
    struct Tenant(LimitController);

    impl Tenant {
        fn new() -> Tenant {
            Tenant(LimitController::new(Moment::BEGIN))
        }

        fn step(&mut self, ms: u64, measured: LimitUsage, [hits, majors]: [u64; 2]) -> LimitStep {
            let counters = LimitCounters {
                hits: &|| Some(hits),
                majors: &|| Some(majors),
            };
            self.0.step(at_ms(ms), &measured, &counters)
        }
    }

    /// Returns for how many ms only the kernel reclaims; `None` if the engine does.
    fn left_ms(step: LimitStep) -> Option<u128> {
        match step {
            LimitStep::LeaveToKernel { left, .. } => Some(left.as_millis()),
            LimitStep::Reclaim(pages) => {
                assert!(pages > Pages(0));
                None
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_nearer_the_limit_the_sooner_usage_is_measured() {
        let mut tenant = Tenant::new();
        let waits = [1000, MAX - 30_000, MAX - 2000].map(|usage| {
            match tenant.step(0, at(usage, 0, true), [0, 0]) {
                LimitStep::Wait(wait) => wait.as_millis(),
                other => panic!("{other:?}"),
            }
        });
        assert!(waits.is_sorted_by(|one, next| one > next), "{waits:?}");
    }

    /// Cache fills every limit: otherwise the kernel would sum the counters of each such tenant 50
    /// times a second.
    #[test]
    fn a_tenant_full_of_page_cache_is_measured_ever_later() {
        let mut tenant = Tenant::new();
        let mut wait = || match tenant.step(0, at(MAX, 90_000, true), [0, 0]) {
            LimitStep::Wait(wait) => wait.as_millis(),
            other => panic!("{other:?}"),
        };
        let waits: Vec<u128> = (0..60).map(|_| wait()).collect();
        assert!(waits.is_sorted() && waits[59] == 200, "{waits:?}");
    }

    /// Regression: the usage above a lowered limit was page cache, which the kernel was to drop at
    /// `memory.max`. But `memory.max` was not set, because too much was charged. The tenant was
    /// reported as limited, and grew without end.
    #[test]
    fn the_kernel_drops_cache_for_a_limit_that_it_does_not_enforce() {
        let (mut tenant, measured) = (Tenant::new(), at(2 * MAX, 2 * MAX, false));
        assert_eq!(tenant.step(0, measured, [0, 0]), LimitStep::DropFirst);
        let most = Pages(8192);
        assert!(tenant.0.dropped((most, most), &measured).is_some());
        let hardly = (Pages(255), most);
        assert_eq!(tenant.0.dropped(hardly, &measured), None, "the engine does");
    }

    /// Regression: two redis servers under one hard limit served 64% of the requests that they
    /// served when only the kernel enforced the limit.
    #[test]
    fn a_thrashing_tenant_is_left_to_the_kernel_ever_longer() {
        let mut tenant = Tenant::new();
        let (mut faults, mut waits) = (0, Vec::new());
        for second in 0..40 {
            faults += MAX;
            let step = tenant.step(second * 1000, at(MAX, 0, true), [0, faults]);
            waits.push(left_ms(step).map_or(0, |left| left / 1000));
            let is_thrashing = matches!(
                step,
                LimitStep::LeaveToKernel {
                    is_thrashing: true,
                    ..
                }
            );
            assert_eq!(is_thrashing, second > 0);
        }
        // Pauses of 1, 2, 4, 8 and 16 seconds, as long as it thrashes.
        let begun: Vec<u128> = waits
            .windows(2)
            .filter(|two| two[0] <= 1)
            .map(|two| two[1])
            .collect();
        assert_eq!(begun, [1, 2, 4, 8, 16, 16]);
        // It has got enough memory: proactive reclaim goes on.
        let later = tenant.step(60_000, at(MAX, 0, true), [0, faults]);
        assert_eq!(left_ms(later), None);
    }

    #[test]
    fn a_tenant_that_allocates_faster_than_reclaim_is_left_to_the_kernel() {
        let mut tenant = Tenant::new();
        let mut left = |ms, hits| left_ms(tenant.step(ms, at(MAX, 0, true), [hits, 0]));
        assert_eq!(left(40, 1 << 30), None, "proactive reclaim is tried first");
        assert_eq!(left(100, 199), None, "less often than 2,000 times a second");
        assert_eq!(left(200, 399), Some(50));
        assert_eq!(left(240, 9999), Some(10));
        assert_eq!([left(250, 9999), left(300, 10_099)], [None, Some(100)]);
    }

    /// The kernel does not reclaim for a limit that it does not know.
    #[test]
    fn reclaim_for_a_limit_that_the_kernel_does_not_enforce_is_never_left_to_it() {
        let (mut tenant, measured) = (Tenant::new(), at(MAX + 100, 50, false));
        for second in 0..10 {
            let counts = [second << 30, second << 30];
            let step = tenant.step(second * 1000, measured, counts);
            let wanted = measured.wanted.pages.less(Pages(50));
            assert_eq!(step, LimitStep::Reclaim(wanted));
        }
    }

    #[test]
    fn reclaim_in_vain_is_tried_ever_later_until_the_tenant_grows() {
        let mut tenant = Tenant::new();
        let mut reclaimed = |got, usage| {
            let before = (Pages(usage), Pages(0));
            let wait = tenant.0.reclaimed((Pages(got), Pages(8192)), before);
            wait.as_millis()
        };
        let waits: Vec<u128> = (0..12).map(|_| reclaimed(0, MAX)).collect();
        assert_eq!(waits[..4], [2, 2, 2, 2]);
        assert_eq!(waits[4..], [100, 200, 400, 800, 1600, 3200, 3200, 3200]);
        assert_eq!(reclaimed(0, MAX + 300), 2);
        assert_eq!(
            reclaimed(8192, MAX),
            0,
            "and at once after much was reclaimed"
        );
    }

    /// Regression: pages swapped out to a disk stay charged until their memory is needed, so all of
    /// a tenant was swapped out although it exceeded its limit by a part only.
    #[test]
    fn clean_swap_cache_is_freed_before_the_engine_reclaims() {
        let (mut tenant, measured) = (Tenant::new(), at(MAX, 0, false));
        let written = measured.wanted.pages;
        assert!(tenant.0.takes_swap_cache(written, &measured));
        (0..20).for_each(|_| tenant.0.note_swap_cache(Pages(0), Pages(100)));
        assert!(!tenant.0.takes_swap_cache(written, &measured));
        assert!(
            tenant.0.takes_swap_cache(written, &measured),
            "after a reclaim"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever the counters say, and however far the clock jumps.
        #[test]
        fn a_limit_is_enforced_within_seconds(
            turns in prop::collection::vec(
                (0_u64..100_000, 0..2 * MAX, 0..2 * MAX, any::<bool>(), 0_u64..1 << 40),
                1..100,
            ),
        ) {
            let (mut tenant, mut ms, mut counts) = (Tenant::new(), 0, 0);
            for (passed, usage, free, is_enforced, more) in turns {
                (ms, counts) = (ms + passed, counts + more);
                let measured = at(usage, free, is_enforced);
                let is_over = measured.wanted.pages > Pages(0);
                match tenant.step(ms, measured, [counts / 2, counts]) {
                    LimitStep::Wait(wait) => {
                        prop_assert!(!is_over || (is_enforced && free >= measured.wanted.pages.0));
                        prop_assert!(wait <= Duration::from_millis(3200));
                    }
                    LimitStep::DropFirst => prop_assert!(is_over && !is_enforced),
                    LimitStep::LeaveToKernel { left, pages, .. } => {
                        prop_assert!(is_enforced && is_over && pages > Pages(0));
                        prop_assert!(left <= Duration::from_secs(16));
                    }
                    LimitStep::Reclaim(pages) => {
                        prop_assert!(pages > Pages(0) && pages <= measured.wanted.pages);
                    }
                }
            }
        }
    }

    #[test]
    fn changed_limits_are_enforced_at_once() {
        let mut tenant = Tenant::new();
        assert_eq!(tenant.0.wait(at_ms(7)), Duration::ZERO);
        let wait = Duration::from_millis(200);
        assert_eq!(tenant.0.measure_after(at_ms(7), wait), wait);
        assert_eq!(tenant.0.wait(at_ms(107)), wait / 2);
        tenant.0.restart();
        assert_eq!(tenant.0.wait(at_ms(107)), Duration::ZERO);
    }
}
