//! Putting pages on the lists and taking them off. spec: lru-gen.md 4.

use super::{LruGen, MAX_NR_GENS, MIN_NR_GENS, Profile, list_of, refs, slot_of};
use crate::folio::{FolioId, FolioTable, FolioType};
use crate::list::End;
use crate::word::{Flag, State, Word};
use core::ops::Range;

/// Why a page is inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insertion {
    /// A new page, a page read back from swap or file, or an isolated page put back.
    Normal,
    /// The page's writeback has ended: it is evicted next.
    Reclaiming,
}

impl LruGen {
    /// Returns the generation in which a page with the flags of `word` starts.
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

    /// Inserts `id` and stores `word`, which must be in state Listed; its flags decide the
    /// generation.
    pub(crate) fn add(&mut self, folios: &mut FolioTable, id: FolioId, word: Word, how: Insertion) {
        let seq = self.start_seq(word, how);
        let slot = slot_of(seq);
        let word = word.with(Flag::Active, false).with_generation(slot);
        let end = if how == Insertion::Reclaiming {
            End::Tail
        } else {
            End::Head
        };
        self.lists
            .push(folios, Self::list_of(word), (id, word), end);
        self.count(slot, word, 1);
    }

    /// Removes a listed page and stores `next` as its state: the program unmapped it, or it is
    /// unevictable. `eager`: search the list's head for its entry, as it was added only just now.
    pub(crate) fn del(&mut self, folios: &mut FolioTable, id: FolioId, next: State, eager: bool) {
        let word = folios.get(id);
        self.count(word.generation(), word, -1);
        if next == State::OffList {
            folios.set(id, self.off_list_flags(word));
        }
        let hint = eager.then_some(Self::list_of(word));
        self.lists.remove(folios, id, next, hint);
    }

    /// Returns the index of the list where the page of `word` is.
    #[inline]
    pub(crate) const fn list_of(word: Word) -> usize {
        list_of(word.generation(), word.folio_type(), word.node())
    }

    /// Removes the pages `run`, all of one generation, type and node, and updates their count once.
    pub(crate) fn del_run(&mut self, folios: &mut FolioTable, run: Range<u32>, eager: bool) {
        let word = folios.get(FolioId(run.start));
        let nr = i64::from(run.end - run.start);
        self.count(word.generation(), word, -nr);
        let hint = eager.then_some(Self::list_of(word));
        self.lists.remove_run(folios, run, hint);
    }

    /// Moves the listed page `from` to the id `to`, in the same generation; no size changes.
    pub(crate) fn rename(&mut self, folios: &mut FolioTable, from: FolioId, to: FolioId) {
        let list = Self::list_of(folios.get(from));
        self.lists.rename(folios, list, (from, to));
    }

    /// Returns the word of a page taken off its list, but not by reclaim: flag Active is set if the
    /// page was in one of the two youngest generations, so that it returns about as young as it
    /// was.
    fn off_list_flags(&self, word: Word) -> Word {
        let seq = self.seq_of(word.generation(), word.folio_type());
        word.with(Flag::Active, seq + 1 >= self.max_seq)
    }

    /// Moves a page whose writeback has ended to the tail of the oldest generation.
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

    /// Applies MADV_COLD: clears the page's references, and inserts the page anew unless it is in
    /// the oldest generation. Returns whether the page was inserted anew.
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

    /// Moves a listed page that look-around found in use to the head of the youngest generation.
    /// P616: only if the page was found in use before. Returns whether the page moved.
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

    /// Drops the entries of removed pages when there are too many.
    pub(crate) fn bound_tombstones(&mut self, folios: &mut FolioTable) {
        self.lists.bound_tombstones(folios);
    }

    /// Drops the entries of all removed pages.
    pub(crate) fn sweep(&mut self, folios: &mut FolioTable) {
        self.lists.sweep(folios);
    }
}

/// Whether a new page starts in the second youngest generation: anon outside the swap cache, or a
/// page marked for reclaim that is still being written.
fn is_second_youngest(word: Word) -> bool {
    let fresh_anon = word.folio_type() == FolioType::Anon && !word.has(Flag::SwapCache);
    let being_written = word.has(Flag::Dirty) || word.has(Flag::Writeback);
    fresh_anon || (word.has(Flag::Reclaim) && being_written)
}
