//! Clears accessed bits by writing to `/proc/PID/clear_refs`.
//!
//! Invariant: no process waits for a clearing longer than the caller allows, as far as that can be
//! foreseen. The kernel clears all pages in one go and holds the address space's lock for writing
//! meanwhile. So this module estimates the time from earlier clearings ([`Pace`]), and clears
//! nothing if the estimate is too long. (`MADV_COLD` works in slices. But it also deactivates the
//! young pages, which reading ages must not do.)

use std::io;
use std::time::Duration;

use crate::access;

/// Estimate of the time to clear one page before anything was measured, in nanoseconds: 16 ms per
/// GiB. Measured values on a busy machine were 7 to 19 ms per GiB.
const PAGE_NS: f64 = 60.0;
/// Time of a clearing that does not depend on the number of pages, in nanoseconds: the system call
/// itself, and mappings without pages.
const CALL_NS: f64 = 50_000.0;
/// Factor by which all long measurements are multiplied each time that a clearing is refused as too
/// long. So clearing is tried again after some scans: the longer the estimate, the later.
const FORGET: f64 = 0.9;
/// Number of measurements that are kept.
const MEASUREMENTS: usize = 6;
/// Minimum time for which the worker that clears has real-time priority. If twice the estimate is
/// longer, the worker has it for that long.
const REAL_TIME_MIN: Duration = Duration::from_millis(10);
/// A measurement with fewer pages than this counts as at least [`PAGE_NS`] per page, because most
/// of its time is the system call's own.
const FEW: u64 = 4096;

/// Which mappings one clearing covers. The kernel clears either mappings of files (including memory
/// files and shared memory) or all other mappings. The process waits for each of the two clearings
/// separately: two short waits instead of a long one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Part {
    /// Mappings without a file.
    Anon,
    /// Mappings of files, memfd, tmpfs, System V and other shared memory.
    File,
}

impl Part {
    /// The text that makes `clear_refs` clear these mappings.
    const fn mode(self) -> &'static [u8] {
        match self {
            Part::Anon => b"2",
            Part::File => b"3",
        }
    }
}

/// How long it takes to clear one page, learned from clearings of one [`Part`] of an address space.
///
/// The estimate is the second longest of the last measurements, since a single long measurement
/// does not predict the next one. A hypervisor that takes the processor away for 10 ms may do so
/// during a clearing of 1 ms. If the longest measurement were the estimate, clearings would be
/// refused for many scans, and all ages would be unknown meanwhile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// The last measurements, in nanoseconds for each page; the oldest is at [`Pace::oldest`].
    page_ns: [f64; MEASUREMENTS],
    /// Index of the oldest measurement, which the next one replaces.
    oldest: usize,
}

/// The result of a clearing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleared {
    /// The bits were cleared; the address space was locked for this time.
    Done(Duration),
    /// Not tried: the address space would have been locked for about this time.
    TooLong(Duration),
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            page_ns: [PAGE_NS; MEASUREMENTS],
            oldest: 0,
        }
    }
}

impl Pace {
    /// Estimated time to clear `pages` present entries; a huge page counts as one.
    #[must_use]
    pub fn expected(&self, pages: u64) -> Duration {
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let ns = CALL_NS + self.page_ns() * pages as f64;
        Duration::from_nanos(whole(ns))
    }

    /// Returns the second longest of the measurements, in nanoseconds for each page.
    fn page_ns(&self) -> f64 {
        let mut kept = self.page_ns;
        kept.sort_unstable_by(f64::total_cmp);
        kept[MEASUREMENTS - 2]
    }

    /// Replaces the oldest measurement by a new one: clearing `pages` pages took `took`.
    fn learn(&mut self, pages: u64, took: Duration) {
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let seen = (took.as_nanos() as f64 - CALL_NS).max(0.0) / (pages.max(256) as f64);
        let least = if pages < FEW { PAGE_NS } else { 5.0 };
        self.page_ns[self.oldest] = seen.clamp(least, 10_000.0);
        self.oldest = (self.oldest + 1) % MEASUREMENTS;
    }

