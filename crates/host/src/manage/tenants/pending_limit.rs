//! Progress towards a pending limit: whether reclaimed memory refaults, and so by how much the
//! group may grow meanwhile.
//!
//! Invariant: the headroom of the group becomes smaller each time that reclaimed memory refaults,
//! and larger when usage is lower than ever before.

use engine::Pages;

/// Number of pages to reclaim below the limit: fewer than this refault before the limit is written.
pub(super) const SPARE: Pages = Pages(256);
/// Headroom of a group while its limit is pending, in bytes: while reclaimed memory stays swapped
/// out (as in `hard_limit::PendingLimits`), then after reclaimed memory refaulted once.
const ROOMS: [u64; 2] = [32 << 20, 8 << 20];

/// A request that the kernel reclaim from a tenant, and its result.
#[derive(Clone, Copy, Debug)]
pub(super) struct KernelReclaimRequest {
    /// Number of scans when the request was made.
    pub(super) scan: u64,
    /// Usage before the request; then the number of pages reclaimed.
    pub(super) used: Pages,
    pub(super) got: Pages,
}

/// Whether memory that is reclaimed for a pending limit stays swapped out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PendingLimitProgress {
    /// The lowest usage since the limit became pending.
    least: Option<Pages>,
    /// Grows by 1 at each reclaim after which usage was not lower than before, and falls by 1 at
    /// each one after which it was.
    back: usize,
}

impl PendingLimitProgress {
    /// Records the usage after a reclaim.
    pub(super) fn note(&mut self, used: Pages) {
        match self.least.is_some_and(|least| used.0 + SPARE.0 > least.0) {
            true => self.back = (self.back + 1).min(ROOMS.len()),
            false => (self.least, self.back) = (Some(used), self.back.saturating_sub(1)),
        }
    }

    /// Returns the headroom of the group in bytes; `None` if reclaimed memory refaults again and
    /// again, so that the group may not grow at all.
    pub(super) fn room(&self) -> Option<u64> {
        ROOMS.get(self.back).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headroom_shrinks_when_reclaimed_memory_comes_back() {
        let mut closing = PendingLimitProgress::default();
        let mib = |mib: u64| Pages(mib * 256);
        let rooms = [40, 40, 40, 40, 38, 38, 30, 20].map(|used| {
            closing.note(mib(used));
            closing.room().map_or(0, |room| room >> 20)
        });
        // When usage is lower than ever before, the headroom becomes larger.
        assert_eq!(rooms, [32, 8, 0, 0, 8, 0, 8, 32]);
    }
}
