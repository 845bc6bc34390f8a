//! Clearing accessed bits by `/proc/PID/clear_refs`.
//!
//! Invariant: no program waits for us longer than the caller allows, as far as can be foreseen. The
//! kernel holds the address space's lock for writing while it clears, in one piece; so how long that
//! will take is estimated from how long it took before, but for the worst of late, and where it is too long nothing is done.
//! (`MADV_COLD`, which works in slices, deactivates exactly what is young: reading must not do that.)

use std::io;
use std::time::Duration;

use crate::access;

/// What is foreseen for a page before anything was measured, in nanoseconds: what a busy machine showed,
/// 7 to 19 ms a GiB.
const PAGE_NS: f64 = 60.0;
/// Cost of the call itself and of a mapping without pages, nanoseconds.
const CALL_NS: f64 = 50_000.0;
/// Factor by which each measurement decays when a clearing is not tried because it would take too long, so that it is
/// tried again some time: later, the longer it was.
const FORGET: f64 = 0.9;
/// So many measurements are kept.
const MEASUREMENTS: usize = 6;
/// The worker that clears has real-time priority for twice as long as it is expected to take, and for so long at least.
const REAL_TIME_MIN: Duration = Duration::from_millis(10);
/// Clearings of fewer pages are dominated by the cost of the call: what they say of a page counts as [`PAGE_NS`] at
/// least.
const FEW: u64 = 4096;

/// Which mappings are cleared: the kernel tells them apart by whether they are of a file, memory files and
/// shared memory among them. Each part is a wait of its own, so two short ones take the place of a long.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Part {
    /// Mappings without a file.
    Anon,
    /// Mappings of files, memfd, tmpfs, System V and other shared memory.
    File,
}

impl Part {
    /// What is written to `clear_refs`.
    const fn mode(self) -> &'static [u8] {
        match self {
            Part::Anon => b"2",
            Part::File => b"3",
        }
    }
}

/// How long a page takes to clear, learned from one part of an address space.
///
/// It goes by the second longest of the last measurements. One that stands alone says nothing of the next: a processor that a host
/// takes from its guest for 10 ms is gone in the midst of a clearing that takes 1. (The story: it went by the longest, forgotten by a
/// twentieth a look, and all ages of a program were unknown for thirty looks, on an idle machine too.)
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// The last ones in nanoseconds a page, in any order.
    page_ns: [f64; MEASUREMENTS],
    /// Where the oldest of them is.
    oldest: usize,
}

/// What became of a clearing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleared {
    /// Done; the address space was held for so long.
    Done(Duration),
    /// Not tried: it would have been held for about so long.
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
    /// How long clearing that many present pages (of any size: entries) will take.
    #[must_use]
    pub fn expected(&self, pages: u64) -> Duration {
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let ns = CALL_NS + self.page_ns() * pages as f64;
        Duration::from_nanos(whole(ns))
    }

    /// The longest but one.
    fn page_ns(&self) -> f64 {
        let mut kept = self.page_ns;
        kept.sort_unstable_by(f64::total_cmp);
        kept[MEASUREMENTS - 2]
    }

    /// Learns from a measurement.
    fn learn(&mut self, pages: u64, took: Duration) {
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let seen = (took.as_nanos() as f64 - CALL_NS).max(0.0) / (pages.max(256) as f64);
        let least = if pages < FEW { PAGE_NS } else { 5.0 };
        self.page_ns[self.oldest] = seen.clamp(least, 10_000.0);
        self.oldest = (self.oldest + 1) % MEASUREMENTS;
    }

    /// A clearing was not tried. What was measured must not rule for ever.
    fn forget(&mut self) {
        let is_slow = |one: &&mut f64| **one > PAGE_NS / 2.0;
        for one in self.page_ns.iter_mut().filter(is_slow) {
            *one = (*one * FORGET).max(PAGE_NS / 2.0);
        }
    }

    /// Clears the accessed bits of a part of a process, if its `pages` present ones are expected to take no
    /// longer than `at_most`. hugetlb pages stay as they are.
    ///
    /// # Errors
    /// The process is gone, or may not be written to (CAP_DAC_OVERRIDE for another user's); its memory is locked
    /// ([`access::is_locked`]).
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
    fn what_takes_too_long_is_not_tried() {
        let mut pace = Pace::default();
        let eight_gib = 2 << 20;
        let answer = pace.clear(4_194_305, Part::Anon, eight_gib, Duration::from_millis(5));
        assert!(matches!(answer, Ok(Cleared::TooLong(time)) if time > Duration::from_millis(50)));
    }

    #[test]
    fn one_long_clearing_alone_says_nothing_of_the_next() {
        let mut pace = Pace::default();
        pace.learn(10_000, Duration::from_millis(10));
        assert!(pace.expected(10_000) < Duration::from_millis(1));
    }

    /// The story: a hundred pages of libraries, cleared in no time at each look, were what was foreseen for gigabytes beside them.
    #[test]
    fn few_pages_say_nothing_of_many() {
        let mut pace = Pace::default();
        for _ in 0..2 * MEASUREMENTS {
            pace.forget();
            pace.learn(300, Duration::from_micros(20));
        }
        assert!(pace.expected(400_000) > Duration::from_millis(10));
    }

    #[test]
    fn two_long_ones_are_remembered_for_a_while() {
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
    fn a_refused_clearing_is_tried_again_one_day() {
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
