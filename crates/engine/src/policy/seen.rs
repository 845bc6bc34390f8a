//! What a policy is shown, and what it orders.
//!
//! Invariant: a policy knows nothing else: no clock, no process, no machine. So the same policy decides on a host and in a
//! simulation, and what it was shown can be shown to it again.

use super::AgeHistogram;
use super::why::Why;
use crate::units::{Millis, Pages};

/// What one look, and what happened since the look before, say of one tenant.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The present.
    pub now: Millis,
    /// Pages in memory by the time since each was last seen used. Those of unknown age are left out.
    pub ages: &'a AgeHistogram,
    /// Page cache that nobody maps, by an estimate of how long it has been there; nothing where no policy asks ([`super::Settings::cache_older_than`]).
    pub cache: &'a AgeHistogram,
    /// Pages that are out, likewise; nothing where [`super::Policy::asks_for_out`] says so.
    pub out: &'a AgeHistogram,
    /// Pages that were used since the last time a policy was shown anything, by how long each had been idle at the look
    /// before that: what would have come back if all that had been idle for so long had left at each look.
    pub back: &'a AgeHistogram,
    /// Of these, pages that had left: what did come back.
    pub refaults: Pages,
    /// How long tasks have waited for memory since some beginning, microseconds; none where nobody knows.
    pub stalled_us: Option<u64>,
    /// All that the tenant uses, pages of unknown age and what is no page of a program counted; page cache that nobody maps
    /// left out, which the kernel drops by itself.
    pub usage: Pages,
    /// Nothing that is ordered is carried out.
    pub is_dry: bool,
}

impl Seen<'_> {
    /// How old the oldest so many pages in memory are; none if none are wanted, or none have a known age.
    pub(super) fn oldest(&self, wanted: Pages) -> Option<Millis> {
        let any = wanted > Pages(0) && self.ages.total() > Pages(0);
        any.then(|| self.ages.age_of_oldest(wanted))
    }
}

/// Pages are to leave, the coldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Those that were not used for so long.
    pub older_than: Millis,
    /// No more than so many.
    pub most: Pages,
    /// Page cache that nobody maps, so many pages of it, which the kernel is to choose.
    pub cache: Pages,
    /// Why.
    pub why: Why,
}