    /// Reduces the long measurements ([`FORGET`]) after a clearing was refused. Otherwise every
    /// later clearing would be refused, too.
    fn forget(&mut self) {
        let is_slow = |one: &&mut f64| **one > PAGE_NS / 2.0;
        for one in self.page_ns.iter_mut().filter(is_slow) {
            *one = (*one * FORGET).max(PAGE_NS / 2.0);
        }
    }

    /// Clears the accessed bits of one part of a process, if that is expected to take at most
    /// `at_most`. `pages` is the number of present entries in that part. Bits of hugetlb pages stay
    /// as they are.
    ///
    /// # Errors
    /// The process is gone; it may not be written to (for another user's process CAP_DAC_OVERRIDE
    /// is needed); its memory is locked ([`access::is_locked`]).
    pub fn clear(
        &mut self,
        pid: u32,
        part: Part,
        pages: u64,
        at_most: Duration,
    ) -> io::Result<Cleared> {
        let expected = self.expected(pages);
        if expected > at_most {
            self.forget();
            return Ok(Cleared::TooLong(expected));
        }
        let real_time = expected.saturating_mul(2).max(REAL_TIME_MIN);
        let took = access::write((pid, "clear_refs"), part.mode(), real_time)?;
        self.learn(pages, took);
        Ok(Cleared::Done(took))
    }
}

/// Converts nanoseconds to a whole number, rounded down.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate, not negative"
)]
fn whole(ns: f64) -> u64 {
    ns as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clearing_expected_to_take_too_long_is_not_tried() {
        let mut pace = Pace::default();
        let eight_gib = 2 << 20;
        let answer = pace.clear(4_194_305, Part::Anon, eight_gib, Duration::from_millis(5));
        assert!(matches!(answer, Ok(Cleared::TooLong(time)) if time > Duration::from_millis(50)));
    }

    #[test]
    fn a_single_long_clearing_does_not_raise_the_estimate() {
        let mut pace = Pace::default();
        pace.learn(10_000, Duration::from_millis(10));
        assert!(pace.expected(10_000) < Duration::from_millis(1));
    }

    /// Regression: the time for each of a hundred library pages became the estimate for gigabytes
    /// of the same part.
    #[test]
    fn clearings_of_few_pages_do_not_lower_the_estimate_for_many() {
        let mut pace = Pace::default();
        for _ in 0..2 * MEASUREMENTS {
            pace.forget();
            pace.learn(300, Duration::from_micros(20));
        }
        assert!(pace.expected(400_000) > Duration::from_millis(10));
    }

    #[test]
    fn two_long_clearings_raise_the_estimate_for_a_while() {
        let (long, short) = (Duration::from_millis(10), Duration::from_micros(300));
        let mut pace = Pace::default();
        for took in [long, short, short, long] {
            pace.learn(10_000, took);
        }
        assert!(pace.expected(10_000) >= long);
        for _ in 0..MEASUREMENTS {
            pace.learn(10_000, short);
        }
        assert!(pace.expected(10_000) < Duration::from_millis(1));
    }

    #[test]
    fn a_refused_clearing_is_tried_again_later() {
        let mut pace = Pace::default();
        for _ in 0..MEASUREMENTS {
            pace.learn(1000, Duration::from_millis(100));
        }
        for _ in 0..200 {
            let answer = pace.clear(4_194_305, Part::Anon, 20_000, Duration::from_millis(5));
            if !matches!(answer, Ok(Cleared::TooLong(_))) {
                return;
            }
        }
        panic!("bad measurements rule for ever");
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        let answer = Pace::default().clear(4_194_305, Part::File, 10, Duration::from_secs(1));
        assert_eq!(answer.expect_err("gone").kind(), io::ErrorKind::NotFound);
    }
}
