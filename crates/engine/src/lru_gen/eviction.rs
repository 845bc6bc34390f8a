//! Isolation: taking the coldest pages off the lists, batch by batch.
//! spec: lru-gen.md 6.
//!
//! Invariant: isolated pages are off every list and uncounted here, but still present. The embedder
//! pages them out and then reports for each that it was evicted (refault.rs), or puts it back
//! ([`LruGen::put_back`]).

use super::{LruGen, MAX_LRU_BATCH, MIN_LRU_BATCH, MIN_NR_GENS, Profile, list_of, refs, slot_of};
use crate::folio::{FolioId, FolioTable, FolioType};
use crate::list::{AHEAD, End};
use crate::lru_gen::insert::Insertion;
use crate::units::Swappiness;
use crate::word::{Flag, NodeId, State, Word};
use alloc::vec::Vec;

/// Limits of one isolation.
#[derive(Clone, Copy, Debug)]
pub struct IsolateBudget {
    /// Most pages to isolate.
    pub isolate: usize,
    /// Most pages to scan.
    pub scan: usize,
    /// Whether I/O is allowed; without it only clean file pages and swap-cached anon can be
    /// evicted.
    pub may_io: bool,
    /// The memory node to isolate from; `None` for all.
    pub node: Option<NodeId>,
}

impl Default for IsolateBudget {
    fn default() -> Self {
        Self {
            isolate: MIN_LRU_BATCH,
            scan: MAX_LRU_BATCH,
            may_io: true,
            node: None,
        }
    }
}

