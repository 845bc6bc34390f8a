//! A run: consecutive observations that moved pages from one page count to the same other one. The
//! page counts are changed once for the whole run.
//!
//! Invariant: the page counts plus the run agree with the records. Code that reads page counts, or
//! subtracts from them, adds the run to them first ([`AgeTable::flush_run`]); so does the end of a
//! scan.

use super::age_record::{AgeRecord, Size};
use super::by_part::Part;
use super::reaccesses::Found;
use super::{AgeTable, place_of};

/// Consecutive observations that changed records in the same way.
#[derive(Debug)]
pub(super) struct Run {
    /// Owner and record before the change (`from`) and after it (`to`).
    from: (u16, AgeRecord),
    to: (u16, AgeRecord),
    /// Whether each page was found accessed again after a known idle time.
    again: bool,
    /// Number of records that changed in this way.
    records: u64,
}

impl Default for Run {
    fn default() -> Run {
        let no_owner = (0, AgeRecord::fresh(0, Size::One));
        Run {
            from: no_owner,
            to: no_owner,
            again: false,
            records: 0,
        }
    }
}

/// Returns whether both records belong to the same page count.
#[inline]
const fn is_same_count(one: (u16, AgeRecord), other: (u16, AgeRecord)) -> bool {
    one.0 == other.0 && one.1.counts_like(other.1)
}

impl AgeTable {
    /// Counts a change of one record: it moves from its old page count to its new one.
    #[inline]
    pub(super) fn recount(&mut self, from: (u16, AgeRecord), to: (u16, AgeRecord), again: bool) {
        debug_assert!(from.1.size() == to.1.size(), "no frame comes or goes here");
        let run = &mut self.run;
        if !(is_same_count(run.from, from) && is_same_count(run.to, to) && run.again == again) {
            self.flush_run();
            self.run = Run {
                from,
                to,
                again,
                records: 0,
            };
        }
        self.run.records += 1;
        debug_assert!(!is_same_count(from, to), "something has changed");
    }

    /// Adds the run to the page counts.
    pub(super) fn flush_run(&mut self) {
        let Run {
            from,
            to,
            again,
            records,
        } = self.run;
        if records == 0 {
            return;
        }
        self.run.records = 0;
        let pages = records * from.1.size().pages();
        let place = place_of(&self.time, from.1);
        self.page_counts
            .at((from.0, from.1.class()))
            .subtract(place, pages);
        let place = place_of(&self.time, to.1);
        self.page_counts.at((to.0, to.1.class())).add(place, pages);
        if again {
            let found = Found::new(pages, from.1.is_presumed(), to.1.is_presumed());
            self.count_again((to.0, to.1.class()), from.1.last(), found);
        }
    }

    /// Counts pages of a part as accessed again; the access before was in scan `scan`.
    pub(super) fn count_again(&mut self, part: Part, scan: u32, found: Found) {
        debug_assert!(scan < self.time.now(), "an age is at least a scan");
        self.again.add(part, self.time.cohort(scan), found);
    }
}
