//! Insertion and removal of pages of the multi-gen LRU: in which generation a page starts, and how
//! it leaves its list.
//! spec: lru-gen.md 4.

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
    /// The writeback of the page has ended: the page is placed where it is evicted next.
    Reclaiming,
}

impl LruGen {
    /// Returns the generation in which a page with the flags of `word` starts.
    #[must_use]
    pub fn start_seq(&self, word: Word, insertion: Insertion) -> u64 {
        match self.profile {
            Profile::P616 => self.start_p616(word, insertion),
            Profile::P612 => self.start_p612(word, insertion),
            Profile::P63 => self.start_p63(word),
        }
    }

    fn start_p616(&self, word: Word, insertion: Insertion) -> u64 {
        let workingset = word.has(Flag::Workingset);
        let g = match insertion {
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

    /// Returns the start generation by the rules of Linux v6.7 to v6.13.
    /// spec: lru-gen.md 4.
    fn start_p612(&self, word: Word, insertion: Insertion) -> u64 {
        let min_seq = self.min_seq(word.folio_type());
        if word.has(Flag::Active) {
            self.max_seq
        } else if insertion == Insertion::Normal && is_second_youngest(word) {
            self.max_seq - 1
        } else if insertion == Insertion::Reclaiming || min_seq + MIN_NR_GENS >= self.max_seq {
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

    /// Inserts the page `id` and stores its `word`, which must be in state Listed. The word's flags
    /// decide the generation.
    pub(crate) fn add(
        &mut self,
        folios: &mut FolioTable,
        id: FolioId,
        word: Word,
        insertion: Insertion,
    ) {
        let seq = self.start_seq(word, insertion);
        let slot = slot_of(seq);
        let word = word.with(Flag::Active, false).with_generation(slot);
        let end = if insertion == Insertion::Reclaiming {
            End::Tail
        } else {
            End::Head
        };
        self.lists
            .push(folios, Self::list_of(word), (id, word), end);
        self.count(slot, word, 1);
    }

    /// Removes a listed page and stores `next` as its state: the program unmapped the page, or it
    /// is unevictable. `eager`: search the page's entry near the head of its list, because it was
    /// added recently.
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

    /// Removes the pages `run`, which all have one generation, type and node, and updates their
    /// count once.
    pub(crate) fn del_run(&mut self, folios: &mut FolioTable, run: Range<u32>, eager: bool) {
        let word = folios.get(FolioId(run.start));
        let nr = i64::from(run.end - run.start);
        self.count(word.generation(), word, -nr);
        let hint = eager.then_some(Self::list_of(word));
        self.lists.remove_run(folios, run, hint);
    }

    /// Gives the listed page `from` the id `to`; its generation and all counts stay.
    pub(crate) fn rename(&mut self, folios: &mut FolioTable, from: FolioId, to: FolioId) {
        let list = Self::list_of(folios.get(from));
        self.lists.rename(folios, list, (from, to));
    }

    /// Returns the word of a page that is taken off its list, but not by reclaim. The flag Active
    /// is set if the page was in one of the two youngest generations, so that it is about as young
    /// when it is inserted again.
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

    /// Applies MADV_COLD: clears the page's references and, unless the page is in the oldest
    /// generation, inserts it again as a new page. Returns whether it was inserted.
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

    /// Moves a listed page that look-around found accessed to the head of the youngest generation;
    /// under [`Profile::P616`] only if it was found accessed before. Returns whether the page
    /// moved.
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

    /// Drops the list entries of removed pages if there are too many of them.
    pub(crate) fn bound_tombstones(&mut self, folios: &mut FolioTable) {
        self.lists.bound_tombstones(folios);
    }

    /// Drops the list entries of all removed pages.
    pub(crate) fn sweep(&mut self, folios: &mut FolioTable) {
        self.lists.sweep(folios);
    }
}

/// Whether a new page starts in the second youngest generation: an anon page that is not in the
/// swap cache, or a page marked for reclaim that is still being written.
fn is_second_youngest(word: Word) -> bool {
    let fresh_anon = word.folio_type() == FolioType::Anon && !word.has(Flag::SwapCache);
    let being_written = word.has(Flag::Dirty) || word.has(Flag::Writeback);
    fresh_anon || (word.has(Flag::Reclaim) && being_written)
}
