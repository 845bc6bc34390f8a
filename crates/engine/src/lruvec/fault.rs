//! Pages that fault in or are accessed, with the lruvec's statistics of them.

use super::policy::Lru;
use super::{FaultKind, Lruvec};
use crate::folio::{FolioId, FolioType};
use crate::lru_gen::{LruGen, Profile};
use crate::vmstat::VmEvent;
use crate::word::{Flag, State, Word};
use crate::workingset::Refault;

impl Lruvec {
    /// Brings a page into memory. Returns what its shadow entry says about the refault. `None` if
    /// there was no shadow, or if the page was present already: then only its accessed bit is set.
    ///
    /// `has_recency`: the kernel's `vma_has_recency` of the mapping that faults. This decides
    /// whether the page starts active, and whether a refault counts as an activation. It is not
    /// stored, because another mapping of the page may have another value. The accessed bit of a
    /// page brought in stays clear: a simulator repeats the access, which sets the bit; an embedder
    /// with real page tables reads the bit from them at the next scan.
    ///
    /// `swap_available`: anon pages could be swapped out, so that they count as competitors of a
    /// refaulting page (classic policy only).
    ///
    /// # Panics
    /// When `id` is beyond what [`Self::ensure`] made valid.
    pub fn fault_in(
        &mut self,
        id: FolioId,
        ty: FolioType,
        kind: FaultKind,
        has_recency: bool,
        swap_available: bool,
    ) -> Option<Refault> {
        let old = self.folios.get(id);
        if old.is_present() {
            self.folios.touch(id);
            return None;
        }
        if old.state() == State::Shadow {
            self.out[old.shadow_type().index()] -= 1;
        }
        // The kernel's in_lru_fault is vma_has_recency of the mapping that faults.
        let is_fault = kind.is_fault();
        let in_lru_fault = kind.in_fault() && has_recency;
        // A shadow is ignored if the program has discarded the page since.
        let was_out = old.state() == State::Shadow && kind != FaultKind::FirstTouch;
        let shadow = was_out && old.has_shadow();
        self.note_page_in(id, old);
        let mut word = old
            .into_state(State::Listed)
            .with(Flag::File, ty == FolioType::File)
            .with(Flag::SwapCache, was_out && ty == FolioType::Anon)
            .with(
                Flag::Active,
                self.lru.starts_active(ty, is_fault, in_lru_fault),
            );
        let refault = shadow.then(|| self.lru.refault(old, ty, swap_available));
        if let Some(refault) = refault {
            word = self.account_refault(word, old, (ty, refault), in_lru_fault);
        }
        self.stat.add(VmEvent::Pgfault, u64::from(is_fault));
        self.stat
            .add(VmEvent::Pgmajfault, u64::from(is_fault && was_out));
        let swapped_in = was_out && ty == FolioType::Anon;
        self.stat.add(VmEvent::Pswpin, u64::from(swapped_in));
        self.lru.add(&mut self.folios, id, word);
        refault
    }

    /// Loads the words of pages that are about to fault in into the cache, many at a time, so that
    /// their faults need not wait for memory one by one. Changes nothing.
    pub fn expect(&self, ids: &[FolioId]) {
        self.folios.bring_near(ids.iter().copied());
    }

    /// Counts a refault; returns the page's word, with what a recent refault restores.
    /// spec: workingset.md 6, refault steps 2 to 6.
    fn account_refault(
        &mut self,
        word: Word,
        shadow: Word,
        (ty, refault): (FolioType, Refault),
        in_lru_fault: bool,
    ) -> Word {
        self.stat.add(VmEvent::refault(ty), 1);
        if !refault.recent {
            return word;
        }
        let profile = self.multi_gen().map(LruGen::profile);
        let only_faults = profile == Some(Profile::P616);
        let counts = in_lru_fault || !only_faults;
        self.stat.add(VmEvent::activate(ty), u64::from(counts));
        let (word, restored) = self.lru.restore(word, shadow, in_lru_fault);
        self.stat.add(VmEvent::restore(ty), u64::from(restored));
        word
    }

    /// Records an access through a file descriptor. Multi-gen LRU: it counts for the tier, never
    /// for the generation. Classic LRU: the second access activates the page.
    pub fn mark_accessed(&mut self, id: FolioId) {
        let word = self.folios.get(id);
        if !word.is_present() {
            return;
        }
        match &mut self.lru {
            Lru::MultiGen(lru) => self.folios.set(id, lru.accessed_word(word)),
            Lru::Classic(lru) => {
                if lru.mark_accessed(&mut self.folios, id) {
                    lru.bound_tombstones(&mut self.folios);
                    self.stat.add(VmEvent::Pgactivate, 1);
                }
            }
        }
    }

    /// Applies MADV_COLD: the program does not expect to use the page soon. No effect under the
    /// classic policy.
    pub fn deactivate(&mut self, id: FolioId) {
        let listed = self.folios.get(id).state() == State::Listed;
        let Some((lru, folios)) = self.multi_gen_mut().filter(|_| listed) else {
            return;
        };
        if lru.deactivate(folios, id) {
            lru.bound_tombstones(folios);
            self.stat.add(VmEvent::Pgdeactivate, 1);
        }
    }

    /// Sets or clears one of the flags that the embedder owns: dirty, writeback, swap cache,
    /// unevictable, executable. No effect on a page that is not present.
    pub fn set_flag(&mut self, id: FolioId, flag: Flag, on: bool) {
        let word = self.folios.get(id);
        let theirs = matches!(
            flag,
            Flag::Dirty | Flag::Writeback | Flag::SwapCache | Flag::Unevictable | Flag::Exec
        );
        if word.is_present() && theirs {
            self.folios.set(id, word.with(flag, on));
        }
    }
}
