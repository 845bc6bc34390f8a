//! Unevictable pages: the kernel does not page them out on request, because several processes map
//! them, or because they are locked.
//!
//! Invariant: these pages are off the engine's lists. They are tried again after [`RETRY`], when
//! other processes that map them may have ended. If they stayed on the lists, a tenant that owns
//! the pages of shared libraries would be reclaimed from again and again without result.

use std::time::{Duration, Instant};

use engine::memcg::MemcgId;
use engine::{FolioId, Machine};

/// Time after which unevictable pages are tried again.
const RETRY: Duration = Duration::from_secs(60);

/// The unevictable pages of all tenants.
#[derive(Debug)]
pub(super) struct Unevictable {
    pages: Vec<(MemcgId, FolioId)>,
    /// When the first of the pages was added.
    since: Instant,
    /// Number of shared pages among them that need swap, less those that kernel reclaim of the
    /// cgroup took since. Kernel reclaim can take shared pages.
    shared: u64,
}

impl Unevictable {
    pub(super) fn new() -> Unevictable {
        Unevictable {
            pages: Vec::new(),
            since: Instant::now(),
            shared: 0,
        }
    }

    /// Adds the number of shared pages that one reclaim skipped and that need swap.
    pub(super) fn note_shared(&mut self, pages: u64) {
        self.shared += pages;
    }

    /// Returns the number of shared pages that kernel reclaim of the cgroup could take. This
    /// includes pages skipped by earlier reclaims, because the first reclaim takes all shared pages
    /// off the lists, even if only a few pages are requested.
    pub(super) const fn shared(&self) -> u64 {
        self.shared
    }

    /// Subtracts the shared pages that a reclaim of the cgroup took.
    pub(super) fn note_reclaimed(&mut self, pages: u64) {
        self.shared = self.shared.saturating_sub(pages);
    }

    /// Adds a page that the kernel did not page out; the engine takes it off its lists.
    pub(super) fn add(&mut self, memcg: MemcgId, id: FolioId) {
        if self.pages.is_empty() {
            self.since = Instant::now();
        }
        self.pages.push((memcg, id));
    }

    /// Forgets the pages of a tenant that is about to be removed.
    pub(super) fn forget(&mut self, memcg: MemcgId) {
        self.pages.retain(|(of, _)| *of != memcg);
    }

    /// Puts all pages back on the engine's lists, if [`RETRY`] has passed since the first was
    /// added.
    pub(super) fn rescue(&mut self, machine: &mut Machine) {
        if self.since.elapsed() >= RETRY {
            for (memcg, id) in self.pages.drain(..) {
                machine.lruvec_mut(memcg).rescue(id);
            }
            self.shared = 0;
        }
    }
}
