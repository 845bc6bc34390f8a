//! Putting pages on the lists and taking them off. spec: lru-gen.md 4.

use super::{LruGen, MAX_NR_GENS, MIN_NR_GENS, Profile, list_of, refs, slot_of};
use crate::folio::{FolioId, FolioTable, FolioType};
use crate::list::End;
use crate::word::{Flag, State, Word};
use core::ops::Range;

/// Why a page is inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insertion {
    /// New, back from the store, or put back after isolation.
    Normal,
    /// Rotated because its writeback ended: next to go.
    Reclaiming,
}

impl LruGen {
    /// The generation that a page with these flags starts in.
    #[must_use]
    pub fn start_seq(&self, word: Word, how: Insertion) -> u64 {
        match self.profile {
            Profile::P616 => self.start_p616(word, how),
            Profile::P612 => self.start_p612(word, how),
            Profile::P63 => self.start_p63(word),
        }
    }

    fn start_p616(&self, word: Word, how: Insertion) -> u64 {
        let workingset = word.has(Flag::Workingset);
        let g = match how {
            _ if word.has(Flag::Active) && workingset => MIN_NR_GENS - 1,
            _ if word.has(Flag::Active) => MIN_NR_GENS,
            Insertion::Reclaiming => MAX_NR_GENS,
            Insertion::Normal if is_second_youngest(word) => MIN_NR_GENS,
            Insertion::Normal if workingset => MAX_NR_GENS - 1,
            Insertion::Normal => MAX_NR_GENS,
        };
        (self.max_seq + 1)
            .saturating_sub(g)
            .max(self.min_seq(word.folio_type()))
    }

    /// spec: lru-gen.md 4, v6.7 to v6.13.
    fn start_p612(&self, word: Word, how: Insertion) -> u64 {
        let min_seq = self.min_seq(word.folio_type());
        if word.has(Flag::Active) {
            self.max_seq
        } else if how == Insertion::Normal && is_second_youngest(word) {
            self.max_seq - 1
        } else if how == Insertion::Reclaiming || min_seq + MIN_NR_GENS >= self.max_seq {
            min_seq
        } else {
            min_seq + 1
        }
    }

    fn start_p63(&self, word: Word) -> u64 {
        let min_seq = self.min_seq(word.folio_type());
        if word.has(Flag::Active) {
            self.max_seq
        } else if is_second_youngest(word) {
            min_seq + 1
        } else {
            min_seq
        }
    }

    /// Inserts `id`. `word` is its word in its former state, with the flags that decide the place.
    pub(crate) fn add(&mut self, folios: &mut FolioTable, id: FolioId, word: Word, how: Insertion) {
        let seq = self.start_seq(word, how);
        let (slot, ty) = (slot_of(seq), word.folio_type());
        let word = word.with(Flag::Active, false).with_generation(slot);
        let end = if how == Insertion::Reclaiming {
            End::Tail
        } else {
            End::Head
        };
        self.lists.push(folios, list_of(slot, ty), (id, word), end);
        self.count(slot, ty, 1);
    }

    /// Takes a listed page off for good (unmapped by its program) or as unevictable.
    pub(crate) fn del(&mut self, folios: &mut FolioTable, id: FolioId, next: State, eager: bool) {
        let word = folios.get(id);
        let (slot, ty) = (word.generation(), word.folio_type());
        self.count(slot, ty, -1);
        if next == State::OffList {
            folios.set(id, self.off_list_flags(word));
        }
        let hint = eager.then_some(list_of(slot, ty));
        self.lists.remove(folios, id, next, hint);
    }

    /// The number of the list where a listed page is.
    #[inline]
    pub(crate) const fn list_of(word: Word) -> usize {
        list_of(word.generation(), word.folio_type())
    }

    /// Takes listed pages of one generation and type off for good, with one update of its size.
    pub(crate) fn del_run(&mut self, folios: &mut FolioTable, run: Range<u32>, eager: bool) {
        let word = folios.get(FolioId(run.start));
        let nr = i64::from(run.end - run.start);
        self.count(word.generation(), word.folio_type(), -nr);
        let hint = eager.then_some(Self::list_of(word));
        self.lists.remove_run(folios, run, hint);
    }

    /// A listed page is known by another id from now on, in the same generation; no size changes.
    pub(crate) fn rename(&mut self, folios: &mut FolioTable, from: FolioId, to: FolioId) {
        let list = Self::list_of(folios.get(from));
        self.lists.rename(folios, list, (from, to));
    }

    /// A page taken off for something else than reclaim comes back as young as it left.
    fn off_list_flags(&self, word: Word) -> Word {
        let seq = self.seq_of(word.generation(), word.folio_type());
        word.with(Flag::Active, seq + 1 >= self.max_seq)
    }

    /// Writeback has ended: the page goes to the tail of the oldest generation.
    pub(crate) fn rotate_reclaimable(&mut self, folios: &mut FolioTable, id: FolioId) {
        self.del(folios, id, State::OffList, false);
        let word = folios
            .get(id)
            .with(Flag::Active, false)
            .with(Flag::Reclaim, false);
        self.add(
            folios,
            id,
            word.into_state(State::Listed),
            Insertion::Reclaiming,
        );
    }

    /// MADV_COLD: its references are forgotten, and unless it is in the oldest generation already
    /// it is inserted anew, as a page that nobody has asked for. False when there was no move.
    pub(crate) fn deactivate(&mut self, folios: &mut FolioTable, id: FolioId) -> bool {
        let word = refs::clear_refs(folios.get(id));
        folios.take_accessed(id);
        folios.set(id, word);
        if word.generation() == slot_of(self.min_seq(word.folio_type())) {
            return false;
        }
        self.del(folios, id, State::OffList, true);
        let word = folios
            .get(id)
            .with(Flag::Active, false)
            .into_state(State::Listed);
        self.add(folios, id, word, Insertion::Normal);
        true
    }

    /// Looking around found a listed page in use: it goes to the head of the youngest generation (P616: when it was known
    /// to be in use before). False when there was no move.
    pub(crate) fn activate(&mut self, folios: &mut FolioTable, id: FolioId) -> bool {
        let word = folios.get(id);
        let (marked, activate) = refs::set_refs(self.profile, word);
        if !activate || word.generation() == slot_of(self.max_seq) {
            if self.profile == Profile::P616 {
                folios.set(id, marked);
            }
            return false;
        }
        self.del(folios, id, State::OffList, true);
        let (word, _) = refs::set_refs(self.profile, folios.get(id));
        let word = word.with(Flag::Active, true).into_state(State::Listed);
        self.add(folios, id, word, Insertion::Normal);
        true
    }

    /// Sweeps removed pages when there are too many of them.
    pub(crate) fn bound_tombstones(&mut self, folios: &mut FolioTable) {
        self.lists.bound_tombstones(folios);
    }

    /// Drops the entries of pages that have gone.
    pub(crate) fn sweep(&mut self, folios: &mut FolioTable) {
        self.lists.sweep(folios);
    }
}

/// Anon that is not in the swap cache is second chance enough; so is what is still being written.
fn is_second_youngest(word: Word) -> bool {
    let fresh_anon = word.folio_type() == FolioType::Anon && !word.has(Flag::SwapCache);
    let being_written = word.has(Flag::Dirty) || word.has(Flag::Writeback);
    fresh_anon || (word.has(Flag::Reclaim) && being_written)
}
