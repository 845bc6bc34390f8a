//! Scans and their times: recent scans each have a cohort of their own; older scans are merged,
//! several to a cohort.
//!
//! Invariant: cohorts are in ascending order and without gaps. The last `EXACT` scans and the
//! current one are not merged. A merged cohort was, when it was formed, no wider than 1/32 of its
//! age. A cohort's time is that of its youngest scan, so no page is reported older than it can be.

use super::age_record::SCAN_MAX;

/// Number of scans before the current one that are not merged, so that their times stay exact.
pub(super) const EXACT: usize = 64;
/// When a cohort is formed, its width is at most its age divided by this.
const FINENESS: u64 = 32;

/// One scan, or consecutive old scans that were merged and are no longer distinguished.
#[derive(Clone, Copy, Debug)]
struct Cohort {
    /// Number of the cohort's first scan; the cohort ends where the next one begins.
    first: u32,
    /// Times of its oldest and its youngest scan, in milliseconds.
    oldest_ms: u64,
    youngest_ms: u64,
}

/// The times of all scans.
#[derive(Debug)]
pub(super) struct Timeline {
    cohorts: Vec<Cohort>,
    /// Index of the first cohort from which on every cohort is a single scan; `exact_scan` is that
    /// first scan's number.
    exact: usize,
    exact_scan: u32,
    /// Number of the current scan.
    now: u32,
    /// The highest scan number before renumbering; only tests set it below `SCAN_MAX`.
    limit: u32,
}

impl Timeline {
    pub(super) fn new(now_ms: u64, limit: u32) -> Timeline {
        assert!(limit <= SCAN_MAX, "records hold no higher scan");
        let first = Cohort {
            first: 0,
            oldest_ms: now_ms,
            youngest_ms: now_ms,
        };
        Timeline {
            cohorts: vec![first],
            exact: 0,
            exact_scan: 0,
            now: 0,
            limit,
        }
    }

    /// Returns the number of the current scan.
    pub(super) const fn now(&self) -> u32 {
        self.now
    }

    /// Returns the time of the current scan, in milliseconds.
    pub(super) fn now_ms(&self) -> u64 {
        self.time_ms(self.cohorts.len() - 1)
    }

    /// Returns the time of the scan before the current one, in milliseconds; if the current scan is
    /// the first, its own time.
    pub(super) fn before_ms(&self) -> u64 {
        self.time_ms(self.cohorts.len().saturating_sub(2))
    }

    /// Returns the time that is reported for an access at `ms`, in milliseconds.
    pub(super) fn representative_ms(&self, ms: u64) -> u64 {
        let at = self
            .cohorts
            .partition_point(|cohort| cohort.youngest_ms < ms);
        self.cohorts.get(at).map_or(ms, |cohort| cohort.youngest_ms)
    }

    /// Returns the time that is reported for a cohort, in milliseconds.
    pub(super) fn time_ms(&self, cohort: usize) -> u64 {
        self.cohorts[cohort].youngest_ms
    }

    /// Returns the index of the cohort that a scan belongs to.
    #[inline]
    pub(super) fn cohort(&self, scan: u32) -> usize {
        debug_assert!(scan <= self.now, "a scan to come");
        match scan.checked_sub(self.exact_scan) {
            Some(after) => self.exact + after as usize,
            None => self.cohorts.partition_point(|cohort| cohort.first <= scan) - 1,
        }
    }

    /// Begins the next scan. If the clock went back, the scan gets the time of the scan before.
    pub(super) fn advance(&mut self, now_ms: u64) {
        assert!(
            self.now < self.limit,
            "the caller renumbers when the timeline is full"
        );
        let time = now_ms.max(self.now_ms());
        self.now += 1;
        self.cohorts.push(Cohort {
            first: self.now,
            oldest_ms: time,
            youngest_ms: time,
        });
        debug_assert_eq!(self.cohort(self.now), self.cohorts.len() - 1);
    }

    /// Returns whether old cohorts should be merged: about once in 64 scans, so that merging costs
    /// almost nothing.
    pub(super) fn is_crowded(&self) -> bool {
        self.cohorts.len() - self.exact > 2 * EXACT
    }

    /// Returns whether scans must be renumbered before the next one.
    pub(super) const fn is_full(&self) -> bool {
        self.now >= self.limit
    }

