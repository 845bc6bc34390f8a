//! The kernel's own sums over the same processes, to stand beside ours.
//!
//! Invariant: asking costs no more than a hundredth of the time: the kernel walks all tables for
//! `smaps_rollup`, so the next question waits for a hundred times what the last one took.

use std::time::{Duration, Instant};

use crate::system::{Identity, Proc};

/// How much longer than a question the pause behind it is.
const PAUSE: u32 = 100;

/// Sums of `smaps_rollup`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Sums {
    pub(super) pss: u64,
    pub(super) swap_pss: u64,
}

/// The last sums, and when the next may be asked for.
#[derive(Debug, Default)]
pub(super) struct Kernel {
    sums: Option<Sums>,
    next: Option<Instant>,
}

impl Kernel {
    /// The sums over `members`: `None` where one may not be read, or while they are too old to stand
    /// beside figures of now.
    pub(super) fn sums(&mut self, members: &[Identity], proc: &Proc) -> Option<Sums> {
        let begin = Instant::now();
        if self.next.is_some_and(|next| begin < next) {
            return None;
        }
        self.sums = sum(members, proc);
        let took = begin.elapsed().max(Duration::from_micros(100));
        self.next = Some(begin + took * PAUSE);
        self.sums
    }
}

fn sum(members: &[Identity], proc: &Proc) -> Option<Sums> {
    let mut sums = Sums::default();
    for identity in members {
        // A process that has ended has nothing.
        if let Some(rollup) = proc.smaps_rollup(identity.pid).ok()? {
            sums.pss += rollup.pss;
            sums.swap_pss += rollup.swap_pss;
        }
    }
    Some(sums)
}