impl IsolateBudget {
    /// At most `nr` pages.
    #[must_use]
    pub fn of(nr: usize) -> Self {
        Self {
            isolate: nr,
            scan: MAX_LRU_BATCH.max(nr),
            ..Self::default()
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

    /// The same, of one memory node alone; `None` for all.
    #[must_use]
    pub const fn on(self, node: Option<NodeId>) -> Self {
        Self { node, ..self }
    }
}

/// What one isolation did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Isolated {
    /// Pages added to the batch.
    pub isolated: usize,
    /// Pages scanned; 0 if the caller should age before it isolates again.
    pub scanned: usize,
    /// Scanned pages that were moved instead of isolated: promoted by a walk, protected, being
    /// written, or unevictable. The kernel counts them in pgrefill, though nothing is refilled.
    pub sorted: usize,
    /// Unevictable pages that were taken off their list: `[anon, file]`.
    pub unevictable: [usize; 2],
    /// Type of the pages isolated; `None` if no list was scanned.
    pub ty: Option<FolioType>,
}

impl Isolated {
    /// Adds the counts of another isolation.
    pub fn add(&mut self, other: Self) {
        self.isolated += other.isolated;
        self.scanned += other.scanned;
        self.sorted += other.sorted;
        self.unevictable[0] += other.unevictable[0];
        self.unevictable[1] += other.unevictable[1];
        self.ty = other.ty.or(self.ty);
    }
}

/// A list to isolate from, and how its pages are judged.
#[derive(Clone, Copy)]
pub(super) struct Source {
    pub(super) ty: FolioType,
    pub(super) seq: u64,
    pub(super) node: NodeId,
    /// Tiers above this one are protected.
    pub(super) tier_idx: usize,
    /// The generation whose protected pages move to the next one.
    pub(super) oldest: u64,
}

/// Decision about the page at the tail, with its new word.
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
    /// Chooses the type to evict, isolates from its oldest generation, and lets `min_seq` advance.
    /// The isolated pages are appended to `out`, coldest first.
    pub(crate) fn isolate(
        &mut self,
        folios: &mut FolioTable,
        swappiness: Swappiness,
        budget: IsolateBudget,
        out: &mut Vec<FolioId>,
    ) -> Isolated {
        let mut done = self.isolate_folios(folios, swappiness, budget, out);
        done.scanned += usize::from(self.try_to_inc_min_seq(folios, swappiness));
        if self.oldest_on(budget.node, swappiness) + MIN_NR_GENS > self.max_seq {
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

    /// Isolates from the oldest generation of one type, protecting tiers above `tier_idx`. For a
    /// single memory node: from its own oldest generation that has a page to isolate.
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
        let source = |seq, node| Source {
            ty,
            seq,
            node,
            tier_idx,
            oldest: seq,
        };
        let mut total = Isolated::default();
        match budget.node {
            None => {
                let seq = self.min_seq(ty);
                for node in self.nodes() {
                    let left = IsolateBudget {
                        isolate: budget.isolate - total.isolated,
                        ..budget
                    };
                    let list = (source(seq, node), &mut { usize::MAX });
                    total.add(self.scan_list(folios, list, left, out));
                }
            }
            Some(node) => {
                for seq in self.open_seqs(ty) {
                    let mut entries = self.lists.entries(list_of(slot_of(seq), ty, node));
                    let list = (source(seq, node), &mut entries);
                    total.add(self.scan_list(folios, list, budget, out));
                    if total.scanned > 0 {
                        break;
                    }
                }
            }
        }
        total
    }

    /// Isolates from one list. Reads at most `entries` of its entries, and reduces `entries` by the
    /// number read.
    pub(super) fn scan_list(
        &mut self,
        folios: &mut FolioTable,
        (source, entries): (Source, &mut usize),
        budget: IsolateBudget,
        out: &mut Vec<FolioId>,
    ) -> Isolated {
        let Source { ty, seq, node, .. } = source;
        let from = list_of(slot_of(seq), ty, node);
        let mut done = Isolated {
            ty: Some(ty),
            ..Isolated::default()
        };
        let (mut examined, mut skipped, mut ahead) = (0, Vec::new(), [0; AHEAD]);
        let is_spent = |examined, taken| examined == budget.scan || taken == budget.isolate;
        // For a memcg from which only one batch is taken, reading words ahead of the budget would
        // be wasted.
        while *entries > 0 && !is_spent(examined, done.isolated.max(skipped.len())) {
            let (nr, mut met) = (self.lists.prefetch(folios, from, &mut ahead), 0);
            for &entry in ahead[..nr].iter().rev().take(*entries) {
                if is_spent(examined, done.isolated.max(skipped.len())) {
                    break;
                }
                met += 1;
                let Some((id, word)) = self.lists.meet(folios, entry) else {
                    continue;
                };
                examined += 1;
                match self.sort(word, source, budget.may_io) {
                    Sorted::Elsewhere(to) => {
                        let list = Self::list_of(to);
                        self.lists.relist(folios, (list, entry), (word, to));
                    }
                    sorted => {
                        let sorted = sorted.map(|word| self.lists.take(entry, word));
                        skipped.extend(self.follow(folios, (id, sorted), &mut done, out));
                    }
                }
            }
            self.lists.passed(from, met);
            // The list has ended, with fewer entries than `entries`.
            *entries = if met == 0 { 0 } else { *entries - met };
        }
        done.sorted = examined - done.isolated - skipped.len();
        // Skipped pages go to the head of their generation, in their order.
        for page in skipped.into_iter().rev() {
            self.lists.push(folios, from, page, End::Head);
        }
        let counts = done.isolated > 0 || examined == budget.scan;
        done.scanned = if counts { examined } else { 0 };
        done
    }

    /// Carries out the decision for a page taken off its list; returns the page if it is to be
    /// skipped.
    pub(super) fn follow(
        &mut self,
        folios: &mut FolioTable,
        (id, sorted): (FolioId, Sorted),
        done: &mut Isolated,
        out: &mut Vec<FolioId>,
    ) -> Option<(FolioId, Word)> {
        match sorted {
            Sorted::Isolate(word) => {
                self.count(word.generation(), word, -1);
                folios.set(id, word.into_state(State::OffList));
                out.push(id);
                done.isolated += 1;
            }
            Sorted::Elsewhere(word) => {
                let list = Self::list_of(word);
                self.lists.push(folios, list, (id, word), End::Head);
            }
            Sorted::Unevictable(word) => {
                self.count(word.generation(), word, -1);
                folios.set(id, word.into_state(State::OffList));
                done.unevictable[word.folio_type().index()] += 1;
            }
            Sorted::Skip(word) => return Some((id, word)),
        }
        None
    }

    /// Decides what to do with a page that was met on the list `source`: the table of lru-gen.md
    /// 6.3, whose first match wins.
    #[inline]
    pub(super) fn sort(&mut self, word: Word, source: Source, may_io: bool) -> Sorted {
        let Source {
            seq,
            tier_idx,
            oldest,
            ..
        } = source;
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
            return Sorted::Elsewhere(self.inc_gen(word, oldest));
        }
        let dirty_file = word.folio_type() == FolioType::File && word.has(Flag::Dirty);
        if word.has(Flag::Writeback) || dirty_file {
            return Sorted::Elsewhere(self.inc_gen(word, oldest).with(Flag::Reclaim, true));
        }
        let anon = word.folio_type() == FolioType::Anon;
        let needs_io = word.has(Flag::Dirty) || (anon && !word.has(Flag::SwapCache));
        if needs_io && !may_io {
            return Sorted::Skip(word);
        }
        let word = refs::isolated(self.profile, word);
        Sorted::Isolate(word.with(Flag::Reclaim, false))
    }

    /// Puts back an isolated page that could not be evicted; `referenced`: the embedder found it in
    /// use. The page never goes to the oldest generation, where eviction would meet it at once. Its
    /// accessed bit stays: the next scan decides by the mapping that set it. Returns whether the
    /// page counts as activated: before v6.14 a page found in use for the first time does not,
    /// although it goes to the youngest generation.
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
        // Decided here, because a page that is only kept out of the oldest generation gets the flag
        // Active below, but does not count as activated.
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
