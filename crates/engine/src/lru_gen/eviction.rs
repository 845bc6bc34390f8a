//! Isolation: taking the coldest pages off the lists, batch by batch. spec: lru-gen.md 6.
//!
//! Invariant: isolated pages are off every list and uncounted here, but still present: the embedder pages
//! them out and then says for each whether it left (refault.rs) or comes back ([`LruGen::put_back`]).

use super::{LruGen, MAX_LRU_BATCH, MIN_LRU_BATCH, MIN_NR_GENS, Profile, list_of, refs, slot_of};
use crate::folio::{FolioId, FolioTable, FolioType};
use crate::list::{AHEAD, End};
use crate::lru_gen::insert::Insertion;
use crate::units::Swappiness;
use crate::word::{Flag, State, Word};
use alloc::vec::Vec;

/// How much one isolation may do.
#[derive(Clone, Copy, Debug)]
pub struct IsolateBudget {
    /// Stop when this many are isolated.
    pub isolate: usize,
    /// Stop when this many have been looked at.
    pub look: usize,
    /// I/O is allowed; without it only clean file pages and swap-cached anon can go.
    pub may_io: bool,
}

impl Default for IsolateBudget {
    fn default() -> Self {
        Self {
            isolate: MIN_LRU_BATCH,
            look: MAX_LRU_BATCH,
            may_io: true,
        }
    }
}

impl IsolateBudget {
    /// At most `nr` pages.
    #[must_use]
    pub fn of(nr: usize) -> Self {
        Self {
            isolate: nr,
            look: MAX_LRU_BATCH.max(nr),
            may_io: true,
        }
    }

    /// At most `nr` pages, and no more than the kernel takes at a time.
    #[must_use]
    pub fn up_to(nr: usize) -> Self {
        Self {
            isolate: nr.min(MIN_LRU_BATCH),
            ..Self::default()
        }
    }
}

/// What one isolation did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Isolated {
    /// Pages added to the batch.
    pub isolated: usize,
    /// Pages looked at; 0 means that the caller should age before it tries again.
    pub scanned: usize,
    /// Pages looked at that went elsewhere instead: promoted before, protected, being written, unevictable. The
    /// kernel counts them as pgrefill, though nothing is refilled.
    pub sorted: usize,
    /// Pages by type that were found unevictable and taken off their list.
    pub unevictable: [usize; 2],
    /// Their type.
    pub ty: Option<FolioType>,
}

impl Isolated {
    /// Adds another step; `scanned` stays 0 only if nothing was scanned in any.
    pub fn add(&mut self, other: Self) {
        self.isolated += other.isolated;
        self.scanned += other.scanned;
        self.sorted += other.sorted;
        self.unevictable[0] += other.unevictable[0];
        self.unevictable[1] += other.unevictable[1];
        self.ty = other.ty.or(self.ty);
    }
}

/// What to do with the page at the tail.
pub(super) enum Sorted {
    Unevictable(Word),
    Elsewhere(Word),
    Isolate(Word),
    Skip(Word),
}

impl Sorted {
    fn map(self, f: impl FnOnce(Word) -> Word) -> Self {
        match self {
            Self::Unevictable(word) => Self::Unevictable(f(word)),
            Self::Elsewhere(word) => Self::Elsewhere(f(word)),
            Self::Isolate(word) => Self::Isolate(f(word)),
            Self::Skip(word) => Self::Skip(f(word)),
        }
    }
}

impl LruGen {
    /// One eviction step: choose the type, isolate from its oldest generation, let `min_seq`
    /// advance. The isolated pages are appended to `out`, coldest first.
    pub(crate) fn isolate(
        &mut self,
        folios: &mut FolioTable,
        swappiness: Swappiness,
        budget: IsolateBudget,
        out: &mut Vec<FolioId>,
    ) -> Isolated {
        let mut done = self.isolate_folios(folios, swappiness, budget, out);
        done.scanned += usize::from(self.try_to_inc_min_seq(folios, swappiness));
        if self.evictable_min_seq(swappiness) + MIN_NR_GENS > self.max_seq {
            done.scanned = 0;
        }
        done
    }

    fn isolate_folios(
        &mut self,
        folios: &mut FolioTable,
        swappiness: Swappiness,
        budget: IsolateBudget,
        out: &mut Vec<FolioId>,
    ) -> Isolated {
        let (first, tier_idx) = self
            .controller
            .choose(self.profile, swappiness, self.min_seq);
        let other = first.other();
        let tries = [
            (first, tier_idx),
            (other, self.controller.tier_idx(self.profile, other)),
        ];
        let mut total = Isolated::default();
        for (ty, tier_idx) in tries {
            if total.scanned == 0 && swappiness.may_evict(ty) {
                total.add(self.scan(folios, (ty, tier_idx), budget, out));
            }
        }
        total
    }

    /// Isolates from the oldest generation of one type, protecting tiers above `tier_idx`.
    pub(super) fn scan(
        &mut self,
        folios: &mut FolioTable,
        (ty, tier_idx): (FolioType, usize),
        budget: IsolateBudget,
        out: &mut Vec<FolioId>,
    ) -> Isolated {
        if self.nr_gens(ty) <= MIN_NR_GENS {
            return Isolated::default();
        }
        let (oldest, mut all) = ((ty, self.min_seq(ty), tier_idx), usize::MAX);
        self.scan_generation(folios, oldest, (budget, &mut all), out)
    }

