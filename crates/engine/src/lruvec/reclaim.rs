//! Isolation of pages, and their eviction or putting back, with the update of the lruvec's
//! statistics.
//!
//! Invariant: `off_list` counts the pages that are present and on no list.

use super::Lruvec;
use crate::folio::{FolioId, FolioType};
use crate::lru_gen::{DEF_PRIORITY, IsolateBudget, Isolated};
use crate::units::{Pages, Swappiness};
use crate::vmstat::{ScanReason, VmEvent};
use crate::word::{Flag, State};
use alloc::vec::Vec;

impl Lruvec {
    /// Isolates a batch of pages into `out`. If `scanned` of the result is 0, the caller should
    /// age.
    pub fn isolate(
        &mut self,
        reason: ScanReason,
        swappiness: Swappiness,
        budget: IsolateBudget,
        out: &mut Vec<FolioId>,
    ) -> Isolated {
        let before = out.len();
        let Some((lru, folios)) = self.multi_gen_mut() else {
            return self.isolate_classic(reason, swappiness, budget, out);
        };
        let done = lru.isolate(folios, swappiness, budget, out);
        self.account_scan(reason, out.len() - before, done)
    }

    /// Isolates a batch from the classic lists, which need no aging: scans with rising pressure
    /// until a page is isolated.
    fn isolate_classic(
        &mut self,
        reason: ScanReason,
        swappiness: Swappiness,
        budget: IsolateBudget,
        out: &mut Vec<FolioId>,
    ) -> Isolated {
        let (before, mut scanned) = (out.len(), 0);
        // The last priority is tried twice: the second pass can isolate pages that the first has
        // deactivated.
        for priority in (0..=DEF_PRIORITY).rev().chain([0]) {
            let Some(lru) = self.classic_mut() else { break };
            let (targets, deactivate) = lru.pass_targets(swappiness, priority);
            for ty in FolioType::ALL {
                let [inactive, active] = targets[ty.index()];
                let remaining = (budget.isolate + before - out.len()) as u64;
                scanned += self.isolate_inactive(reason, ty, inactive.min(remaining), out);
                if deactivate[ty.index()] {
                    self.shrink_active(ty, active);
                }
            }
            if out.len() > before {
                break;
            }
        }
        let isolated = out.len() - before;
        // If even the last pass isolated nothing, another call would not, either.
        let scanned = if isolated > 0 { scanned } else { 0 };
        Isolated {
            isolated,
            scanned: usize::try_from(scanned).unwrap_or(usize::MAX),
            ..Isolated::default()
        }
    }

    /// Counts an isolation in the statistics. As in the kernel, only isolated pages count as
    /// scanned (pgscan); pages that were moved to another list count as pgrefill.
    pub(super) fn account_scan(
        &mut self,
        reason: ScanReason,
        isolated: usize,
        done: Isolated,
    ) -> Isolated {
        if let Some(ty) = done.ty {
            self.stat.scanned(reason, ty, isolated as u64);
            self.off_list[ty.index()] += isolated as u64;
        }
        self.stat.add(VmEvent::Pgrefill, done.sorted as u64);
        for ty in FolioType::ALL {
            self.off_list[ty.index()] += done.unevictable[ty.index()] as u64;
        }
        self.lru.bound_tombstones(&mut self.folios);
        done
    }

    /// Puts back an isolated page that could not be evicted. Returns false, and does nothing, if
    /// the page is not isolated any more, because its program removed it.
    pub fn put_back(&mut self, id: FolioId, referenced: bool) -> bool {
        let word = self.folios.get(id);
        if word.state() != State::OffList {
            return false;
        }
        self.off_list[word.folio_type().index()] -= 1;
        if self.lru.put_back(&mut self.folios, id, referenced) {
            self.stat.add(VmEvent::Pgactivate, 1);
        }
        true
    }

    /// Puts an isolated page that is too young for a reclaim by age back to its place. Has no
    /// effect on a page that is not isolated.
    pub(crate) fn put_back_too_young(&mut self, id: FolioId) {
        let word = self.folios.get(id);
        if word.state() != State::OffList {
            return;
        }
        self.off_list[word.folio_type().index()] -= 1;
        if self.lru.put_back_too_young(&mut self.folios, id) {
            self.stat.add(VmEvent::Pgactivate, 1);
        }
    }

    /// Makes an unevictable page that was taken off the lists evictable again, and puts it back on
    /// a list. Has no effect on any other page.
    pub fn rescue(&mut self, id: FolioId) {
        let word = self.folios.get(id);
        if word.state() == State::OffList && word.has(Flag::Unevictable) {
            self.folios.set(id, word.with(Flag::Unevictable, false));
            self.put_back(id, true);
        }
    }

    /// Clears the page's accessed bit and returns whether it was set. The caller has checked that
    /// the page's mapping has recency.
    pub(crate) fn take_accessed(&mut self, id: FolioId) -> bool {
        self.folios.take_accessed(id)
    }

    /// Records that an isolated page was evicted, and stores its shadow. Returns false, and does
    /// nothing, when the page is not isolated.
    pub fn evicted(&mut self, id: FolioId, reason: ScanReason) -> bool {
        self.evicted_all(&[id], reason) != [Pages(0); 2]
    }

    /// Calls [`Self::evicted`] for a batch, in order; returns the numbers of pages evicted, `[anon,
    /// file]`.
    pub fn evicted_all(&mut self, ids: &[FolioId], reason: ScanReason) -> [Pages; 2] {
        let mut counts = [0; 2];
        for &id in ids {
            let word = self.folios.get(id);
            if word.state() == State::OffList {
                counts[word.folio_type().index()] += 1;
                self.lru.evicted(&mut self.folios, id);
                self.note_evicted(id);
            }
        }
        for ty in FolioType::ALL {
            let nr = counts[ty.index()];
            self.off_list[ty.index()] -= nr;
            self.out[ty.index()] += nr;
            self.stat.stolen(reason, ty, nr);
        }
        let anon = counts[FolioType::Anon.index()];
        self.stat.add(VmEvent::Pswpout, anon);
        counts.map(Pages)
    }

    /// Records that the kernel's own reclaim swapped a page out. The page gets a shadow as if the
    /// engine had evicted it, but counts as taken by the kernel. Returns the page's type; `None` if
    /// the page was not present.
    pub fn left(&mut self, id: FolioId) -> Option<FolioType> {
        let word = self.folios.get(id);
        let ty = word.folio_type();
        match word.state() {
            State::Absent | State::Shadow => return None,
            State::Listed => self.lru.take_off(&mut self.folios, id),
            State::OffList => self.off_list[ty.index()] -= 1,
        }
        self.lru.evicted(&mut self.folios, id);
        self.note_evicted(id);
        self.lru.bound_tombstones(&mut self.folios);
        self.out[ty.index()] += 1;
        let swapped = u64::from(ty == FolioType::Anon);
        self.stat.add(VmEvent::Pswpout, swapped);
        self.stat.add(VmEvent::PgstealKernel, 1);
        Some(ty)
    }
}
