//! The facade for one tenant on one node: what the pager calls.
//!
//! Every call is O(1) or O(batch), save those that say otherwise. The engine holds no page and
//! touches no memory: it is told what happens, and asked what should go.
//!
//! A round of reclaim: [`Engine::isolate`] hands out the coldest pages; the embedder pages them
//! out; each is then [`Engine::evicted`] or [`Engine::put_back`] ([`Engine::settle`] does either).
//! When `isolate` reports `scanned == 0`, nothing is old enough: tell it what is [`Engine::young`],
//! then [`Engine::age`], then ask again.

use crate::folio::{FolioId, FolioType};
use crate::lru_gen::{Explanation, IsolateBudget, Isolated, LruGen, Refault};
use crate::lruvec::{FaultKind, Lruvec, Policy, Unmapped};
use crate::memcg::{Memcg, MemcgLimits};
use crate::units::{Millis, Pages, Swappiness};
use crate::vmscan::{Memory, PageOut, ScanReason, Settled, usable_swappiness};
use crate::vmstat::VmStat;
use crate::word::{Flag, State};
use crate::workingset::{Aggregation, Bins, PageAge};
use alloc::vec::Vec;

/// What an engine is made with.
#[derive(Clone, Copy, Debug, Default)]
pub struct EngineConfig {
    /// Which LRU.
    pub policy: Policy,
    /// Limits of the tenant.
    pub limits: MemcgLimits,
    /// memory.swappiness.
    pub swappiness: Swappiness,
}

/// One memcg with one lruvec.
///
/// Invariant: the memcg's usage is the lruvec's resident pages, and its swap usage the anon pages
/// that are out.
#[derive(Debug)]
pub struct Engine {
    pub(crate) memcg: Memcg,
    pub(crate) lruvec: Lruvec,
}

impl Engine {
    /// An engine without pages. All generations are born `now`.
    #[must_use]
    pub fn new(config: EngineConfig, now: Millis) -> Self {
        Self {
            memcg: Memcg::new(config.limits, config.swappiness),
            lruvec: Lruvec::new(config.policy, now),
        }
    }

    /// Makes folio ids below `len` valid; an id costs 4 bytes whether used or not.
    pub fn ensure(&mut self, len: usize) {
        self.lruvec.ensure(len);
    }

    /// A page came in, or was accessed by a fault while present. `has_recency` is
    /// `vma_has_recency` of its VMA. Charged to the memcg, over its max if need be: the page is
    /// there already. Returns what the shadow told, if the page had left one.
    ///
    /// # Panics
    /// When `id` is beyond what [`Self::ensure`] made valid.
    pub fn fault_in(
        &mut self,
        id: FolioId,
        ty: FolioType,
        kind: FaultKind,
        has_recency: bool,
    ) -> Option<Refault> {
        let word = self.lruvec.folios().get(id);
        if !word.is_present() {
            self.memcg.charge_forced(Pages(1));
        }
        if word.state() == State::Shadow && word.shadow_type() == FolioType::Anon {
            self.memcg.uncharge_swap(Pages(1));
        }
        let swap = self.memcg.swap_available() > Pages(0);
        self.lruvec.fault_in(id, ty, kind, has_recency, swap)
    }

    /// [`Self::fault_in`] of many pages, in order; what their shadows told is in the counters.
    ///
    /// # Panics
    /// As [`Self::fault_in`].
    pub fn fault_in_all(
        &mut self,
        ids: &[FolioId],
        ty: FolioType,
        kind: FaultKind,
        has_recency: bool,
    ) {
        self.lruvec.expect(ids);
        for &id in ids {
            self.fault_in(id, ty, kind, has_recency);
        }
    }

    /// The walk found this page accessed since the last one.
    pub fn young(&mut self, id: FolioId) {
        self.lruvec.young(id);
    }

    /// The page was accessed through a file descriptor.
    pub fn mark_accessed(&mut self, id: FolioId) {
        self.lruvec.mark_accessed(id);
    }

