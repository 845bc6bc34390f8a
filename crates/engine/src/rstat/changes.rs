//! The pending changes of one group: what each worker has added to the group's statistics since its
//! last flush.
//!
//! Invariant: every line of a worker's part that is not zero has its bit set in the worker's mask,
//! so that a flush reads only marked lines. All parts are in one allocation, made at the first
//! update.

use alloc::boxed::Box;

/// Number of statistics in a line: as many as fit into a cache line of the processor.
const LINE: usize = 8;
/// Index of the last bit of a mask, which stands for its own line and all later lines.
const LAST: usize = 63;

#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    /// Number of lines of each worker.
    lines: usize,
    /// A mask for each worker: bit `n` says that line `n` may have changed.
    dirty: Box<[u64]>,
    /// The changes: all lines of the first worker, then those of the next, and so on.
    sums: Box<[[i64; LINE]]>,
}

impl Changes {
    fn new(nr_stats: usize, workers: usize) -> Self {
        let lines = nr_stats.div_ceil(LINE);
        Self {
            lines,
            dirty: alloc::vec![0; workers].into_boxed_slice(),
            sums: alloc::vec![[0; LINE]; lines * workers].into_boxed_slice(),
        }
    }

    /// Adds `delta` to statistic `stat` of `worker`. `shape` is the number of statistics and the
    /// number of workers.
    #[inline]
    pub(super) fn add(&mut self, shape: (usize, usize), worker: usize, stat: usize, delta: i64) {
        if self.dirty.is_empty() {
            *self = Self::new(shape.0, shape.1);
        }
        let line = stat / LINE;
        self.sums[worker * self.lines + line][stat % LINE] += delta;
        self.dirty[worker] |= 1 << line.min(LAST);
    }

    /// Adds the changes of `worker` to `sums`, and sets them to zero. Returns the number of
    /// counters read.
    #[inline]
    pub(super) fn take(&mut self, worker: usize, sums: &mut [i64]) -> u64 {
        let Some(dirty) = self.dirty.get_mut(worker) else {
            return 0;
        };
        let mut counters_read = 0;
        let mut dirty = core::mem::take(dirty);
        let from = worker * self.lines;
        let part = &mut self.sums[from..from + self.lines];
        while dirty != 0 {
            let first = dirty.trailing_zeros() as usize;
            dirty &= dirty - 1;
            let end = if first == LAST { part.len() } else { first + 1 };
            for line in first..end {
                counters_read += LINE as u64;
                let change = core::mem::take(&mut part[line]);
                for (sum, change) in sums[line * LINE..].iter_mut().zip(change) {
                    *sum += change;
                }
            }
        }
        counters_read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_taken_once_and_by_worker() {
        for nr_stats in [1, 7, 8, 9, 80, 503, 505, 700] {
            let (mut changes, last) = (Changes::default(), nr_stats - 1);
            let shape = (nr_stats, 3);
            changes.take(1, &mut []);
            changes.add(shape, 1, 0, 3);
            changes.add(shape, 1, last, -5);
            changes.add(shape, 2, last, 100);
            let mut sums = alloc::vec![10; nr_stats];
            // The lines of the first and of the last statistic, which may be the same line.
            let lines = if last < LINE { 1u64 } else { 2 };
            let most = (nr_stats.div_ceil(LINE) * LINE) as u64;
            let counters_read = changes.take(1, &mut sums);
            assert!((lines * LINE as u64..=most).contains(&counters_read));
            assert!(last / LINE >= LAST || counters_read == lines * LINE as u64);
            assert_eq!(changes.take(1, &mut sums), 0);
            let mut expect = alloc::vec![10; nr_stats];
            expect[0] += 3;
            expect[last] -= 5;
            assert_eq!(sums, expect);
            changes.take(2, &mut sums);
            expect[last] += 100;
            assert_eq!(sums, expect);
        }
    }
}
