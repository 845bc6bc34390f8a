//! Aging: promotes the pages that a walk found young, and opens the next generation.
//! spec: lru-gen.md 3 (update_gen), 5.
//!
//! Invariant: a page's generation changes in its word and in the counts together. If several
//! callers saw the same youngest generation, only the first of them opens the next one.

use super::{LruGen, MAX_NR_GENS, MIN_NR_GENS, Profile, evictable, list_of, refs, slot_of};
use crate::folio::{FolioId, FolioTable, FolioType};
use crate::list::End;
use crate::units::{Millis, Swappiness};
use crate::word::{NodeId, State, Word};

impl LruGen {
    /// Records that a walk found `id` young. Under [`Profile::P616`] the first such record only
    /// sets PG_referenced. A later one moves the page to the youngest generation, in its word and
    /// in the counts; its list entry does not move.
    #[inline]
    pub(crate) fn update_gen(&mut self, folios: &mut FolioTable, id: FolioId) {
        let word = folios.get(id);
        if word.state() == State::Listed {
            let word = self.young_word(word);
            folios.set(id, word);
        }
    }

    #[inline]
    fn young_word(&mut self, word: Word) -> Word {
        if let Some(marked) = refs::first_time(self.profile, word) {
            return marked;
        }
        let (old, new) = (word.generation(), slot_of(self.max_seq));
        if old != new {
            self.count(old, word, -1);
            self.count(new, word, 1);
        }
        refs::promoted(self.profile, word).with_generation(new)
    }

    /// Clears all accessed bits, and promotes each page that had one, as [`Self::update_gen`] does.
    /// A page for which `has_recency` is false (the kernel's `vma_has_recency`) keeps its bit and
    /// is not promoted. Returns the number of pages found young.
    pub(crate) fn walk_accessed(
        &mut self,
        folios: &mut FolioTable,
        has_recency: impl Fn(FolioId) -> bool,
    ) -> u64 {
        let mut young = 0;
        folios.for_accessed(|id, word| {
            if word.state() != State::Listed || !has_recency(id) {
                return None;
            }
            young += 1;
            Some(self.young_word(word))
        });
        young
    }

    /// Claims the walk that precedes `inc_max_seq(seq)`; returns false if another caller has
    /// claimed it.
    pub(crate) const fn begin_walk(&mut self, seq: u64) -> bool {
        if seq <= self.walk_seq {
            return false;
        }
        self.walk_seq = seq;
        true
    }

    /// Opens generation `seq + 1`, born `now`; returns false if `seq` is not the youngest any more.
    ///
    /// # Panics
    /// When `seq` is larger than `max_seq`: that generation does not exist yet.
    pub(crate) fn inc_max_seq(
        &mut self,
        folios: &mut FolioTable,
        seq: u64,
        swappiness: Swappiness,
        now: Millis,
    ) -> bool {
        assert!(
            seq <= self.max_seq,
            "seq {seq} is from the future of {}",
            self.max_seq
        );
        if seq < self.max_seq {
            return false;
        }
        self.note_swappiness(swappiness);
        for ty in FolioType::ALL {
            if self.nr_gens(ty) == MAX_NR_GENS {
                self.inc_min_seq(folios, ty, swappiness);
            }
        }
        let next = slot_of(self.max_seq + 1);
        self.timestamps[next] = now.max(self.birth(self.max_seq));
        self.max_seq += 1;
        self.walk_seq = self.walk_seq.max(seq);
        true
    }

    /// Ends the oldest generation of `ty`: its pages move, one by one from the tail, to the tail of
    /// the next generation. If `swappiness` forbids eviction of `ty`, they stay on their list.
    fn inc_min_seq(&mut self, folios: &mut FolioTable, ty: FolioType, swappiness: Swappiness) {
        if swappiness.may_evict(ty) {
            for node in self.nodes() {
                self.end_list(folios, ty, node);
            }
        }
        self.carry_over(ty);
        self.min_seq[ty.index()] += 1;
    }

    /// Moves the pages of one list of the oldest generation to the next generation.
    fn end_list(&mut self, folios: &mut FolioTable, ty: FolioType, node: NodeId) {
        let oldest = self.min_seq(ty);
        let list = list_of(slot_of(oldest), ty, node);
        while let Some((id, word)) = self.lists.pop(folios, list) {
            let moved = self.inc_gen(word, oldest);
            // Before Linux v6.14 only eviction counts pages as protected, not aging.
            let counts_as_protected = self.profile == Profile::P616
                && !refs::is_saturated(self.profile, word)
                && self.may_count_aged();
            if counts_as_protected {
                self.protect(word);
            }
            self.lists
                .push(folios, Self::list_of(moved), (id, moved), End::Tail);
        }
    }

    /// Moves a page of the generation `oldest` to the next generation; a page that a walk has
    /// promoted keeps its generation. Returns the new word.
    pub(super) fn inc_gen(&mut self, word: Word, oldest: u64) -> Word {
        if word.generation() != slot_of(oldest) {
            return word;
        }
        let next = slot_of(oldest + 1);
        self.count(slot_of(oldest), word, -1);
        self.count(next, word, 1);
        refs::cleared(self.profile, word).with_generation(next)
    }

    pub(super) fn protect(&mut self, word: Word) {
        let tier = refs::tier_of(self.profile, word);
        if self.profile == Profile::P616 || tier > 0 {
            self.controller.on_protected(word.folio_type(), tier);
        }
    }

    /// Advances `min_seq` past empty generations, and limits the difference between the two types.
    /// Returns whether a `min_seq` changed.
    pub(crate) fn try_to_inc_min_seq(
        &mut self,
        folios: &mut FolioTable,
        swappiness: Swappiness,
    ) -> bool {
        self.note_swappiness(swappiness);
        let mut min_seq = self.min_seq;
        for ty in evictable(swappiness) {
            let seq = &mut min_seq[ty.index()];
            while *seq + MIN_NR_GENS <= self.max_seq && self.is_ended(folios, *seq, ty) {
                *seq += 1;
            }
        }
        self.align(&mut min_seq, swappiness);
        let mut moved = false;
        for ty in evictable(swappiness) {
            if min_seq[ty.index()] > self.min_seq(ty) {
                self.min_seq[ty.index()] = min_seq[ty.index()];
                self.carry_over(ty);
                moved = true;
            }
        }
        moved
    }

    /// Limits the difference between the two `min_seq`: a type whose `min_seq` stays far behind
    /// would block aging.
    /// spec: lru-gen.md 5.4.
    fn align(&self, min_seq: &mut [u64; 2], swappiness: Swappiness) {
        if swappiness == Swappiness::FILE_ONLY || swappiness == Swappiness::ANON_ONLY {
            return;
        }
        let [anon, file] = *min_seq;
        match self.profile {
            Profile::P616 => {
                let s = self.max_seq.saturating_sub(MIN_NR_GENS);
                if anon > s && file < s {
                    min_seq[0] = s;
                } else if file > s && anon < s {
                    min_seq[1] = s;
                }
            }
            Profile::P63 | Profile::P612 => {
                min_seq[0] = anon.min(file);
                min_seq[1] = min_seq[0].max(self.min_seq(FolioType::File));
            }
        }
    }
}