    /// Sets or clears a flag that is the embedder's to say; see [`Lruvec::set_flag`].
    pub fn set_flag(&mut self, id: FolioId, flag: Flag, on: bool) {
        self.lruvec.set_flag(id, flag, on);
    }

    /// The program removed these pages, in memory or out; what is not there is skipped.
    pub fn unmap_range(&mut self, start: FolioId, len: usize) -> Unmapped {
        let gone = self.lruvec.unmap_range(start, len);
        self.memcg.uncharge(gone.present);
        self.memcg.uncharge_swap(gone.out[FolioType::Anon.index()]);
        gone
    }

    /// [`Self::unmap_range`] of one page.
    pub fn unmap(&mut self, id: FolioId) -> Unmapped {
        self.unmap_range(id, 1)
    }

    /// Opens a new generation; call it after the walk. What was not young is now one older. Nothing
    /// to do under the classic policy.
    pub fn age(&mut self, now: Millis) {
        let swappiness = self.swappiness();
        if let Some(seq) = self.lruvec.multi_gen().map(LruGen::max_seq) {
            self.lruvec.inc_max_seq(seq, swappiness, now);
        }
    }

    /// The swappiness in effect: no anon when nothing more may be swapped out.
    #[must_use]
    pub fn swappiness(&self) -> Swappiness {
        usable_swappiness(self.memcg.swappiness(), self.memcg.swap_available())
    }

    /// Isolates up to `nr` of the coldest pages into `out`, coldest first; fewer when fewer are old
    /// enough. They stay charged until they are settled.
    pub fn isolate(&mut self, nr: usize, reason: ScanReason, out: &mut Vec<FolioId>) -> Isolated {
        let (swappiness, before) = (self.swappiness(), out.len());
        let mut total = Isolated::default();
        while out.len() - before < nr {
            let budget = IsolateBudget::up_to(nr - (out.len() - before));
            let done = self.lruvec.isolate(reason, swappiness, budget, out);
            total.add(done);
            if done.scanned == 0 {
                break;
            }
        }
        total
    }

    /// Isolates up to `nr` pages that have been idle for `age` at least, as far as generations can
    /// tell: age at intervals of `age`, and never at half of it or less (`lru_gen/by_age.rs`).
    /// Nothing under the classic policy, which knows no ages.
    pub fn isolate_older_than(
        &mut self,
        age: Millis,
        nr: usize,
        now: Millis,
        out: &mut Vec<FolioId>,
    ) -> Isolated {
        let (swappiness, before) = (self.swappiness(), out.len());
        let mut total = Isolated::default();
        while out.len() - before < nr {
            let lru = self.lruvec.multi_gen();
            let Some(last) = lru.and_then(|lru| lru.youngest_older_than(age, now)) else {
                break;
            };
            let budget = IsolateBudget::up_to(nr - (out.len() - before));
            let done = self.lruvec.isolate_up_to(last, swappiness, budget, out);
            total.add(done);
            if done.scanned == 0 {
                break;
            }
        }
        total
    }

    /// An isolated page could not go. False when it is isolated no longer.
    pub fn put_back(&mut self, id: FolioId, why: PutBack) -> bool {
        self.lruvec.put_back(id, why == PutBack::Referenced)
    }

    /// An isolated page has left memory. False when it is isolated no longer.
    pub fn evicted(&mut self, id: FolioId, reason: ScanReason) -> bool {
        self.settle(id, PageOut::Stored, reason) == Settled::Left
    }

    /// [`Self::evicted`] for a whole batch; returns how many left.
    pub fn evicted_all(&mut self, ids: &[FolioId], reason: ScanReason) -> Pages {
        let [anon, file] = self.lruvec.evicted_all(ids, reason);
        let left = Pages(anon.0 + file.0);
        self.memcg.uncharge(left);
        self.memcg.charge_swap(anon);
        left
    }

