//! The time that all scans have taken so far.
//!
//! Invariant: every value only grows.

use std::time::Duration;

/// Time that all scans have taken so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Costs {
    /// Time spent reading page tables, summed over all threads.
    pub reading: Duration,
    /// Time spent clearing accessed bits, summed over all threads.
    pub clear: Duration,
    /// Time of the longest clearing of one process's bits.
    pub clear_longest: Duration,
    /// Processor time of the helper threads; the calling thread's is not included.
    pub by_others: Duration,
}

impl Costs {
    /// Adds the costs of another thread.
    pub(super) fn add(&mut self, other: Costs) {
        self.reading += other.reading;
        self.clear += other.clear;
        self.clear_longest = self.clear_longest.max(other.clear_longest);
        self.by_others += other.by_others;
    }
}
