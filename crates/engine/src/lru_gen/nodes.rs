//! Memory nodes: each has lists of its own in every generation, so that a reclaim for one node
//! passes no page of another.
//!
//! Generations are common to all nodes: aging moves the pages of all. A page's word names its node.
//! The kernel has a lruvec for each node; these lists are as its lists of zones within a lruvec.
//!
//! Invariants: a lruvec without pages on other nodes than the first has no more lists than one of a
//! machine with one node; reclaim for one node leaves the lists of the others as they are.

use super::{LruGen, MIN_NR_GENS, SLOTS, clamped, evictable, list_of, slot_of};
use crate::folio::{FolioId, FolioTable, FolioType};
use crate::list::End;
use crate::units::Swappiness;
use crate::word::{NodeId, State};
use alloc::vec::Vec;

/// Pages of each slot and type, on each node but the first.
pub(super) type OtherNodes = Vec<[[i64; 2]; SLOTS]>;

impl LruGen {
    /// Returns the nodes that have lists.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..=self.others.len()).map(NodeId::of_index)
    }

    /// Moves a page to another node. A listed page goes to the head of its generation's list there.
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

    /// Returns the pages of generation `seq` and type `ty` on `node`; `None` for all nodes.
    fn size_on(&self, node: Option<NodeId>, seq: u64, ty: FolioType) -> u64 {
        let Some(node) = node else {
            return self.size(seq, ty);
        };
        let of = |counts: &[[i64; 2]; SLOTS]| counts[slot_of(seq)][ty.index()];
        clamped(match node.index().checked_sub(1) {
            None => of(&self.nr_pages) - self.others.iter().map(of).sum::<i64>(),
            Some(other) => self.others.get(other).map_or(0, of),
        })
    }

    /// Returns the pages of `ty` on `node`, in all generations; `None` for all nodes.
    pub(crate) fn total_on(&self, node: Option<NodeId>, ty: FolioType) -> u64 {
        match node {
            None => self.total(ty),
            Some(_) => (self.min_seq(ty)..=self.max_seq)
                .map(|seq| self.size_on(node, seq, ty))
                .sum(),
        }
    }

    /// Returns the oldest generation that has pages of `node` of the types that `swappiness` allows
    /// to evict; for all nodes (`None`) what [`Self::evictable_min_seq`] returns.
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

    /// Whether no live page is on the lists of a generation; drops tombstones at their tails.
    pub(super) fn is_ended(&mut self, folios: &mut FolioTable, seq: u64, ty: FolioType) -> bool {
        let (slot, mut nodes) = (slot_of(seq), self.nodes());
        nodes.all(|node| self.lists.is_empty(folios, list_of(slot, ty, node)))
    }

    /// Returns the generations of `ty` from which pages may be evicted, oldest first.
    pub(super) fn open_seqs(&self, ty: FolioType) -> core::ops::RangeInclusive<u64> {
        self.min_seq(ty)..=self.max_seq.saturating_sub(MIN_NR_GENS)
    }
}
