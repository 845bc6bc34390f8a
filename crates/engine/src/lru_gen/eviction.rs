//! Isolation: takes the coldest pages off the lists, batch by batch.
//! spec: lru-gen.md 6.
//!
//! Invariant: isolated pages are on no list and not counted in any generation, but still present.
//! The embedder pages them out. For each page it then either reports the eviction (`refault.rs`) or
//! puts the page back ([`LruGen::put_back`]).

use super::{LruGen, MAX_LRU_BATCH, MIN_LRU_BATCH, MIN_NR_GENS, Profile, list_of, refs, slot_of};
use crate::folio::{FolioId, FolioTable, FolioType};
use crate::list::{AHEAD, End};
use crate::lru_gen::insert::Insertion;
use crate::units::Swappiness;
use crate::word::{Flag, NodeId, State, Word};
use alloc::vec::Vec;

/// In place of the last unprotected tier: no tier is protected.
const ALL_TIERS: usize = usize::MAX;

/// Limits of one isolation.
#[derive(Clone, Copy, Debug)]
pub struct IsolateBudget {
    /// Maximum number of pages to isolate.
    pub isolate: usize,
    /// Maximum number of pages to scan.
    pub scan: usize,
    /// Whether I/O is allowed; without it only clean file pages and swap-cached anon can be
    /// evicted.
    pub may_io: bool,
    /// The memory node to isolate from; `None` for all.
    pub node: Option<NodeId>,
    /// Whether pages of protected tiers are isolated like others.
    pub ignores_tiers: bool,
}

impl Default for IsolateBudget {
    fn default() -> Self {
        Self {
            isolate: MIN_LRU_BATCH,
            scan: MAX_LRU_BATCH,
            may_io: true,
            node: None,
            ignores_tiers: false,
        }
    }
}

impl IsolateBudget {
    /// Returns the budget for at most `nr` pages.
    #[must_use]
    pub fn of(nr: usize) -> Self {
        Self {
            isolate: nr,
            scan: MAX_LRU_BATCH.max(nr),
            ..Self::default()
        }
    }

    /// Returns the budget for at most `nr` pages, and at most one batch of the kernel's size.
    #[must_use]
    pub fn up_to(nr: usize) -> Self {
        Self {
            isolate: nr.min(MIN_LRU_BATCH),
            ..Self::default()
        }
    }

    /// Returns this budget restricted to one memory node; `None` for all nodes.
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
    /// written, or unevictable. The kernel counts them in pgrefill, although it refills no list
    /// here.
    pub sorted: usize,
    /// Pages of the scanned generation that moved to the next one instead of being isolated: of a
    /// protected tier, dirty, or under writeback.
    pub held_back: usize,
    /// Unevictable pages that were taken off their list: `[anon, file]`.
    pub unevictable: [usize; 2],
    /// Type of the isolated pages; `None` if no list was scanned.
    pub ty: Option<FolioType>,
}

impl Isolated {
    /// Adds the counts of another isolation to these.
    pub fn add(&mut self, other: Self) {
        self.isolated += other.isolated;
        self.scanned += other.scanned;
        self.sorted += other.sorted;
        self.held_back += other.held_back;
        self.unevictable[0] += other.unevictable[0];
        self.unevictable[1] += other.unevictable[1];
        self.ty = other.ty.or(self.ty);
    }
}

/// The list from which pages are isolated, and what decides which of its pages are protected.
#[derive(Clone, Copy)]
pub(super) struct Source {
    pub(super) ty: FolioType,
    pub(super) seq: u64,
    pub(super) node: NodeId,
    /// Tiers above this one are protected.
    pub(super) tier_idx: usize,
    /// The oldest generation. Only from it do pages that are not isolated move to the next
    /// generation.
    pub(super) oldest: u64,
}

/// Decision about the page at the tail of a list, with its new word.
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
            let tier_idx = match budget.ignores_tiers {
                true => ALL_TIERS,
                false => tier_idx,
            };
            if total.scanned == 0 && swappiness.may_evict(ty) {
                total.add(self.scan(folios, (ty, tier_idx), budget, out));
            }
        }
        total
    }

    /// Isolates from the oldest generation of one type, protecting tiers above `tier_idx`. For a
    /// single memory node, isolates from the oldest generation in which that node has a page to
    /// isolate.
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
                    let remaining = IsolateBudget {
                        isolate: budget.isolate - total.isolated,
                        ..budget
                    };
                    let list = (source(seq, node), &mut { usize::MAX });
                    total.add(self.scan_list(folios, list, remaining, out));
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

    /// Isolates from one list. Reads at most `entries` list entries, and reduces `entries` by the
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
        // Entries beyond the budget are not read ahead: if only one batch is taken from a memcg,
        // their words would be read in vain.
        while *entries > 0 && !is_spent(examined, done.isolated.max(skipped.len())) {
            let (nr_ahead, mut nr_read) = (self.lists.prefetch(folios, from, &mut ahead), 0);
            for &entry in ahead[..nr_ahead].iter().rev().take(*entries) {
                if is_spent(examined, done.isolated.max(skipped.len())) {
                    break;
                }
                nr_read += 1;
                let Some((id, word)) = self.lists.read_entry(folios, entry) else {
                    continue;
                };
                examined += 1;
                match self.sort(word, source, budget.may_io) {
                    Sorted::Elsewhere(to) => {
                        done.held_back += usize::from(word.generation() == slot_of(seq));
                        let list = Self::list_of(to);
                        self.lists.relist(folios, (list, entry), (word, to));
                    }
                    sorted => {
                        let sorted = sorted.map(|word| self.lists.unlist(entry, word));
                        skipped.extend(self.carry_out(folios, (id, sorted), &mut done, out));
                    }
                }
            }
            self.lists.drop_read_entries(from, nr_read);
            // If no entry was read, the list has ended before `entries` were read.
            *entries = if nr_read == 0 { 0 } else { *entries - nr_read };
        }
        done.sorted = examined - done.isolated - skipped.len();
        // Skipped pages move to the head of their generation's list, in their order.
        for page in skipped.into_iter().rev() {
            self.lists.push(folios, from, page, End::Head);
        }
        let has_progress = done.isolated > 0 || examined == budget.scan;
        done.scanned = if has_progress { examined } else { 0 };
        done
    }

    /// Carries out the decision about a page that was taken off its list; returns the page if it
    /// must be skipped.
    pub(super) fn carry_out(
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

    /// Decides what happens to a page found on the list `source`: by the first row of the table in
    /// lru-gen.md 6.3 that applies.
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
        let is_protected = saturated || refs::tier_of(self.profile, word) > tier_idx;
        if is_protected && tier_idx != ALL_TIERS {
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

    /// Puts back an isolated page that could not be evicted; `referenced`: the embedder found the
    /// page accessed. The page never enters the oldest generation, where eviction would find it
    /// again at once. Its accessed bit stays set for the next scan, which decides by the mapping
    /// that set it. Returns whether the page counts as activated. Under the rules before Linux
    /// v6.14 a page found accessed for the first time does not, although it enters the youngest
    /// generation.
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
        // This is decided before the next step: that sets the flag Active on a page only to keep it
        // out of the oldest generation, which does not count as an activation.
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
