//! Pages that the kernel skips when asked to page them out: mapped by several processes, or locked.
//!
//! Invariant: they are off the engine's lists, and tried again after a while: whoever else maps them may have ended. (The story: of
//! 16 tenants that ran the same program the first had all pages of its libraries, 22 MiB, which none can give; for an hour
//! it was asked for these, and gave nothing.)

use std::time::{Duration, Instant};

use engine::memcg::MemcgId;
use engine::{FolioId, Machine};

/// They are tried again after so long.
const RETRY: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug)]
pub(super) struct Culled {
    pages: Vec<(MemcgId, FolioId)>,
    since: Instant,
    /// Of them, those that reclaim of their group would take: shared, and with a place in swap. What it took since is not in it.
    shared: u64,
}

impl Culled {
    pub(super) fn new() -> Culled {
        Culled {
            pages: Vec::new(),
            since: Instant::now(),
            shared: 0,
        }
    }

    /// One reclaim has added so many that their group can be asked for.
    pub(super) fn note_shared(&mut self, pages: u64) {
        self.shared += pages;
    }

    /// Pages for which the group can be asked. (The story: only those of the same reclaim were. The first one took all that a server shares
    /// with its workers off the lists, asked for the few pages that it was short of, and for a minute nobody knew of the others.)
    pub(super) const fn shared(&self) -> u64 {
        self.shared
    }

    /// The group was asked, and gave so many.
    pub(super) fn note_reclaimed(&mut self, pages: u64) {
        self.shared = self.shared.saturating_sub(pages);
    }

    pub(super) fn add(&mut self, memcg: MemcgId, id: FolioId) {
        if self.pages.is_empty() {
            self.since = Instant::now();
        }
        self.pages.push((memcg, id));
    }

    /// A tenant is about to be removed.
    pub(super) fn forget(&mut self, memcg: MemcgId) {
        self.pages.retain(|(of, _)| *of != memcg);
    }

    /// Puts them back, if it is time.
    pub(super) fn rescue(&mut self, machine: &mut Machine) {
        if self.since.elapsed() >= RETRY {
            for (memcg, id) in self.pages.drain(..) {
                machine.lruvec_mut(memcg).rescue(id);
            }
            self.shared = 0;
        }
    }
}