    /// The same from generation `seq`, meeting as many `entries` of its list at most: so many fewer are left then.
    pub(super) fn scan_generation(
        &mut self,
        folios: &mut FolioTable,
        (ty, seq, tier_idx): (FolioType, u64, usize),
        (budget, entries): (IsolateBudget, &mut usize),
        out: &mut Vec<FolioId>,
    ) -> Isolated {
        let from = list_of(slot_of(seq), ty);
        let mut done = Isolated {
            ty: Some(ty),
            ..Isolated::default()
        };
        let (mut looked, mut skipped, mut ahead) = (0, Vec::new(), [0; AHEAD]);
        let is_spent = |looked, taken| looked == budget.look || taken == budget.isolate;
        // Nothing is looked at ahead that the budget does not reach: of a memcg that gives one batch
        // and no more, the next words would be brought from memory for nobody.
        while *entries > 0 && !is_spent(looked, done.isolated.max(skipped.len())) {
            let (nr, mut met) = (self.lists.look_ahead(folios, from, &mut ahead), 0);
            for &entry in ahead[..nr].iter().rev().take(*entries) {
                if is_spent(looked, done.isolated.max(skipped.len())) {
                    break;
                }
                met += 1;
                let Some((id, word)) = self.lists.meet(folios, entry) else {
                    continue;
                };
                looked += 1;
                match self.sort(word, (seq, tier_idx), budget.may_io) {
                    Sorted::Elsewhere(to) => {
                        let list = list_of(to.generation(), to.folio_type());
                        self.lists.relist(folios, (list, entry), (word, to));
                    }
                    sorted => {
                        let sorted = sorted.map(|word| self.lists.take(entry, word));
                        skipped.extend(self.follow(folios, (id, sorted), &mut done, out));
                    }
                }
            }
            self.lists.passed(from, met);
            // Of a list that has ended fewer are left than were counted.
            *entries = if met == 0 { 0 } else { *entries - met };
        }
        done.sorted = looked - done.isolated - skipped.len();
        // Skipped pages stay in the generation, at its head: they are met again last.
        for page in skipped.into_iter().rev() {
            self.lists.push(folios, from, page, End::Head);
        }
        let counts = done.isolated > 0 || looked == budget.look;
        done.scanned = if counts { looked } else { 0 };
        done
    }

    /// Does with a popped page what was decided; gives it back if it is to be skipped.
    pub(super) fn follow(
        &mut self,
        folios: &mut FolioTable,
        (id, sorted): (FolioId, Sorted),
        done: &mut Isolated,
        out: &mut Vec<FolioId>,
    ) -> Option<(FolioId, Word)> {
        match sorted {
            Sorted::Isolate(word) => {
                self.count(word.generation(), word.folio_type(), -1);
                folios.set(id, word.into_state(State::OffList));
                out.push(id);
                done.isolated += 1;
            }
            Sorted::Elsewhere(word) => {
                let list = list_of(word.generation(), word.folio_type());
                self.lists.push(folios, list, (id, word), End::Head);
            }
            Sorted::Unevictable(word) => {
                self.count(word.generation(), word.folio_type(), -1);
                folios.set(id, word.into_state(State::OffList));
                done.unevictable[word.folio_type().index()] += 1;
            }
            Sorted::Skip(word) => return Some((id, word)),
        }
        None
    }

    /// The table of lru-gen.md 6.3, first match wins.
    #[inline]
    pub(super) fn sort(
        &mut self,
        word: Word,
        (seq, tier_idx): (u64, usize),
        may_io: bool,
    ) -> Sorted {
        if word.has(Flag::Unevictable) {
            return Sorted::Unevictable(word);
        }
        if word.generation() != slot_of(seq) {
            return Sorted::Elsewhere(word);
        }
        let saturated = refs::is_saturated(self.profile, word);
        if saturated || refs::tier_of(self.profile, word) > tier_idx {
            if !saturated || self.profile == Profile::P612 {
                self.protect(word);
            }
            return Sorted::Elsewhere(self.inc_gen(word));
        }
        let dirty_file = word.folio_type() == FolioType::File && word.has(Flag::Dirty);
        if word.has(Flag::Writeback) || dirty_file {
            return Sorted::Elsewhere(self.inc_gen(word).with(Flag::Reclaim, true));
        }
        let anon = word.folio_type() == FolioType::Anon;
        let needs_io = word.has(Flag::Dirty) || (anon && !word.has(Flag::SwapCache));
        if needs_io && !may_io {
            return Sorted::Skip(word);
        }
        let word = refs::isolated(self.profile, word);
        Sorted::Isolate(word.with(Flag::Reclaim, false))
    }

    /// An isolated page that could not go comes back; `referenced` when it was found to be in
    /// use. It never lands in the oldest generation again, where it would be met at once. Its accessed
    /// bit stays: whose mapping set it is for the next look to ask. True when it counts as activated: before v6.14 a
    /// page that was in use for the first time does not, though it goes to the youngest generation all the same.
    pub(crate) fn put_back(
        &mut self,
        folios: &mut FolioTable,
        id: FolioId,
        referenced: bool,
    ) -> bool {
        let mut word = folios.get(id);
        debug_assert_eq!(word.state(), State::OffList);
        let counts = !self.profile.is_before_614() || word.has(Flag::Referenced);
        if word.has(Flag::Young) || referenced {
            word = word.with(Flag::Young, false);
            let (marked, activate) = refs::set_refs(self.profile, word);
            word = marked.with(Flag::Active, activate);
        }
        // What the check says. A page that is only kept out of the oldest generation starts young, and is not activated.
        let activated = word.has(Flag::Active) && counts;
        let start = self.start_seq(word, Insertion::Normal);
        if start == self.min_seq(word.folio_type()) {
            word = refs::cleared(self.profile, word).with(Flag::Active, true);
        }
        let word = word.into_state(State::Listed);
        self.add(folios, id, word, Insertion::Normal);
        activated
    }
}