    /// Does what `outcome` asks for with an isolated page.
    pub fn settle(&mut self, id: FolioId, outcome: PageOut, reason: ScanReason) -> Settled {
        let ty = self.lruvec.folios().get(id).folio_type();
        let settled = self.lruvec.settle(id, outcome, reason);
        match settled {
            Settled::Left => {
                self.memcg.uncharge(Pages(1));
                let swapped = u64::from(ty == FolioType::Anon);
                self.memcg.charge_swap(Pages(swapped));
            }
            Settled::Forgotten => self.memcg.uncharge(Pages(1)),
            Settled::Stayed | Settled::NotIsolated => {}
        }
        settled
    }

    /// How long the oldest page may have been idle; `None` without pages.
    #[must_use]
    pub fn oldest_age(&self, now: Millis) -> Option<Millis> {
        let lru = self.lruvec.multi_gen()?;
        let births = FolioType::ALL.map(|ty| lru.oldest_birth(ty));
        births
            .into_iter()
            .flatten()
            .min()
            .map(|birth| now.since(birth))
    }

    /// The page-age histogram. It sums to the resident pages: those of which no age is known (on no
    /// list right now, or under the classic policy) count as young.
    #[must_use]
    pub fn page_age(&self, now: Millis, bins: &Bins, mode: Aggregation) -> PageAge {
        let mut report = PageAge::new(bins);
        if let Some(lru) = self.lruvec.multi_gen() {
            report.add(lru, now, mode);
        }
        for ty in FolioType::ALL {
            let (active, inactive) = self.lruvec.active_inactive(ty);
            let listed = Pages(active.0 + inactive.0);
            let unknown = if self.lruvec.classic().is_some() {
                listed
            } else {
                Pages(0)
            };
            report.add_young(ty, Pages(unknown.0 + self.lruvec.off_list(ty).0));
        }
        report
    }

    /// Pages in memory.
    #[must_use]
    pub fn resident_pages(&self) -> Pages {
        self.lruvec.resident()
    }

    /// Pages of `ty` that are out.
    #[must_use]
    pub const fn out_pages(&self, ty: FolioType) -> Pages {
        self.lruvec.out(ty)
    }

    /// Why a page would or would not be taken now.
    #[must_use]
    pub fn explain(&self, id: FolioId, now: Millis) -> Explanation {
        self.lruvec.explain(id, self.swappiness(), now)
    }

    /// The event counters.
    #[must_use]
    pub const fn stats(&self) -> &VmStat {
        self.lruvec.stat()
    }

    /// The tenant: usage, limits, events.
    #[must_use]
    pub const fn memcg(&self) -> &Memcg {
        &self.memcg
    }

    /// The tenant, to set its limits.
    pub const fn memcg_mut(&mut self) -> &mut Memcg {
        &mut self.memcg
    }

    /// The generations, to look at.
    #[must_use]
    pub fn lru_gen(&self) -> &LruGen {
        self.lruvec.lru_gen()
    }

    /// The lruvec, to look at.
    #[must_use]
    pub const fn lruvec(&self) -> &Lruvec {
        &self.lruvec
    }

    /// The lruvec, for what needs no charge: touches and walks of a simulation.
    pub const fn lruvec_mut(&mut self) -> &mut Lruvec {
        &mut self.lruvec
    }

    /// Walks `memory` and ages, once.
    pub fn walk_and_age<M: Memory>(&mut self, memory: &mut M, now: Millis) {
        memory.walk(&mut self.lruvec);
        self.age(now);
    }

    /// Asserts every invariant. Costs a look at every page.
    ///
    /// # Panics
    /// When one does not hold.
    pub fn check_invariants(&self) {
        self.lruvec.check_invariants(self.swappiness());
        assert_eq!(
            self.memcg.usage(),
            self.resident_pages(),
            "usage is what is resident"
        );
        let anon_out = self.out_pages(FolioType::Anon);
        assert_eq!(self.memcg.swap_usage(), anon_out, "swap usage");
    }
}

/// Why an isolated page comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutBack {
    /// It was accessed.
    Referenced,
    /// It could not go now.
    Busy,
}
