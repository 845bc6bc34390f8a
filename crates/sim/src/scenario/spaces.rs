//! The address spaces of all tenants, as the engine's memory.
//!
//! Invariant: with the accessed bits in the engine the spaces hold no page; every other page that is
//! resident is present in its space.

use super::space::{Space, WalkCounts, WalkKind};
use crate::mapped::Mapped;
use engine::{FolioId, Lruvec, MemcgId, Memory, PageOut, ScanReason};

/// The address spaces of all tenants, by memcg.
#[derive(Debug, Default)]
pub struct Spaces {
    spaces: Vec<Space>,
    /// Whether accessed bits are looked for in here, or in the engine's own table.
    pub in_engine: bool,
    /// Whether eviction looks around, and walks keep to the Bloom filters that this fills.
    look_around: bool,
    /// What walks have met, in spaces that are no more.
    gone: WalkCounts,
    /// A fault planted by a test: page-out forgets to unmap.
    #[cfg(test)]
    pub(super) forgets_to_unmap: bool,
}

impl Spaces {
    /// None yet; `in_engine` says where accessed bits are looked for, `look_around` whether eviction
    /// looks at the neighbours of what it finds in use.
    #[must_use]
    pub fn new(in_engine: bool, look_around: bool) -> Self {
        Self {
            in_engine,
            look_around,
            ..Self::default()
        }
    }

    /// Forgets what `id` had mapped: it begins anew, or is gone.
    pub fn reset(&mut self, id: MemcgId) {
        let old = std::mem::take(self.of(id));
        self.gone.add(old.walk_counts());
    }

    /// What all walks so far have met.
    #[must_use]
    pub fn walk_counts(&self) -> WalkCounts {
        let mut all = self.gone;
        self.spaces.iter().for_each(|s| all.add(s.walk_counts()));
        all
    }

    fn walk_as(&mut self, memcg: MemcgId, lruvec: &mut Lruvec, kind: WalkKind) {
        let kind = if self.look_around {
            kind
        } else {
            WalkKind::Unfiltered
        };
        if self.in_engine {
            Mapped(&self.of(memcg).map).walk(memcg, lruvec);
        } else {
            self.of(memcg).walk(lruvec, kind);
        }
    }

    /// The space of `id`; made empty when there is none.
    pub fn of(&mut self, id: MemcgId) -> &mut Space {
        if self.spaces.len() <= id.index() {
            self.spaces.resize_with(id.index() + 1, Space::default);
        }
        &mut self.spaces[id.index()]
    }

    /// The space of `id`, to look at.
    #[must_use]
    pub fn get(&self, id: MemcgId) -> Option<&Space> {
        self.spaces.get(id.index())
    }
}

impl Memory for Spaces {
    fn walk(&mut self, memcg: MemcgId, lruvec: &mut Lruvec) {
        self.walk_as(memcg, lruvec, WalkKind::Filtered);
    }

    fn walk_all(&mut self, memcg: MemcgId, lruvec: &mut Lruvec) {
        self.walk_as(memcg, lruvec, WalkKind::Forced);
    }

    fn has_recency(&self, memcg: MemcgId, id: FolioId) -> bool {
        self.get(memcg).is_none_or(|space| space.map.is_recent(id))
    }

    fn look_around(&mut self, memcg: MemcgId, lruvec: &mut Lruvec, reason: ScanReason) {
        if self.look_around && !self.in_engine {
            self.of(memcg).tell_beside(lruvec, reason);
        }
    }

    fn page_out(&mut self, memcg: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>) {
        #[cfg(test)]
        if self.forgets_to_unmap {
            outcome.extend(batch.iter().map(|_| PageOut::Stored));
            return;
        }
        if self.in_engine {
            outcome.extend(batch.iter().map(|_| PageOut::Stored));
            return;
        }
        let look_around = self.look_around;
        let space = self.of(memcg);
        for &id in batch {
            let found = space.was_found_beside(id);
            let what = if found {
                PageOut::Referenced
            } else {
                space.unmap(id)
            };
            if look_around && !found && what == PageOut::Referenced {
                space.look_around(id);
            }
            outcome.push(what);
        }
    }
}
