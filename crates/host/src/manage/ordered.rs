//! What a policy of one target has ordered, in slices.
//!
//! Invariant: between two slices whoever asks is answered, a look that is due is made and limits are held; the policy is shown nothing before
//! its order is done. (The story: 100 GiB of a database were cold, and while they left nobody was answered, for minutes.)

use std::time::Duration;

use engine::machine::Ongoing;
use engine::policy::Order;
use engine::{Millis, Pages};

use super::Manager;
use super::driver::How;
use super::pause::{Bell, Pause};
use super::tally::Tally;
use crate::system::own_cpu;

/// A slice gives way after so long.
const ORDER_SLICE: Duration = Duration::from_millis(50);

/// An order under way.
pub(super) struct Ordered {
    order: Order,
    how: How,
    step: Ongoing,
    tally: Tally,
    /// What it took of a processor.
    took: Duration,
}

impl Ordered {
    /// One of which nothing has left yet; to decide it took so long.
    pub(super) fn new(order: Order, how: How, step: Ongoing, took: Duration) -> Ordered {
        Ordered {
            order,
            how,
            step,
            tally: Tally::default(),
            took,
        }
    }

    /// What it came to until now.
    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }
}

impl Manager {
    /// A slice of what was ordered.
    pub(super) fn go_on(&mut self) {
        let now = self.now();
        let Some(one) = &mut self.ordered else {
            return;
        };
        let worked = own_cpu();
        let pause = Pause::after(&Bell::default(), ORDER_SLICE);
        let Ordered {
            how, step, tally, ..
        } = one;
        let is_over = self
            .driver
            .page_out_until((*how, &pause), tally, |machine, kernel| {
                machine.resume(step, now, kernel)
            });
        one.took += own_cpu().saturating_sub(worked);
        if is_over {
            self.end_ordered();
        }
    }

    /// Counts and says what an order came to.
    pub(super) fn end_ordered(&mut self) {
        let now = Millis(self.driver.watch.elapsed_ms());
        let (Some(mut one), Some(minder)) = (self.ordered.take(), &mut self.minder) else {
            return;
        };
        minder.note(now, &one.order, (&mut one.tally, Pages(0)), one.took);
        self.add(&one.tally);
        self.say(&one.tally, &one.order.why.to_string());
    }
}
