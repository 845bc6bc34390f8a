//! Isolation for proactive reclaim by age: offers old pages for eviction, even if no memory is
//! needed.
//!
//! Invariant: each page that is not in one of the two youngest generations is offered once, the
//! oldest generation first. (Exception: sweeping the entries of evicted pages shortens a list
//! during the pass. Then as many of its pages may be offered a second time.) Four generations are
//! too few to say whether a page is old enough; the caller decides that by the page's age. A page
//! that the caller finds too young keeps its place ([`crate::PageOut::TooYoung`]), because reclaim
//! for a limit evicts in the order of the lists, too.

use super::eviction::Source;
use super::{IsolateBudget, Isolated, LruGen, MIN_NR_GENS, list_of, slot_of};
use crate::folio::{FolioId, FolioTable, FolioType};
use crate::list::End;
use crate::units::Swappiness;
use crate::word::{Flag, NodeId, State};
use alloc::vec::Vec;

/// Position of a reclaim by age in one lruvec. The default is the beginning.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByAgeCursor(Cursor);

#[derive(Clone, Copy, Debug, Default)]
enum Cursor {
    #[default]
    Fresh,
    At(ListPosition),
    End,
}

#[derive(Clone, Copy, Debug)]
struct ListPosition {
    ty: FolioType,
    is_last_type: bool,
    seq: u64,
    node: NodeId,
    /// Entries of the list that are still to be scanned: those that it had when its scan began,
    /// minus those scanned since.
    entries: usize,
}

impl LruGen {
    /// Isolates pages from all generations but the two youngest, from `place` on. `scanned` is 0 in
    /// the result if all pages have been offered.
    pub(crate) fn isolate_by_age(
        &mut self,
        folios: &mut FolioTable,
        (swappiness, budget): (Swappiness, IsolateBudget),
        place: &mut ByAgeCursor,
        out: &mut Vec<FolioId>,
    ) -> Isolated {
        let mut done = Isolated::default();
        // Ends generations that the previous pass emptied. That pass itself could not end them,
        // because isolated pages might still have been put back.
        if matches!(place.0, Cursor::Fresh) {
            self.try_to_inc_min_seq(folios, swappiness);
        }
        while done.isolated == 0 {
            let Some(mut at) = self.generation_at(place.0, swappiness) else {
                place.0 = Cursor::End;
                done.scanned = 0;
                break;
            };
            let tier_idx = self.controller.tier_idx(self.profile, at.ty);
            let source = Source {
                ty: at.ty,
                seq: at.seq,
                node: at.node,
                tier_idx,
                oldest: self.min_seq(at.ty),
            };
            done.add(self.scan_list(folios, (source, &mut at.entries), budget, out));
            place.0 = Cursor::At(at);
        }
        done
    }

    /// Returns the list whose pages are offered next; `None` if none remains.
    fn generation_at(&self, place: Cursor, swappiness: Swappiness) -> Option<ListPosition> {
        let last = self.max_seq.checked_sub(MIN_NR_GENS)?;
        let mut at = match place {
            Cursor::End => return None,
            Cursor::At(at) => at,
            Cursor::Fresh => {
                let (first, _) = self
                    .controller
                    .choose(self.profile, swappiness, self.min_seq);
                self.generation(first, self.min_seq(first), false)
            }
        };
        loop {
            at = if at.seq > last || !swappiness.may_evict(at.ty) {
                if at.is_last_type {
                    return None;
                }
                let other = at.ty.other();
                self.generation(other, self.min_seq(other), true)
            } else if at.seq < self.min_seq(at.ty) {
                self.generation(at.ty, self.min_seq(at.ty), at.is_last_type)
            } else if at.entries == 0 {
                self.list_after(at)
            } else {
                return Some(at);
            };
        }
    }

    fn generation(&self, ty: FolioType, seq: u64, is_last_type: bool) -> ListPosition {
        let node = NodeId::default();
        ListPosition {
            ty,
            is_last_type,
            seq,
            node,
            entries: self.lists.entries(list_of(slot_of(seq), ty, node)),
        }
    }

    /// Returns the list of the same generation on the next memory node, or, after the last node,
    /// the first list of the next generation.
    fn list_after(&self, at: ListPosition) -> ListPosition {
        match self.nodes().find(|node| *node > at.node) {
            None => self.generation(at.ty, at.seq + 1, at.is_last_type),
            Some(node) => ListPosition {
                node,
                entries: self.lists.entries(list_of(slot_of(at.seq), at.ty, node)),
                ..at
            },
        }
    }

    /// Puts back an isolated page that the caller found too young to evict: at the head of its
    /// generation's list, which this pass does not reach. If the generation has ended, or a walk
    /// reported the page young, calls [`Self::put_back`]. Returns whether the page was activated.
    pub(crate) fn put_back_too_young(&mut self, folios: &mut FolioTable, id: FolioId) -> bool {
        let word = folios.get(id);
        let (slot, ty) = (word.generation(), word.folio_type());
        let mut all = self.min_seq(ty)..=self.max_seq;
        if word.has(Flag::Young) || !all.any(|seq| slot_of(seq) == slot) {
            return self.put_back(folios, id, false);
        }
        let word = word.into_state(State::Listed);
        self.lists
            .push(folios, Self::list_of(word), (id, word), End::Head);
        self.count(slot, word, 1);
        false
    }
}
