//! The address spaces of all tenants. They are the simulated memory that the engine works on
//! ([`Memory`]).
//!
//! Invariant: if accessed bits are in the engine, the spaces have no pages; otherwise every
//! resident page is present in its space.

use super::space::{Space, WalkCounts, WalkKind};
use crate::mapped::Mapped;
use engine::{FolioId, Lruvec, MemcgId, Memory, PageOut, ScanReason};

/// The address spaces of all tenants, by memcg.
#[derive(Debug, Default)]
pub struct Spaces {
    spaces: Vec<Space>,
    /// Whether accessed bits are in the engine's own table, not in these page tables.
    pub in_engine: bool,
    /// Whether eviction checks the neighbours of young pages (look-around), and walks read only
    /// tables in the Bloom filters that look-around and walks fill.
    look_around: bool,
    /// Counts of walks in address spaces that no longer exist.
    gone: WalkCounts,
    /// A bug planted by a test: page-out does not unmap.
    #[cfg(test)]
    pub(super) forgets_to_unmap: bool,
}

impl Spaces {
    /// Makes an empty set. `in_engine`: accessed bits are in the engine's table. `look_around`:
    /// eviction checks the neighbours of pages that it finds in use.
    #[must_use]
    pub fn new(in_engine: bool, look_around: bool) -> Self {
        Self {
            in_engine,
            look_around,
            ..Self::default()
        }
    }

    /// Replaces the address space of `id` by an empty one.
    pub fn reset(&mut self, id: MemcgId) {
        let old = std::mem::take(self.of(id));
        self.gone.add(old.walk_counts());
    }

    /// Returns the counts of all walks so far.
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

    /// Returns the space of `id`; makes an empty one if there is none.
    pub fn of(&mut self, id: MemcgId) -> &mut Space {
        if self.spaces.len() <= id.index() {
            self.spaces.resize_with(id.index() + 1, Space::default);
        }
        &mut self.spaces[id.index()]
    }

    /// Returns the space of `id`; `None` if there is none.
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
            self.of(memcg).report_neighbours(lruvec, reason);
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
