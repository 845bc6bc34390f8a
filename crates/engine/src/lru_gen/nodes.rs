//! Memory nodes (NUMA): each node has its own lists in every generation, so that a reclaim for one
//! node reads no page of another.
//!
//! Generations are common to all nodes: aging moves the pages of all nodes. A page's word names its
//! node. The kernel instead has a lruvec for each node; these lists are as its lists for each zone
//! of a lruvec.
//!
//! Invariants: a lruvec whose pages are all on the first node has only the lists of that node;
//! reclaim for one node does not change the lists of others.

use super::{LruGen, MIN_NR_GENS, SLOTS, clamped, evictable, list_of, slot_of};
use crate::folio::{FolioId, FolioTable, FolioType};
use crate::list::End;
use crate::units::Swappiness;
use crate::word::{NodeId, State};
use alloc::vec::Vec;

/// Number of pages by slot and type, for each node but the first.
pub(super) type OtherNodes = Vec<[[i64; 2]; SLOTS]>;

impl LruGen {
    /// Returns the nodes that have lists.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..=self.others.len()).map(NodeId::of_index)
    }

    /// Moves a page to another node. A listed page moves to the head of that node's list of its
    /// generation.
    pub(crate) fn set_node(&mut self, folios: &mut FolioTable, id: FolioId, node: NodeId) {
        if node.index() > self.others.len() {
            self.others.resize(node.index(), [[0; 2]; SLOTS]);
            self.lists.ensure((node.index() + 1) * SLOTS * 2);
        }
        let word = folios.get(id);
        if word.state() != State::Listed {
            folios.set(id, word.with_node(node));
            return;
        }
        let (slot, ty) = (word.generation(), word.folio_type());
        let from = list_of(slot, ty, word.node());
        self.count(slot, word, -1);
        self.lists.remove(folios, id, State::OffList, Some(from));
        let word = folios.get(id).with_node(node).into_state(State::Listed);
        let to = list_of(slot, ty, node);
        self.lists.push(folios, to, (id, word), End::Head);
        self.count(slot, word, 1);
    }

    /// Returns the number of pages of generation `seq` and type `ty` on `node`; on all nodes if
    /// `None`.
    fn size_on(&self, node: Option<NodeId>, seq: u64, ty: FolioType) -> u64 {
        let Some(node) = node else {
            return self.size(seq, ty);
        };
        let count_of = |counts: &[[i64; 2]; SLOTS]| counts[slot_of(seq)][ty.index()];
        clamped(match node.index().checked_sub(1) {
            None => count_of(&self.nr_pages) - self.others.iter().map(count_of).sum::<i64>(),
            Some(other) => self.others.get(other).map_or(0, count_of),
        })
    }

    /// Returns the number of pages of `ty` on `node`, in all generations; on all nodes if `None`.
    pub(crate) fn total_on(&self, node: Option<NodeId>, ty: FolioType) -> u64 {
        match node {
            None => self.total(ty),
            Some(_) => (self.min_seq(ty)..=self.max_seq)
                .map(|seq| self.size_on(node, seq, ty))
                .sum(),
        }
    }

    /// Returns the oldest generation with a page of `node` that `swappiness` allows to evict. For
    /// all nodes (`None`) returns [`Self::evictable_min_seq`].
    pub(super) fn oldest_on(&self, node: Option<NodeId>, swappiness: Swappiness) -> u64 {
        if node.is_none() {
            return self.evictable_min_seq(swappiness);
        }
        let oldest = |ty| {
            let mut seqs = self.min_seq(ty)..=self.max_seq;
            seqs.find(|&seq| self.size_on(node, seq, ty) > 0)
        };
        evictable(swappiness)
            .filter_map(oldest)
            .min()
            .unwrap_or(self.max_seq)
    }

    /// Whether a generation has no page left on its lists. Drops tombstones (entries of removed
    /// pages) at the tails of the lists.
    pub(super) fn is_ended(&mut self, folios: &mut FolioTable, seq: u64, ty: FolioType) -> bool {
        let (slot, mut nodes) = (slot_of(seq), self.nodes());
        nodes.all(|node| self.lists.is_empty(folios, list_of(slot, ty, node)))
    }

    /// Returns the generations of `ty` from which pages may be evicted, oldest first.
    pub(super) fn open_seqs(&self, ty: FolioType) -> core::ops::RangeInclusive<u64> {
        self.min_seq(ty)..=self.max_seq.saturating_sub(MIN_NR_GENS)
    }
}
