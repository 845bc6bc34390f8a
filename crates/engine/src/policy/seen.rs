//! The input of a policy, and the order that it returns.
//!
//! Invariant: a policy uses no other input: no clock, no process, no machine. So the same policy
//! runs on a host and in a simulation, and its input can be replayed.

use super::AgeHistogram;
use super::why::Why;
use crate::units::{Millis, Pages};

/// What one scan found in one tenant, and what happened since the previous scan.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Current time.
    pub now: Millis,
    /// Pages in memory, by the time since a scan last found each used; without pages of unknown
    /// age.
    pub ages: &'a AgeHistogram,
    /// Unmapped page cache, by an estimate of how long each page has been in memory; empty if no
    /// policy needs it ([`super::PolicySettings::cache_older_than`]).
    pub cache: &'a AgeHistogram,
    /// Swapped-out pages, by the time since a scan last found each used; empty if the policy does
    /// not need them ([`super::Policy::needs_swapped_out_ages`]).
    pub out: &'a AgeHistogram,
    /// Pages used again since the policy's last input, by how long each had been idle at the
    /// previous scan. If each scan had paged out all pages idle for that time, these pages would
    /// have refaulted.
    pub back: &'a AgeHistogram,
    /// Number of pages of `back` that had really been paged out: actual refaults.
    pub refaults: Pages,
    /// Total time for which tasks have waited for memory, in microseconds, counted from any fixed
    /// start; `None` if unknown.
    pub stalled_us: Option<u64>,
    /// Number of pages that the tenant uses, including pages of unknown age and memory that belongs
    /// to no program, but without unmapped page cache, which the kernel drops by itself.
    pub usage: Pages,
    /// Whether this is a dry run, in which orders are not carried out.
    pub is_dry: bool,
}

impl Seen<'_> {
    /// Returns the highest age that at least `wanted` pages in memory have reached; zero if fewer
    /// pages are in memory. `None` if `wanted` is zero, or if no page has a known age.
    pub(super) fn oldest(&self, wanted: Pages) -> Option<Millis> {
        let any = wanted > Pages(0) && self.ages.total() > Pages(0);
        any.then(|| self.ages.age_of_oldest(wanted))
    }
}

/// An order to page out pages, the coldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Minimum idle time of the pages to page out.
    pub older_than: Millis,
    /// Maximum number of pages to page out.
    pub most: Pages,
    /// Number of pages of unmapped page cache to drop; the kernel chooses the pages.
    pub cache: Pages,
    /// The reason, with the numbers that decided.
    pub why: Why,
}
