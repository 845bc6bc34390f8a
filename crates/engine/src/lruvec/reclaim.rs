//! Isolation and what becomes of isolated pages, with their accounts.
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
    /// Isolates a batch; see [`Isolated`]. `scanned == 0` asks for aging.
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

    /// The classic LRU needs no aging: it tries harder until something comes, or nothing is left.
    fn isolate_classic(
        &mut self,
        reason: ScanReason,
        swappiness: Swappiness,
        budget: IsolateBudget,
        out: &mut Vec<FolioId>,
    ) -> Isolated {
        let (before, mut scanned) = (out.len(), 0);
        // Once more at the last priority: what is deactivated there can go in the pass after it.
        for priority in (0..=DEF_PRIORITY).rev().chain([0]) {
            let Some(lru) = self.classic_mut() else { break };
            let (targets, deactivate) = lru.pass_targets(swappiness, priority);
            for ty in FolioType::ALL {
                let [inactive, active] = targets[ty.index()];
                let room = (budget.isolate + before - out.len()) as u64;
                scanned += self.isolate_inactive(reason, ty, inactive.min(room), out);
                if deactivate[ty.index()] {
                    self.shrink_active(ty, active);
                }
            }
            if out.len() > before {
                break;
            }
        }
        let isolated = out.len() - before;
        // Even the last pass found nothing that can go: whoever asks again gets no more.
        let scanned = if isolated > 0 { scanned } else { 0 };
        Isolated {
            isolated,
            scanned: usize::try_from(scanned).unwrap_or(usize::MAX),
            ..Isolated::default()
        }
    }

    /// As the kernel, only what is taken off the lists counts as scanned, and what went elsewhere as refilled.
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

    /// An isolated page could not be evicted. False when the page is not isolated (its program
    /// removed it meanwhile): nothing is done then.
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

    /// An isolated page is too young for a reclaim by age: it stays where it was. No effect on any other.
    pub(crate) fn stay(&mut self, id: FolioId) {
        let word = self.folios.get(id);
        if word.state() != State::OffList {
            return;
        }
        self.off_list[word.folio_type().index()] -= 1;
        if self.lru.stay(&mut self.folios, id) {
            self.stat.add(VmEvent::Pgactivate, 1);
        }
    }

    /// A page that went off the lists because it could not leave is to be tried again. No effect on any other.
    pub fn rescue(&mut self, id: FolioId) {
        let word = self.folios.get(id);
        if word.state() == State::OffList && word.has(Flag::Unevictable) {
            self.folios.set(id, word.with(Flag::Unevictable, false));
            self.put_back(id, true);
        }
    }

    /// Clears the page's accessed bit and says whether it was set; whose mapping's it is, is for the caller
    /// to ask before.
    pub(crate) fn take_accessed(&mut self, id: FolioId) -> bool {
        self.folios.take_accessed(id)
    }

    /// An isolated page has left; its shadow stays. False as in [`Self::put_back`].
    pub fn evicted(&mut self, id: FolioId, reason: ScanReason) -> bool {
        self.evicted_all(&[id], reason) != [Pages(0); 2]
    }

    /// [`Self::evicted`] for a whole batch, in order; returns how many left, by type.
    pub fn evicted_all(&mut self, ids: &[FolioId], reason: ScanReason) -> [Pages; 2] {
        let mut left = [0; 2];
        for &id in ids {
            let word = self.folios.get(id);
            if word.state() == State::OffList {
                left[word.folio_type().index()] += 1;
                self.lru.evicted(&mut self.folios, id);
                self.note_evicted(id);
            }
        }
        for ty in FolioType::ALL {
            let nr = left[ty.index()];
            self.off_list[ty.index()] -= nr;
            self.out[ty.index()] += nr;
            self.stat.stolen(reason, ty, nr);
        }
        let anon = left[FolioType::Anon.index()];
        self.stat.add(VmEvent::Pswpout, anon);
        left.map(Pages)
    }

    /// A page has left by another's hand: the kernel's own reclaim swapped it out. It becomes a shadow
    /// as if it had been evicted, and is not counted as stolen but as the kernel's. Its type; `None` when it was not there.
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
