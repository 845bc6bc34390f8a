//! Faults and accesses of pages, with the update of the lruvec's statistics.

use super::policy::Lru;
use super::{FaultKind, Lruvec};
use crate::folio::{FolioId, FolioType};
use crate::lru_gen::{LruGen, Profile};
use crate::vmstat::VmEvent;
use crate::word::{Flag, State, Word};
use crate::workingset::Refault;

impl Lruvec {
    /// Records that a page faulted in. Returns what its shadow entry says about the refault; `None`
    /// if it has no shadow. If the page was present already, only sets its accessed bit, and
    /// returns `None`.
    ///
    /// `has_recency` is the kernel's `vma_has_recency` for the mapping that faults. This decides
    /// whether the page starts active, and whether a refault counts as an activation. It is not
    /// stored, because another mapping of the page may have another value. The accessed bit of a
    /// page that faults in stays clear. A simulator repeats the access, which sets the bit; a host
    /// reads the bit from the page tables at the next scan.
    ///
    /// `swap_available`: whether anon pages can be swapped out, so that a refaulting page competes
    /// with them, too (classic policy only).
    ///
    /// # Panics
    /// When `id` is not below the number of ids that [`Self::ensure`] made valid.
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
        // As the kernel's in_lru_fault: a page fault through a mapping with recency.
        let is_fault = kind.is_fault();
        let in_lru_fault = kind.in_fault() && has_recency;
        // A first touch ignores the shadow: the program has discarded the page since.
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

    /// Prefetches the words of pages that are about to fault in into the processor's cache. So
    /// their faults do not wait for memory one by one. Changes nothing.
    pub fn expect(&self, ids: &[FolioId]) {
        self.folios.prefetch(ids.iter().copied());
    }

    /// Counts a refault. Returns the page's word with the flags that a recent refault restores.
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

    /// Records an access through a file descriptor. With the multi-gen LRU, it counts for the
    /// page's tier, never for its generation. With the classic LRU, the second access activates the
    /// page.
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

    /// Applies MADV_COLD, by which a program declares that it will not use the page soon. Has no
    /// effect under the classic policy.
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
    /// unevictable, executable. Has no effect on other flags, nor on a page that is not present.
    pub fn set_flag(&mut self, id: FolioId, flag: Flag, on: bool) {
        let word = self.folios.get(id);
        let is_settable = matches!(
            flag,
            Flag::Dirty | Flag::Writeback | Flag::SwapCache | Flag::Unevictable | Flag::Exec
        );
        if word.is_present() && is_settable {
            self.folios.set(id, word.with(flag, on));
        }
    }
}
