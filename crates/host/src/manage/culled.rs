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
}

impl Culled {
    pub(super) fn new() -> Culled {
        Culled {
            pages: Vec::new(),
            since: Instant::now(),
        }
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
        }
    }
}
