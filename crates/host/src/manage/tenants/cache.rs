//! Page cache of a tenant that nobody maps: how long it has been there.
//!
//! Invariant: sizes are the kernel's, ages are estimates, as no table tells when such a page was read. What came is as young as the
//! look that found more than before, and what went is taken for the oldest.

use std::collections::VecDeque;

use crate::system::cgroup::Cache;

/// Steps of growth that are told apart; more are merged, as the younger of two.
const STEPS: usize = 64;
/// A change below this, bytes, may be the kernel's way of summing its counters.
const NOISE: u64 = 256 << 10;

/// Such cache on one node.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeCache {
    /// Of files: the kernel can drop it.
    pub(super) files: CacheAges,
    /// Files in tmpfs: to drop them is to page them out. (The story: what a database had mapped of its shared memory was missing in its ages once
    /// more, as page cache.)
    tmpfs: CacheAges,
}

impl NodeCache {
    /// There is so much now.
    pub(super) fn note(&mut self, now: u64, cache: &Cache) {
        let files = cache.unmapped_file_least();
        self.files.note(now, files);
        self.tmpfs.note(now, cache.unmapped().saturating_sub(files));
    }

    /// When it was found, and bytes.
    pub(super) fn all(&self) -> impl Iterator<Item = (u64, u64)> {
        self.files.all().chain(self.tmpfs.all())
    }
}

/// How much came when.
#[derive(Clone, Debug, Default)]
pub(super) struct CacheAges {
    /// When it was found (milliseconds of the books), and bytes that are left of it; the oldest first.
    steps: VecDeque<(u64, u64)>,
}

impl CacheAges {
    /// There are so many bytes now.
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

    /// When it was found, and bytes; the oldest first.
    pub(super) fn all(&self) -> impl Iterator<Item = (u64, u64)> {
        self.steps.iter().copied()
    }

    /// Two neighbours become one: those that lie closest, for their age.
    fn merge(&mut self, now: u64) {
        let apart = |at: &usize| {
            let (older, younger) = (self.steps[*at].0, self.steps[at + 1].0);
            (younger - older) * 1000 / (now - older + 1)
        };
        if let Some(at) = (0..self.steps.len() - 1).min_by_key(apart)
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
    fn what_goes_is_the_oldest() {
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
        fn sums_are_the_kernels_and_ages_fall(sizes in prop::collection::vec(0u64..100, 0..300)) {
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
