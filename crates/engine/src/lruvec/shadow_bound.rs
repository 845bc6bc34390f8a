//! A bound on the number of shadows, as in a kernel, where shadows cost memory. Shadows are in
//! nodes of 64 slots. The number of nodes that contain only shadows is at most an eighth of the
//! number of pages in memory; the oldest such nodes are dropped first.
//! spec: workingset.md 7.
//!
//! A slot is a folio id. A page whose shadow was dropped stays swapped out, and its refault is not
//! counted.
//!
//! Invariant, if there is a bound: each node has the numbers of present pages and of shadows among
//! its ids.

use super::Lruvec;
use crate::folio::FolioId;
use crate::vmstat::VmEvent;
use crate::word::{State, Word};
use crate::workingset::{CHUNK_SLOTS, ShadowNodes, excess_nodes};
use alloc::boxed::Box;

impl Lruvec {
    /// Bounds the number of shadows from now on. The lruvec must be empty.
    ///
    /// # Panics
    /// When the lruvec has pages or shadows.
    pub fn bound_shadows(&mut self) {
        let empty = self.resident().0 + self.out[0] + self.out[1] == 0;
        assert!(empty, "pages that came before the bound are not counted");
        self.nodes = Some(Box::default());
    }

    /// Returns `workingset_nodes`: the number of nodes that contain only shadows; 0 without a
    /// bound.
    #[must_use]
    pub fn shadow_nodes(&self) -> u64 {
        self.nodes.as_ref().map_or(0, |nodes| nodes.tracked())
    }

    /// Drops the shadows of the oldest nodes above the bound; returns the number of nodes dropped.
    pub(crate) fn reclaim_shadow_nodes(&mut self) -> u64 {
        let pages = self.resident().0;
        let Some(nodes) = &mut self.nodes else {
            return 0;
        };
        let excess = excess_nodes(nodes.tracked(), pages);
        for _ in 0..excess {
            let first = nodes.reclaim_oldest();
            let slots = first.into_iter().flat_map(|slot| slot..slot + CHUNK_SLOTS);
            for id in slots
                .filter_map(|slot| u32::try_from(slot).ok())
                .map(FolioId)
            {
                let word = self.folios.get(id);
                if word.state() == State::Shadow {
                    self.folios.set(id, word.without_shadow());
                }
            }
        }
        self.stat.add(VmEvent::WorkingsetNodereclaim, excess);
        excess
    }

    #[inline]
    pub(super) fn note_page_in(&mut self, id: FolioId, old: Word) {
        if let Some(nodes) = &mut self.nodes {
            if old.state() == State::Shadow && old.has_shadow() {
                nodes.refaulted(u64::from(id.0));
            } else {
                nodes.page_in(u64::from(id.0));
            }
        }
    }

    #[inline]
    pub(super) fn note_evicted(&mut self, id: FolioId) {
        if let Some(nodes) = &mut self.nodes {
            nodes.evicted(u64::from(id.0));
        }
    }

    #[inline]
    pub(super) fn note_removed(&mut self, id: FolioId, word: Word) {
        if let Some(nodes) = &mut self.nodes {
            match word.state() {
                State::Shadow if word.has_shadow() => nodes.truncated(u64::from(id.0)),
                State::Listed | State::OffList => nodes.removed(u64::from(id.0)),
                State::Shadow | State::Absent => {}
            }
        }
    }

    pub(super) fn check_shadow_nodes(&self) {
        let Some(nodes) = &self.nodes else { return };
        nodes.check_invariants();
        self.check_counts(nodes);
    }

    fn check_counts(&self, nodes: &ShadowNodes) {
        let (mut counts, mut tracked) = ((0, 0), 0);
        let end = self.folios.len().next_multiple_of(64);
        for id in (0u32..).map(FolioId).take(end) {
            let word = self.folios.get(id);
            counts.0 += u32::from(word.is_present());
            counts.1 += u32::from(word.state() == State::Shadow && word.has_shadow());
            if u64::from(id.0) % CHUNK_SLOTS == CHUNK_SLOTS - 1 {
                assert_eq!(counts, nodes.contents(u64::from(id.0)), "node of {id:?}");
                tracked += u64::from(counts.0 == 0 && counts.1 > 0);
                counts = (0, 0);
            }
        }
        assert_eq!(tracked, nodes.tracked(), "tracked nodes");
    }
}

#[cfg(test)]
mod tests;
