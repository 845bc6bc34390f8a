//! Carries out a policy's order to page out, for one target, in time slices.
//!
//! Invariant: between two slices, requests are served, a pending scan is made and limits are
//! enforced. The policy does not run again before its order is done. Without slices, an order for
//! 100 GiB of cold memory would keep requests waiting for minutes.

use std::time::Duration;

use engine::Pages;
use engine::machine::Ongoing;
use engine::policy::Order;

use super::Manager;
use super::driver::PageOutOptions;
use super::reclaim_totals::ReclaimTotals;
use super::wakeup::{Pause, Wakeup};
use crate::system::own_cpu;

/// Maximum time of one slice.
const ORDER_SLICE: Duration = Duration::from_millis(50);

/// A policy's order in progress, with its results so far.
pub(super) struct RunningOrder {
    order: Order,
    /// How the pages are paged out.
    how: PageOutOptions,
    /// The engine's state of the reclaim.
    step: Ongoing,
    totals: ReclaimTotals,
    /// Processor time of deciding the order and of the slices so far.
    took: Duration,
}

impl RunningOrder {
    /// Returns an order that has not begun. `step` is the state that the engine keeps of the
    /// reclaim; `took` is the processor time of deciding the order.
    pub(super) fn new(
        order: Order,
        how: PageOutOptions,
        step: Ongoing,
        took: Duration,
    ) -> RunningOrder {
        RunningOrder {
            order,
            how,
            step,
            totals: ReclaimTotals::default(),
            took,
        }
    }

    /// Returns the results of the order so far.
    pub(super) fn totals(&self) -> &ReclaimTotals {
        &self.totals
    }
}

impl Manager {
    /// Carries out one slice of the order in progress, and ends the order if it is done.
    pub(super) fn go_on(&mut self) {
        let now = self.driver.now().millis();
        let Some(one) = &mut self.ordered else {
            return;
        };
        let worked = own_cpu();
        let pause = Pause::after(&Wakeup::default(), ORDER_SLICE);
        let RunningOrder {
            how, step, totals, ..
        } = one;
        let is_over = self
            .driver
            .page_out_until((*how, &pause), totals, |machine, kernel| {
                machine.resume(step, now, kernel)
            });
        one.took += own_cpu().saturating_sub(worked);
        if is_over {
            self.end_ordered();
        }
    }

    /// Ends the order in progress, and counts and reports what it did.
    pub(super) fn end_ordered(&mut self) {
        let now = self.driver.now();
        let (Some(mut one), Some(policy_runner)) = (self.ordered.take(), &mut self.policy_runner)
        else {
            return;
        };
        policy_runner.note(now, &one.order, (&mut one.totals, Pages(0)), one.took);
        self.add(&one.totals);
        self.say(&one.totals, &one.order.why.to_string());
    }
}
