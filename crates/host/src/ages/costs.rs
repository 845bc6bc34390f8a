//! What rounds cost until now.
//!
//! Invariant: all of it only grows.

use std::time::Duration;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Costs {
    /// Reading tables, by the clocks of all threads.
    pub reading: Duration,
    /// Clearing bits, by the clocks of all threads.
    pub clear: Duration,
    /// The longest clearing.
    pub clear_longest: Duration,
    /// Processor time of the threads that were not the caller's.
    pub by_others: Duration,
}

impl Costs {
    pub(super) fn add(&mut self, other: Costs) {
        self.reading += other.reading;
        self.clear += other.clear;
        self.clear_longest = self.clear_longest.max(other.clear_longest);
        self.by_others += other.by_others;
    }
}
