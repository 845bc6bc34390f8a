//! Unevictable pages: the kernel does not page them out on request, because several processes map
//! them, or because they are locked.
//!
//! Invariant: these pages are off the engine's lists. They are tried again after [`RETRY`], when
//! other processes that map them may have ended. If they stayed on the lists, a tenant that owns
//! the pages of shared libraries would be reclaimed from again and again without result.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::memcg::MemcgId;
use engine::{FolioId, Machine};

use super::moment::Moment;

/// Time after which unevictable pages are tried again.
const RETRY: Duration = Duration::from_secs(60);

/// The unevictable pages of all tenants.
#[derive(Debug, Default)]
pub(super) struct Unevictable {
    pages: Vec<(MemcgId, FolioId)>,
    /// When the first of the pages was added.
    since: Moment,
    /// For each tenant: number of shared pages among them that need swap, less those that kernel
    /// reclaim of the cgroup took since. Kernel reclaim can take shared pages.
    shared: BTreeMap<MemcgId, u64>,
}

impl Unevictable {
    /// Counts a shared page of a tenant that was skipped and that needs swap.
    pub(super) fn note_shared(&mut self, memcg: MemcgId) {
        *self.shared.entry(memcg).or_insert(0) += 1;
    }

    /// Returns the number of shared pages of these tenants that kernel reclaim of the cgroup could
    /// take. This includes pages skipped by earlier reclaims, because the first reclaim takes all
    /// shared pages off the lists, even if only a few pages are requested.
    pub(super) fn shared(&self, tenants: &[MemcgId]) -> u64 {
        let of = |memcg| self.shared.get(memcg);
        tenants.iter().filter_map(of).sum()
    }

    /// Subtracts the shared pages that a reclaim of these tenants' cgroup took.
    pub(super) fn note_reclaimed(&mut self, tenants: &[MemcgId], mut pages: u64) {
        for memcg in tenants {
            if let Some(shared) = self.shared.get_mut(memcg) {
                let less = pages.min(*shared);
                (*shared, pages) = (*shared - less, pages - less);
            }
        }
    }

    /// Adds a page that the kernel did not page out; the engine takes it off its lists.
    pub(super) fn add(&mut self, memcg: MemcgId, id: FolioId, now: Moment) {
        if self.pages.is_empty() {
            self.since = now;
        }
        self.pages.push((memcg, id));
    }

    /// Forgets the pages of a tenant that is about to be removed.
    pub(super) fn forget(&mut self, memcg: MemcgId) {
        self.pages.retain(|(of, _)| *of != memcg);
        self.shared.remove(&memcg);
    }

    /// Puts all pages back on the engine's lists, if [`RETRY`] has passed since the first was
    /// added.
    pub(super) fn rescue(&mut self, machine: &mut Machine, now: Moment) {
        for (memcg, id) in self.take(now) {
            machine.lruvec_mut(memcg).rescue(id);
        }
    }

    /// Returns and forgets all pages if [`RETRY`] has passed since the first page was added.
    /// Otherwise returns an empty list.
    fn take(&mut self, now: Moment) -> Vec<(MemcgId, FolioId)> {
        if now.since(self.since) < RETRY {
            return Vec::new();
        }
        self.shared.clear();
        std::mem::take(&mut self.pages)
    }
}

#[cfg(test)]
mod tests {
    use super::super::moment::at_ms;
    use super::*;

    #[test]
    fn shared_pages_are_counted_by_tenant() {
        let (mut unevictable, [one, two]) =
            (Unevictable::default(), [MemcgId::ROOT, MemcgId::FIRST]);
        for memcg in [one, two, two, two] {
            unevictable.note_shared(memcg);
        }
        assert_eq!(unevictable.shared(&[two]), 3);
        unevictable.note_reclaimed(&[one, two], 2);
        assert_eq!(
            [unevictable.shared(&[one]), unevictable.shared(&[two])],
            [0, 2]
        );
        unevictable.note_reclaimed(&[two], 9);
        assert_eq!(unevictable.shared(&[one, two]), 0);
        unevictable.note_shared(two);
        unevictable.forget(two);
        assert_eq!(unevictable.shared(&[two]), 0);
    }

    /// Regression: shared pages of forked workers were tried again at each wakeup. That took half
    /// of our processor time, and delayed the program.
    #[test]
    fn pages_are_tried_again_a_minute_after_the_first_was_added() {
        let (mut unevictable, one) = (Unevictable::default(), MemcgId::FIRST);
        unevictable.add(one, FolioId(7), at_ms(5_000));
        unevictable.note_shared(one);
        unevictable.add(one, FolioId(8), at_ms(60_000));
        assert!(unevictable.take(at_ms(64_999)).is_empty());
        assert_eq!(unevictable.shared(&[one]), 1);
        let both = [(one, FolioId(7)), (one, FolioId(8))];
        assert_eq!(unevictable.take(at_ms(65_000)), both);
        assert_eq!(unevictable.shared(&[one]), 0);
        // The minute begins anew with the next page.
        unevictable.add(one, FolioId(9), at_ms(70_000));
        assert!(unevictable.take(at_ms(129_999)).is_empty());
        unevictable.forget(one);
        assert!(unevictable.take(at_ms(130_000)).is_empty());
    }
}
