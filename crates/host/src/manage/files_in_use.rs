//! Detects that the kernel drops mapped files which a program still uses.
//!
//! Invariant: files in use are dropped if, by the counters of the cgroup, within 10 s (20 s if it
//! is rarely measured) at least 64 major faults read mapped files, at least 64 evicted pages of
//! files were read again, and few pages were swapped in beside them. The swappiness says how few:
//! with 100 as many as there were major faults of files, with 60 three for seven. With 0, files
//! always make room for anonymous memory.
//!
//! Why: much unmapped page cache is left to the kernel, which drops it at the hard limit. But each
//! page fault of a mapped file reads the pages around it ahead, so that a file which is dropped
//! again and again has much unmapped cache, too. With the cache left to the kernel, a program of
//! 64 MiB of idle memory and a mapped file of 64 MiB had 55 major faults a second for ever at a
//! limit of 80 MiB; under the kernel alone the idle memory was swapped out, and there were none.
//! Reads through descriptors cause no major faults, and files that are read once do not refault.

use engine::{Millis, Swappiness};

use crate::hard_limit::Refaults;

/// Minimum time between two readings of the counters.
const APART: Millis = Millis(1000);
/// Time in which [`ENOUGH`] major faults must come.
const WITHIN: Millis = Millis(10_000);
/// Minimum number of major faults of files. The kernel's refault controller does not trust fewer
/// samples either (lru-gen.md).
const ENOUGH: u64 = 64;

/// Counts a cgroup's major faults of mapped files, and judges them at the latest after [`WITHIN`].
#[derive(Debug, Default)]
pub(super) struct FilesInUse {
    /// Start of the present count, and the counters at that time; `None` before the first reading.
    begin: Option<(Millis, Refaults)>,
    /// When the counters were last read, or could not be read.
    read_at: Option<Millis>,
    /// Whether files in use were dropped, by the last count.
    dropped: bool,
}

impl FilesInUse {
    /// Returns whether the kernel drops files in use, so that anonymous memory must be reclaimed
    /// rather than page cache. `counters` reads the cgroup's counters. This function calls it at
    /// most once a second.
    pub(super) fn are_dropped(
        &mut self,
        now: Millis,
        swappiness: Swappiness,
        counters: impl FnOnce() -> Option<Refaults>,
    ) -> bool {
        if self.read_at.is_none_or(|at| now.since(at) >= APART) {
            self.read_at = Some(now);
            match counters() {
                Some(counters) => self.measure(now, counters, swappiness),
                // A kernel without these counters is left to drop files first.
                None => self.dropped = false,
            }
        }
        self.dropped
    }

    /// Adds a reading of the counters.
    fn measure(&mut self, now: Millis, counters: Refaults, swappiness: Swappiness) {
        let Some((begin, before)) = self.begin else {
            self.begin = Some((now, counters));
            return;
        };
        let since = counters.since(before);
        let of_files = since.major_faults.saturating_sub(since.anon);
        let elapsed = now.since(begin);
        // A cgroup that was below its limit for some time was not measured then.
        let is_stale = elapsed > WITHIN.after(WITHIN);
        if of_files >= ENOUGH || elapsed >= WITHIN {
            let are_many = of_files >= ENOUGH && since.file >= ENOUGH;
            let costs_more = costs_more_than_swap_ins(of_files, since.anon, swappiness);
            self.dropped = are_many && costs_more && !is_stale;
            self.begin = Some((now, counters));
        }
    }
}

/// Whether dropping files costs more than swapping out: `of_files` faults of files were seen for
/// `anon` pages swapped in. Each type's cost has the weight that the refault controller gives it
/// (lru-gen.md): the swappiness for anonymous memory, the rest of 200 for files.
fn costs_more_than_swap_ins(of_files: u64, anon: u64, swappiness: Swappiness) -> bool {
    let for_anon = u64::from(swappiness.get().min(Swappiness::MAX));
    let for_files = u64::from(Swappiness::MAX) - for_anon;
    for_anon > 0 && of_files.saturating_mul(for_anon) >= anon.saturating_mul(for_files)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measures at each time in ms these numbers, since the reading before: major faults, pages
    /// swapped in, file pages read again. Returns whether files in use are dropped after each.
    fn judged(readings: &[(u64, [u64; 3])]) -> Vec<bool> {
        let (mut files, mut total) = (FilesInUse::default(), Refaults::default());
        let judge = |(ms, [major_faults, anon, file]): &(u64, [u64; 3])| {
            total.major_faults += major_faults;
            total.anon += anon;
            total.file += file;
            files.measure(Millis(*ms), total, Swappiness::default());
            files.dropped
        };
        readings.iter().map(judge).collect()
    }

    #[test]
    fn files_are_dropped_while_64_faults_in_10_s_read_them_again() {
        let first = (0, [500, 0, 500]);
        let slow = [first, (6000, [40, 0, 600]), (12_000, [40, 0, 600])];
        assert_eq!(judged(&slow), [false, false, true]);
        let fast_then_none = [
            first,
            (1000, [64, 0, 64]),
            (2000, [0, 0, 0]),
            (11_000, [63, 0, 63]),
        ];
        assert_eq!(judged(&fast_then_none), [false, true, true, false]);
    }

    #[test]
    fn other_reads_do_not_count() {
        let first = (0, [0, 0, 0]);
        for (counts, what) in [
            ([1000, 0, 63], "a mapped file is read once"),
            (
                [0, 0, 9000],
                "a file is read through a descriptor, again and again",
            ),
            ([1000, 1000, 9000], "memory is swapped in"),
            (
                [1000, 301, 9000],
                "more than three pages are swapped in for seven of files",
            ),
        ] {
            assert_eq!(judged(&[first, (10_000, counts)]), [false, false], "{what}");
        }
        // Nothing is known of the hour for which it was below its limit.
        assert_eq!(judged(&[first, (3_600_000, [99, 0, 99])]), [false, false]);
    }

    /// Usage is measured up to 500 times a second, and each reading makes the kernel sum counters.
    #[test]
    fn counters_are_read_once_a_second() {
        let (mut files, mut readings) = (FilesInUse::default(), 0);
        let mut at = |ms, counters: Option<Refaults>| {
            files.are_dropped(Millis(ms), Swappiness::default(), || {
                readings += 1;
                counters
            })
        };
        let counters = |count| Refaults {
            major_faults: count,
            file: count,
            ..Refaults::default()
        };
        assert!(!at(10, Some(counters(0))) && !at(1009, Some(counters(900))));
        assert!(at(1010, Some(counters(900))), "it is dropped");
        assert!(at(1999, None), "that is not read");
        assert!(!at(2010, None), "a kernel that has no counters any more");
        assert_eq!(readings, 3);
    }

    #[test]
    fn swappiness_weighs_what_is_swapped_in() {
        let most_anon = |swappiness| {
            let swappiness = Swappiness::new(swappiness).expect("at most 201");
            (0..10_000).rfind(|anon| costs_more_than_swap_ins(100, *anon, swappiness))
        };
        let most = [0, 1, 60, 100, 199, 200].map(most_anon);
        let wanted = [None, Some(0), Some(42), Some(100), Some(9999), Some(9999)];
        assert_eq!(most, wanted);
    }
}
