//! The input of a policy, and the order that it returns.
//!
//! Invariant: a policy knows nothing else: no clock, no process, no machine. So the same policy
//! decides on a host and in a simulation, and its input can be replayed.

use super::AgeHistogram;
use super::why::Why;
use crate::units::{Millis, Pages};

/// What one scan found of one tenant, and what happened since the scan before.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Current time.
    pub now: Millis,
    /// Pages in memory by the time since each was last seen used, without pages of unknown age.
    pub ages: &'a AgeHistogram,
    /// Unmapped page cache, by an estimate of how long each page has been in memory; empty if no
    /// policy needs it ([`super::PolicySettings::cache_older_than`]).
    pub cache: &'a AgeHistogram,
    /// Swapped-out pages, by the time since each was last seen used; empty unless
    /// [`super::Policy::needs_swapped_out_ages`].
    pub out: &'a AgeHistogram,
    /// Pages used since the policy's last input, by how long each had been idle at the scan before.
    /// If each scan had paged out all pages idle for that long, these would have refaulted.
    pub back: &'a AgeHistogram,
    /// Number of pages of `back` that had been paged out: actual refaults.
    pub refaults: Pages,
    /// How long tasks have waited for memory in all, in microseconds, from any fixed start; `None`
    /// if unknown.
    pub stalled_us: Option<u64>,
    /// All pages that the tenant uses, without unmapped page cache, which the kernel drops on its
    /// own. Pages of unknown age, and memory that belongs to no program, are included.
    pub usage: Pages,
    /// Whether this is a dry run: the orders are not carried out.
    pub is_dry: bool,
}

impl Seen<'_> {
    /// Returns the highest age that at least `wanted` pages in memory have reached; zero if there
    /// are too few. `None` if none are wanted, or if no page has a known age.
    pub(super) fn oldest(&self, wanted: Pages) -> Option<Millis> {
        let any = wanted > Pages(0) && self.ages.total() > Pages(0);
        any.then(|| self.ages.age_of_oldest(wanted))
    }
}

/// An order to page out pages, the coldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Only pages that have been idle for this long are paged out.
    pub older_than: Millis,
    /// Most pages to page out.
    pub most: Pages,
    /// Number of pages of unmapped page cache to drop; the kernel chooses which.
    pub cache: Pages,
    /// The numbers that decided.
    pub why: Why,
}
