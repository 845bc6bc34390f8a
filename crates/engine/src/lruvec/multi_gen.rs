//! Operations of a lruvec with the multi-gen LRU only; they do nothing under the classic policy.

use super::Lruvec;
use super::policy::Lru;
use crate::folio::{FolioId, FolioTable, FolioType};
use crate::lru_gen::{ByAgeCursor, IsolateBudget, Isolated, LruGen};
use crate::units::{Millis, Pages, Swappiness};
use crate::vmstat::{ScanReason, VmEvent};
use crate::word::{Flag, NodeId, State};
use alloc::vec::Vec;

impl Lruvec {
    /// Returns the generations.
    ///
    /// # Panics
    /// When this lruvec has the classic policy; see [`Lruvec::multi_gen`].
    #[must_use]
    pub fn lru_gen(&self) -> &LruGen {
        self.multi_gen()
            .expect("a lruvec with the classic policy has no generations")
    }

    /// Returns the generations; `None` under the classic policy.
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

    /// Declares that scans open the generations ([`crate::Aging::ByScans`]). The lruvec must be
    /// empty.
    ///
    /// # Panics
    /// When the lruvec has pages or shadows: tokens of these shadows would not be of the refault
    /// clock.
    pub fn set_aged_by_scans(&mut self) {
        let empty = self.resident().0 + self.out[0] + self.out[1] == 0;
        assert!(
            empty,
            "shadows exist whose tokens are not of the refault clock"
        );
        if let Some((lru, _)) = self.multi_gen_mut() {
            lru.set_aged_by_scans();
        }
    }

    /// Reports that a walk found the page accessed since the last walk, through a mapping with
    /// recency. An isolated page, or a page of a classic lruvec, gets the flag Young, which reclaim
    /// reads later. An absent page is ignored.
    pub fn young(&mut self, id: FolioId) {
        let word = self.folios.get(id);
        let listed = word.state() == State::Listed;
        match self.multi_gen_mut().filter(|_| listed) {
            Some((lru, folios)) => lru.update_gen(folios, id),
            None if word.is_present() => self.folios.set(id, word.with(Flag::Young, true)),
            None => {}
        }
    }

    /// Reports that a scan found the page accessed since the last scan, for callers that open a
    /// generation at each scan. As [`Self::young`], but promotes a page of the oldest generation at
    /// once: that generation would end before the next scan, which would clear the flag of the
    /// page's first access.
    pub fn accessed_since_scan(&mut self, id: FolioId) {
        self.young(id);
        let word = self.folios.get(id);
        let ty = word.folio_type();
        let is_oldest = |lru: &LruGen| lru.seq_of(word.generation(), ty) == lru.min_seq(ty);
        let is_marked = word.state() == State::Listed && word.has(Flag::Referenced);
        if is_marked && self.multi_gen().is_some_and(is_oldest) {
            self.young(id);
        }
    }

    /// Reports that look-around, in a reclaim for `reason`, found this neighbour of an accessed
    /// page accessed, too. In direct reclaim the neighbour moves to the youngest generation at
    /// once; in any other reclaim it is promoted as by a walk. An isolated neighbour is not
    /// changed: its page-out reports that it stays.
    /// spec: lru-gen.md 7.
    pub fn young_neighbour(&mut self, id: FolioId, reason: ScanReason) {
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

    /// Walks all pages, as if every mapping had recency: clears the accessed bits that
    /// [`Self::touch`] set, and promotes these pages. Returns the number of pages found young.
    pub fn walk_accessed(&mut self) -> Pages {
        self.walk_recent(|_| true)
    }

    /// Walks all pages: clears the accessed bits that [`Self::touch`] set, and promotes these
    /// pages. Pages for which `has_recency` is false, because their VMA has no recency now, keep
    /// their bit and do not count. Returns the number of pages found young.
    /// spec: lru-gen.md 5.2.
    pub fn walk_recent(&mut self, has_recency: impl Fn(FolioId) -> bool) -> Pages {
        let young = self
            .multi_gen_mut()
            .map_or(0, |(lru, folios)| lru.walk_accessed(folios, has_recency));
        Pages(young)
    }

    /// Records on which memory node a page is. Until then a new page counts as on the first node.
    /// Has no effect on an absent page, nor under the classic policy, whose lists are not divided
    /// by node.
    pub fn set_node(&mut self, id: FolioId, node: NodeId) {
        let word = self.folios.get(id);
        let must_move = word.is_present() && word.node() != node;
        if let Some((lru, folios)) = self.multi_gen_mut().filter(|_| must_move) {
            lru.set_node(folios, id, node);
            lru.bound_tombstones(folios);
        }
    }

    /// Returns the number of listed pages on `node` of the types that `swappiness` allows to evict;
    /// on all nodes if `node` is `None`, or under the classic policy.
    #[must_use]
    pub fn evictable_on(&self, node: Option<NodeId>, swappiness: Swappiness) -> Pages {
        let Some(lru) = self.multi_gen().filter(|_| node.is_some()) else {
            return self.evictable_total(swappiness);
        };
        let evictable = FolioType::ALL
            .into_iter()
            .filter(|&ty| swappiness.may_evict(ty));
        Pages(evictable.map(|ty| lru.total_on(node, ty)).sum())
    }

    /// Reports that the writeback of a listed page has ended: moves the page to where it is evicted
    /// next.
    pub fn rotate_reclaimable(&mut self, id: FolioId) {
        let listed = self.folios.get(id).state() == State::Listed;
        if let Some((lru, folios)) = self.multi_gen_mut().filter(|_| listed) {
            lru.rotate_reclaimable(folios, id);
            lru.bound_tombstones(folios);
        }
    }

    /// Opens a new generation after a walk; returns false if `seq` is not the youngest any more.
    pub fn inc_max_seq(&mut self, seq: u64, swappiness: Swappiness, now: Millis) -> bool {
        self.multi_gen_mut()
            .is_some_and(|(lru, folios)| lru.inc_max_seq(folios, seq, swappiness, now))
    }

    /// Claims the walk before `inc_max_seq(seq)`; returns false if another caller has claimed it.
    pub fn begin_walk(&mut self, seq: u64) -> bool {
        self.multi_gen_mut()
            .is_some_and(|(lru, _)| lru.begin_walk(seq))
    }

    /// Isolates up to `nr` pages from all generations but the two youngest, the oldest generation
    /// first (`lru_gen/by_age.rs`). `place` is the position that earlier calls have reached.
    pub fn isolate_by_age(
        &mut self,
        swappiness: Swappiness,
        (nr, place): (usize, &mut ByAgeCursor),
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

    /// Returns the pages on the list of generation `seq` and type `ty`, in the order in which
    /// reclaim would scan them. For tests: reads every entry.
    #[doc(hidden)]
    #[must_use]
    pub fn list_order(&self, seq: u64, ty: FolioType) -> Vec<FolioId> {
        self.lru_gen().list_order(&self.folios, seq, ty)
    }
}
