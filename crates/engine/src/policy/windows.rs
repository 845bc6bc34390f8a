//! The past windows of a policy: the best value (a threshold or a size) of each, and the choice
//! among these.
//!
//! Invariant: no window older than `history` is kept.

use crate::units::Millis;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The past windows of a policy.
#[derive(Clone, Debug)]
pub(super) struct Windows {
    history: Millis,
    /// When each window ended, and its best value; the oldest first.
    best: VecDeque<(Millis, u64)>,
}

impl Windows {
    pub(super) const fn new(history: Millis) -> Self {
        Self {
            history,
            best: VecDeque::new(),
        }
    }

    /// Adds a window that ended at `now`, with its best value.
    pub(super) fn push(&mut self, now: Millis, best: u64) {
        let is_old = |&(then, _): &(Millis, u64)| now.since(then) >= self.history;
        while self.best.front().is_some_and(is_old) {
            self.best.pop_front();
        }
        self.best.push_back((now, best));
    }

    /// Returns the value that the share `percentile` (in millionths) of the windows do not exceed,
    /// but at least that of the last window; `None` before the first window has ended.
    pub(super) fn choose(&self, percentile: u64) -> Option<u64> {
        let (_, last) = *self.best.back()?;
        let mut all: Vec<u64> = self.best.iter().map(|(_, best)| *best).collect();
        let rank = (all.len() as u64)
            .saturating_mul(percentile)
            .div_ceil(1_000_000);
        let at = usize::try_from(rank.saturating_sub(1)).unwrap_or(usize::MAX);
        let at = at.min(all.len() - 1);
        let (_, chosen, _) = all.select_nth_unstable(at);
        Some(last.max(*chosen))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_percentile_of_the_past_or_the_last() {
        let mut windows = Windows::new(Millis(1000));
        assert_eq!(windows.choose(500_000), None);
        for (now, best) in [(0, 50), (100, 10), (200, 40), (300, 20), (400, 30)] {
            windows.push(Millis(now), best);
        }
        let chosen = [1, 200_000, 400_000, 600_000, 800_000, 980_000, 1_000_000];
        let chosen = chosen.map(|percentile| windows.choose(percentile));
        // Never below the number of the last window, 30.
        assert_eq!(chosen, [30, 30, 30, 30, 40, 50, 50].map(Some));
        // Windows that are too old do not count.
        windows.push(Millis(1000), 5);
        assert_eq!(windows.choose(1_000_000), Some(40));
        windows.push(Millis(9000), 7);
        assert_eq!(windows.choose(1_000_000), Some(7));
    }
}