    /// Merges old neighbouring cohorts as far as their age allows. Returns, for each old cohort,
    /// its new index.
    pub(super) fn merge(&mut self) -> Vec<u32> {
        let now_ms = self.now_ms();
        let old = self.cohorts.len().saturating_sub(EXACT + 1);
        let mut merged: Vec<Cohort> = Vec::with_capacity(self.cohorts.len());
        let mut places = Vec::with_capacity(self.cohorts.len());
        for (at, &next) in self.cohorts.iter().enumerate() {
            match merged.last_mut() {
                Some(last) if at < old && next.fits(*last, now_ms) => {
                    last.youngest_ms = next.youngest_ms;
                }
                _ => merged.push(next),
            }
            // `merged` is not empty: the first cohort is always pushed.
            places.push(u32::try_from(merged.len() - 1).unwrap_or(u32::MAX));
        }
        self.exact = merged.len().saturating_sub(EXACT + 1);
        self.cohorts = merged;
        self.exact_scan = self.cohorts[self.exact].first;
        assert_eq!(
            self.cohort(self.now),
            self.cohorts.len() - 1,
            "the current scan is the last"
        );
        assert!(
            self.cohorts
                .is_sorted_by_key(|cohort| (cohort.first, cohort.youngest_ms))
        );
        places
    }

    /// Renumbers scans so that numbers become free: each cohort becomes one scan, numbered by the
    /// cohort's index. The caller must first replace each scan number that it stores by its
    /// `cohort`.
    pub(super) fn renumber(&mut self) {
        for (number, cohort) in (0..).zip(&mut self.cohorts) {
            cohort.first = number;
            self.now = number;
        }
        // From here on, older cohorts too are single scan numbers.
        (self.exact, self.exact_scan) = (0, 0);
        assert!(self.now < self.limit, "more cohorts than scans");
        assert_eq!(self.cohort(self.now), self.cohorts.len() - 1);
    }

    /// Returns the number of cohorts.
    #[cfg(test)]
    pub(super) const fn cohorts(&self) -> usize {
        self.cohorts.len()
    }

    /// Returns the heap memory of the timeline, in bytes.
    pub(super) const fn memory_bytes(&self) -> usize {
        self.cohorts.capacity() * size_of::<Cohort>()
    }
}

impl Cohort {
    /// Returns whether this cohort may be merged with the cohort before it.
    const fn fits(self, before: Cohort, now_ms: u64) -> bool {
        let width = self.youngest_ms - before.oldest_ms;
        width.saturating_mul(FINENESS) <= now_ms - self.youngest_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page in a test: the time of its access, and the cohort in which it is counted.
    struct Page {
        accessed_ms: u64,
        cohort: usize,
    }

    fn check(time: &Timeline, pages: &[Page]) {
        for page in pages {
            let claimed = time.time_ms(page.cohort);
            assert!(claimed >= page.accessed_ms, "claimed older than it is");
            assert!((claimed - page.accessed_ms) * FINENESS <= time.now_ms() - claimed);
        }
    }

    #[test]
    fn a_million_scans_make_less_than_a_thousand_cohorts() {
        let mut time = Timeline::new(5, SCAN_MAX);
        let mut pages: Vec<Page> = Vec::new();
        for scan in 1..=1_000_000_u64 {
            if time.is_full() {
                time.renumber();
                check(&time, &pages);
            }
            // Intervals of half a second to one and a half.
            time.advance(scan * 1000 + scan * 7919 % 500);
            if scan % 997 == 0 {
                pages.push(Page {
                    accessed_ms: time.now_ms(),
                    cohort: time.cohorts() - 1,
                });
            }
            if time.is_crowded() {
                let places = time.merge();
                pages
                    .iter_mut()
                    .for_each(|page| page.cohort = places[page.cohort] as usize);
            }
            assert!(time.cohorts() < 1000);
        }
        check(&time, &pages);
    }

    #[test]
    fn the_last_64_scans_are_exact_and_a_clock_that_goes_back_stands_still() {
        let mut time = Timeline::new(0, SCAN_MAX);
        for scan in 1..1000 {
            time.advance(scan * 10);
            if time.is_crowded() {
                time.merge();
            }
            for ago in 0..=scan.min(EXACT as u64) {
                let then = time.now() - u32::try_from(ago).unwrap();
                assert_eq!(time.time_ms(time.cohort(then)), (scan - ago) * 10);
            }
        }
        time.advance(3);
        assert_eq!(time.now_ms(), 9990);
    }
}
