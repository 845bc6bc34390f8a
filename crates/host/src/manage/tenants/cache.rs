//! Unmapped page cache of a tenant: its size, and an estimate of how long it has been in memory.
//!
//! Invariant: sizes are the kernel's. Ages are estimates, as the kernel does not report when such a
//! page was read: if a scan finds that the size has grown, the added bytes are as old as that scan.
//! If the size has shrunk, the oldest bytes are assumed to be gone.

use std::collections::VecDeque;

use crate::system::cgroup::Cache;

/// Maximum number of growths that are stored separately. If two are merged, the time of the later
/// one is kept.
const STEPS: usize = 64;
/// A change of size below this, in bytes, is ignored: the kernel's counters are not exact.
const NOISE: u64 = 256 << 10;

/// Unmapped page cache on one NUMA node.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeCache {
    /// Cache of files on disks, which the kernel can drop.
    pub(super) files: CacheAges,
    /// Cache of files in tmpfs, which can only be paged out. Mapped tmpfs pages are not included,
    /// as they are among the ages of processes.
    tmpfs: CacheAges,
}

impl NodeCache {
    /// Records the sizes of the cache at `now`, in milliseconds of the age table.
    pub(super) fn note(&mut self, now: u64, cache: &Cache) {
        let files = cache.unmapped_file_least();
        self.files.note(now, files);
        self.tmpfs.note(now, cache.unmapped().saturating_sub(files));
    }

    /// Returns the growths of files on disks, then those of tmpfs, each the oldest first. For each
    /// growth: the time at which a scan found it (milliseconds of the age table), then how many of
    /// its bytes are still there.
    pub(super) fn all(&self) -> impl Iterator<Item = (u64, u64)> {
        self.files.all().chain(self.tmpfs.all())
    }
}

/// Bytes of cache by the time at which a scan found them.
#[derive(Clone, Debug, Default)]
pub(super) struct CacheAges {
    /// Growths of the cache, the oldest first. For each growth: the time at which a scan found it
    /// (milliseconds of the age table), then how many of its bytes are still there.
    steps: VecDeque<(u64, u64)>,
}

impl CacheAges {
    /// Records the size of the cache, `bytes`, at `now`.
    pub(super) fn note(&mut self, now: u64, bytes: u64) {
        let before: u64 = self.all().map(|(_, bytes)| bytes).sum();
        if bytes.abs_diff(before) < NOISE && bytes > 0 {
            return;
        }
        if let Some(more) = bytes.checked_sub(before).filter(|more| *more > 0) {
            self.steps.push_back((now, more));
            if self.steps.len() > STEPS {
                self.merge(now);
            }
        }
        let mut gone = before.saturating_sub(bytes);
        while let Some((_, oldest)) = self.steps.front_mut().filter(|_| gone > 0) {
            let part = gone.min(*oldest);
            *oldest -= part;
            gone -= part;
            if *oldest == 0 {
                self.steps.pop_front();
            }
        }
    }

    /// Returns the growths of the cache, the oldest first. For each growth: the time at which a
    /// scan found it (milliseconds of the age table), then how many of its bytes are still there.
    pub(super) fn all(&self) -> impl Iterator<Item = (u64, u64)> {
        self.steps.iter().copied()
    }

    /// Merges those two successive growths with the smallest `time between them / age`.
    fn merge(&mut self, now: u64) {
        let gap = |at: &usize| {
            let (older, younger) = (self.steps[*at].0, self.steps[at + 1].0);
            (younger - older) * 1000 / (now - older + 1)
        };
        if let Some(at) = (0..self.steps.len() - 1).min_by_key(gap)
            && let Some((_, bytes)) = self.steps.remove(at)
        {
            self.steps[at].1 += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_shrinking_cache_loses_its_oldest_part() {
        let mut ages = CacheAges::default();
        for (now, mib) in [(10, 30), (20, 50), (30, 50), (40, 35)] {
            ages.note(now, mib * MIB);
        }
        let all: Vec<(u64, u64)> = ages.all().collect();
        assert_eq!(all, [(10, 15 * MIB), (20, 20 * MIB)]);
        ages.note(50, 35 * MIB + 4096);
        assert_eq!(ages.all().count(), 2, "that is noise");
        ages.note(60, 0);
        assert_eq!(ages.all().count(), 0);
    }

    proptest! {
        #[test]
        fn sums_match_the_kernel(sizes in prop::collection::vec(0u64..100, 0..300)) {
            let mut ages = CacheAges::default();
            for (now, mib) in (0..).zip(&sizes) {
                ages.note(now * 1000, mib * MIB);
                let sum: u64 = ages.all().map(|(_, bytes)| bytes).sum();
                prop_assert_eq!(sum, mib * MIB);
                let times: Vec<u64> = ages.all().map(|(then, _)| then).collect();
                prop_assert!(times.is_sorted() && times.len() <= STEPS);
            }
        }
    }
}
