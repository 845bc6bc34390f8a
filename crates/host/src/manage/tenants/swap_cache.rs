//! Decides whether the kernel is asked to free clean swap cache of a tenant: pages with a written
//! copy on a disk, which stay charged until their memory is needed.
//!
//! Invariant: it is asked only if the swap cache is enough for the limit, and at most [`MOST`]
//! times in a row while it frees none: the pages are still being written. Then the engine reclaims.

use engine::Pages;
use engine::vmscan::Headroom;

/// Maximum number of requests in a row while the kernel frees hardly any.
const MOST: u8 = 20;

/// Requests in a row for which the kernel freed hardly any.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SwapCacheRequests {
    in_vain: u8,
}

impl SwapCacheRequests {
    /// Whether the kernel is asked (again), if `wanted` pages must leave and `written` are clean
    /// swap cache. If not, the requests begin anew.
    pub(super) fn may_go_on(&mut self, written: Pages, wanted: Pages) -> bool {
        let may = written >= wanted && self.in_vain < MOST;
        if !may {
            self.in_vain = 0;
        }
        may
    }

    /// Records that a request for `most` pages freed `got`.
    pub(super) fn note(&mut self, got: Pages, most: Pages) {
        self.in_vain = match Headroom::is_worth_it(got, most) {
            true => 0,
            false => self.in_vain + 1,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: pages swapped out to a disk stay charged until their memory is needed, so all of
    /// a tenant was swapped out although it exceeded its limit by a part only.
    #[test]
    fn written_pages_are_freed_before_others_are_paged_out() {
        let mut requests = SwapCacheRequests::default();
        assert!(requests.may_go_on(Pages(100), Pages(100)));
        assert!(!requests.may_go_on(Pages(99), Pages(100)), "not enough");
    }

    #[test]
    fn pages_that_are_never_written_do_not_hold_up_reclaim() {
        let mut requests = SwapCacheRequests::default();
        let mut ask = |got| {
            let may = requests.may_go_on(Pages(100), Pages(100));
            if may {
                requests.note(Pages(got), Pages(100));
            }
            may
        };
        assert_eq!((0..20).filter(|_| ask(0)).count(), 20);
        assert!(!ask(0), "the engine reclaims once");
        // A request that frees some starts the count anew.
        assert_eq!((0..19).filter(|_| ask(0)).count(), 19);
        assert!(ask(50));
        assert_eq!((0..20).filter(|_| ask(0)).count(), 20);
        assert!(!ask(0));
    }
}
