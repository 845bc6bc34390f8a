//! What only a multi-gen lruvec can do; under the classic policy these do nothing.

use super::Lruvec;
use super::policy::Lru;
use crate::folio::{FolioId, FolioTable, FolioType};
use crate::lru_gen::{ByAgePlace, IsolateBudget, Isolated, LruGen};
use crate::units::{Millis, Pages, Swappiness};
use crate::vmstat::{ScanReason, VmEvent};
use crate::word::{Flag, State};
use alloc::vec::Vec;

impl Lruvec {
    /// The generations, to look at.
    ///
    /// # Panics
    /// When this lruvec has the classic policy; see [`Lruvec::classic`].
    #[must_use]
    pub fn lru_gen(&self) -> &LruGen {
        self.multi_gen()
            .expect("a lruvec with the classic policy has no generations")
    }

    /// The generations, if that is the policy.
    #[must_use]
    pub fn multi_gen(&self) -> Option<&LruGen> {
        match &self.lru {
            Lru::MultiGen(lru) => Some(lru),
            Lru::Classic(_) => None,
        }
    }

    pub(crate) fn multi_gen_mut(&mut self) -> Option<(&mut LruGen, &mut FolioTable)> {
        match &mut self.lru {
            Lru::MultiGen(lru) => Some((lru, &mut self.folios)),
            Lru::Classic(_) => None,
        }
    }

    /// A walk found the page accessed since the last walk, through a mapping with recency. Isolated
    /// pages remember it and are put back young, and so do pages of a classic lruvec; absent ones are
    /// none of ours.
    pub fn young(&mut self, id: FolioId) {
        let word = self.folios.get(id);
        let listed = word.state() == State::Listed;
        match self.multi_gen_mut().filter(|_| listed) {
            Some((lru, folios)) => lru.update_gen(folios, id),
            None if word.is_present() => self.folios.set(id, word.with(Flag::Young, true)),
            None => {}
        }
    }

    /// A look found the page accessed since the look before, where each look opens a generation. As [`Self::young`]; but what is
    /// of the oldest generation is promoted at once: the mark of a first time ends with that generation, before the next look.
    pub fn seen_in_use(&mut self, id: FolioId) {
        self.young(id);
        let word = self.folios.get(id);
        let ty = word.folio_type();
        let is_oldest = |lru: &LruGen| lru.seq_of(word.generation(), ty) == lru.min_seq(ty);
        let is_marked = word.state() == State::Listed && word.has(Flag::Referenced);
        if is_marked && self.multi_gen().is_some_and(is_oldest) {
            self.young(id);
        }
    }

    /// Eviction on behalf of `reason` found the page accessed while it looked around another. Where a walk's batches are at
    /// hand the page is promoted as by that walk; on the time of who needs memory there are none, and it is
    /// moved at once. An isolated page is left as it is: page-out says that it stays.
    /// spec: lru-gen.md 7.
    pub fn young_beside(&mut self, id: FolioId, reason: ScanReason) {
        let listed = self.folios.get(id).state() == State::Listed;
        let Some((lru, folios)) = self.multi_gen_mut().filter(|_| listed) else {
            return;
        };
        if reason != ScanReason::Direct {
            lru.update_gen(folios, id);
        } else if lru.activate(folios, id) {
            lru.bound_tombstones(folios);
            self.stat.add(VmEvent::Pgactivate, 1);
        }
    }

    /// Takes the accessed bits set by [`Self::touch`], all of them: every mapping has recency. Returns the
    /// pages found young.
    pub fn walk_accessed(&mut self) -> Pages {
        self.walk_recent(|_| true)
    }

    /// Takes the accessed bits set by [`Self::touch`] of the pages of which `has_recency` says that what
    /// maps them has recency: `vma_has_recency`, asked now, whatever it was when the page came in. The
    /// others keep theirs. Returns the pages found young. spec: lru-gen.md 5.2.
    pub fn walk_recent(&mut self, has_recency: impl Fn(FolioId) -> bool) -> Pages {
        let young = self
            .multi_gen_mut()
            .map_or(0, |(lru, folios)| lru.walk_accessed(folios, has_recency));
        Pages(young)
    }

    /// The writeback of a listed page has ended and reclaim waits for it: next to go.
    pub fn rotate_reclaimable(&mut self, id: FolioId) {
        let listed = self.folios.get(id).state() == State::Listed;
        if let Some((lru, folios)) = self.multi_gen_mut().filter(|_| listed) {
            lru.rotate_reclaimable(folios, id);
            lru.bound_tombstones(folios);
        }
    }

    /// Opens a new generation after a walk; false when `seq` is no longer the youngest.
    pub fn inc_max_seq(&mut self, seq: u64, swappiness: Swappiness, now: Millis) -> bool {
        self.multi_gen_mut()
            .is_some_and(|(lru, folios)| lru.inc_max_seq(folios, seq, swappiness, now))
    }

    /// Claims the walk before `inc_max_seq(seq)`; false when it has been claimed.
    pub fn begin_walk(&mut self, seq: u64) -> bool {
        self.multi_gen_mut()
            .is_some_and(|(lru, _)| lru.begin_walk(seq))
    }

    /// Isolates up to `nr` pages of all generations but the two youngest, those of the oldest first (`lru_gen/by_age.rs`), from `place` on.
    pub fn isolate_by_age(
        &mut self,
        swappiness: Swappiness,
        (nr, place): (usize, &mut ByAgePlace),
        out: &mut Vec<FolioId>,
    ) -> Isolated {
        let (begin, mut total) = (out.len(), Isolated::default());
        while out.len() - begin < nr {
            let before = out.len();
            let Some((lru, folios)) = self.multi_gen_mut() else {
                break;
            };
            let budget = IsolateBudget::up_to(nr - (before - begin));
            let done = lru.isolate_by_age(folios, (swappiness, budget), place, out);
            total.add(self.account_scan(ScanReason::Proactive, out.len() - before, done));
            if done.scanned == 0 {
                break;
            }
        }
        total
    }

    /// The order in which reclaim would meet the pages of generation list `seq`, type `ty`.
    /// For tests: costs a look at every entry.
    #[doc(hidden)]
    #[must_use]
    pub fn list_order(&self, seq: u64, ty: FolioType) -> Vec<FolioId> {
        self.lru_gen().list_order(&self.folios, seq, ty)
    }
}
