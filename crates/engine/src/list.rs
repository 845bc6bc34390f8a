//! The page lists of a lruvec, from which pages are removed lazily.
//!
//! A list is a ring of entries; an entry has a page's id and a version from 0 to 3. A page does not
//! store where its entry is. To remove a page from the middle of a list, only its word is changed:
//! the entry stays as a *tombstone*, which is dropped when a scan from the tail reaches it, or when
//! a sweep drops all tombstones. A page may be listed again while its tombstone exists: the new
//! entry has another version, and the page's word says which version is *live*.
//!
//! Invariants:
//! 1. a listed page has exactly one live entry, in exactly one list; any other page has none;
//! 2. bit v of the versions in a page's word is set if and only if an entry (id, v) is in some
//!    list;
//! 3. there are at most live / 16 + 256 tombstones, which bounds both their memory and the cost of
//!    sweeps.

use crate::folio::{FolioId, FolioTable};
pub(crate) use crate::ring::AHEAD;
use crate::ring::{ENTRY_BITS, Ring};
use crate::word::{State, Word};
use alloc::vec::Vec;
use core::ops::Range;

const VERSION_BITS: u32 = 2;
const _: () = assert!(FolioId::BITS + VERSION_BITS == ENTRY_BITS);
/// Number of entries at the head of a list that an eager removal searches for the page's entry.
const EAGER_DEPTH: usize = 32;

/// Packs an entry into a number. The version is in the low bits, so that small ids make small
/// numbers.
const fn entry(id: FolioId, version: u32) -> u32 {
    id.0 << VERSION_BITS | version
}

const fn id_and_version(entry: u32) -> (FolioId, u32) {
    let version = entry & ((1 << VERSION_BITS) - 1);
    (FolioId(entry >> VERSION_BITS), version)
}

/// `N` or more lists that share one folio table and one count of tombstones.
#[derive(Debug)]
pub(crate) struct Lists<const N: usize> {
    rings: [Ring; N],
    /// The lists from number `N` on; see [`Self::ensure`].
    more: Vec<Ring>,
    live: usize,
    tombstones: usize,
}

/// Buffer for entries, the words of whose pages are prefetched together.
pub(crate) type Ahead = [u32; AHEAD];

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The young end, where pages are added.
    Head,
    /// The old end, from which reclaim takes pages.
    Tail,
}

impl<const N: usize> Lists<N> {
    pub(crate) fn new() -> Self {
        Self {
            rings: core::array::from_fn(|_| Ring::default()),
            more: Vec::new(),
            live: 0,
            tombstones: 0,
        }
    }

    /// Makes all lists with numbers below `len` valid; those below `N` always are.
    pub(crate) fn ensure(&mut self, len: usize) {
        if len > N + self.more.len() {
            self.more.resize_with(len - N, Ring::default);
        }
    }

    #[inline]
    fn ring(&self, list: usize) -> &Ring {
        match list.checked_sub(N) {
            None => &self.rings[list],
            Some(beyond) => &self.more[beyond],
        }
    }

    #[inline]
    fn ring_mut(&mut self, list: usize) -> &mut Ring {
        match list.checked_sub(N) {
            None => &mut self.rings[list],
            Some(beyond) => &mut self.more[beyond],
        }
    }

    fn all(&self) -> impl Iterator<Item = &Ring> {
        self.rings.iter().chain(&self.more)
    }

    /// Number of pages on all lists.
    pub(crate) const fn live(&self) -> usize {
        self.live
    }

    /// Number of entries of a list, including tombstones.
    pub(crate) fn entries(&self, list: usize) -> usize {
        self.ring(list).len()
    }

    pub(crate) fn footprint(&self) -> usize {
        self.all().map(Ring::footprint).sum()
    }

    /// Puts `id` at one end of `list` and stores `word`, which must be in state [`State::Listed`].
    pub(crate) fn push(
        &mut self,
        folios: &mut FolioTable,
        list: usize,
        (id, word): (FolioId, Word),
        end: End,
    ) {
        debug_assert_eq!(word.state(), State::Listed);
        let (word, version) = word.claim_version().unwrap_or_else(|| {
            // All four versions are used by tombstones. A sweep frees them.
            self.sweep_except(folios, Some(id));
            let versions = folios.get(id);
            (0..4)
                .filter(|v| versions.raw() & 1 << (2 + v) == 0)
                .fold(word, Word::release_version)
                .claim_version()
                .unwrap_or((word, 0))
        });
        folios.set(id, word);
        match end {
            End::Head => self.ring_mut(list).push_head(entry(id, version)),
            End::Tail => self.ring_mut(list).push_tail(entry(id, version)),
        }
        self.live += 1;
    }

    /// Removes and returns the page at the tail of `list`, with its word; `None` if the list has no
    /// page. The returned word is in state Listed, without the entry's version, and not stored: the
    /// caller must push the page back or store another state.
    #[inline]
    pub(crate) fn pop(&mut self, folios: &mut FolioTable, list: usize) -> Option<(FolioId, Word)> {
        while let Some(raw) = Self::pop_raw(self.ring_mut(list), folios) {
            let (id, version) = id_and_version(raw);
            let word = folios.get(id);
            let live = word.is_live(version);
            let word = word.release_version(version);
            if live {
                self.live -= 1;
                return Some((id, word));
            }
            folios.set(id, word);
            self.tombstones -= 1;
        }
        None
    }

    /// Removes and returns the entry at the tail, even a tombstone. The words of the next pages are
    /// scattered in memory, so they are prefetched many at a time.
    #[inline]
    fn pop_raw(ring: &mut Ring, folios: &FolioTable) -> Option<u32> {
        if ring.is_prefetch_due() {
            let mut ahead = [0; AHEAD];
            let nr = ring.ahead(&mut ahead);
            folios.prefetch(ahead[..nr].iter().map(|&raw| id_and_version(raw).0));
        }
        ring.pop_tail()
    }

    /// Copies the entries nearest to the tail of `list` into `to`, the tail last, and prefetches
    /// the words of their pages. Returns the number of entries, 0 only if the list is empty. The
    /// caller must then call [`Self::read_entry`] for each entry, and then
    /// [`Self::drop_read_entries`], before any other change of this list.
    pub(crate) fn prefetch(&self, folios: &FolioTable, list: usize, to: &mut Ahead) -> usize {
        let nr = self.ring(list).ahead(to);
        folios.prefetch(to[..nr].iter().map(|&raw| id_and_version(raw).0));
        nr
    }

    /// Returns the page of the entry `raw` with its word; `None` if the entry is a tombstone, which
    /// is then no longer counted. The returned word still has the entry's version: the caller must
    /// call [`Self::relist`] or [`Self::unlist`].
    #[inline]
    pub(crate) fn read_entry(
        &mut self,
        folios: &mut FolioTable,
        raw: u32,
    ) -> Option<(FolioId, Word)> {
        let (id, version) = id_and_version(raw);
        let word = folios.get(id);
        if word.is_live(version) {
            return Some((id, word));
        }
        folios.set(id, word.release_version(version));
        self.tombstones -= 1;
        None
    }

    /// Moves the entry of a page returned by [`Self::read_entry`] to the head of another list, and
    /// stores the word `new` if it differs from `old`.
    #[inline]
    pub(crate) fn relist(
        &mut self,
        folios: &mut FolioTable,
        (list, raw): (usize, u32),
        (old, new): (Word, Word),
    ) {
        if old != new {
            folios.set(id_and_version(raw).0, new);
        }
        self.ring_mut(list).push_head(raw);
    }

    /// Counts a page returned by [`Self::read_entry`] as on no list; returns `word` without its
    /// entry's version.
    pub(crate) fn unlist(&mut self, raw: u32, word: Word) -> Word {
        self.live -= 1;
        word.release_version(id_and_version(raw).1)
    }

    /// Removes the `nr` entries at the tail of `list` after [`Self::read_entry`] was called for
    /// each of them.
    pub(crate) fn drop_read_entries(&mut self, list: usize, nr: usize) {
        self.ring_mut(list).drop_tail(nr);
    }

    /// Whether `list` has no page; drops tombstones at its tail.
    pub(crate) fn is_empty(&mut self, folios: &mut FolioTable, list: usize) -> bool {
        while let Some(raw) = self.ring(list).tail() {
            let (id, version) = id_and_version(raw);
            let word = folios.get(id);
            if word.is_live(version) {
                return false;
            }
            self.ring_mut(list).pop_tail();
            folios.set(id, word.release_version(version));
            self.tombstones -= 1;
        }
        true
    }

    /// Removes `id` from its list and stores `next` as its state. For a page that was added
    /// recently, `hint` is the list near whose head to search the entry. If it is not found, or
    /// with `None`, the entry becomes a tombstone.
    pub(crate) fn remove(
        &mut self,
        folios: &mut FolioTable,
        id: FolioId,
        next: State,
        hint: Option<usize>,
    ) {
        let word = folios.get(id);
        debug_assert_eq!(word.state(), State::Listed);
        let version = word.live_version();
        self.live -= 1;
        let near_head = |list| {
            let ring = self.ring_mut(list);
            ring.remove_near_head(entry(id, version), EAGER_DEPTH)
        };
        let eager = hint.is_some_and(near_head);
        let word = word.into_state(next);
        if eager {
            folios.set(id, word.release_version(version));
        } else {
            folios.set(id, word);
            self.tombstones += 1;
        }
    }

    /// Gives the listed page `from` the id `to`, which must have no page. The page keeps its flags
    /// and accessed bit, and moves to the head of `list`.
    pub(crate) fn rename(
        &mut self,
        folios: &mut FolioTable,
        list: usize,
        (from, to): (FolioId, FolioId),
    ) {
        let word = folios.get(to).renamed_from(folios.get(from));
        let is_accessed = folios.is_accessed(from);
        self.remove(folios, from, State::Absent, None);
        self.push(folios, list, (to, word), End::Head);
        if is_accessed {
            folios.touch(to);
        }
    }

    /// Removes the pages with the ids `run`, which are all on the same list, and makes them absent.
    /// `hint` is as in [`Self::remove`].
    pub(crate) fn remove_run(
        &mut self,
        folios: &mut FolioTable,
        run: Range<u32>,
        hint: Option<usize>,
    ) {
        if hint.is_some() {
            for id in run.map(FolioId) {
                self.remove(folios, id, State::Absent, hint);
            }
            return;
        }
        let nr = run.len();
        folios.forget(run);
        self.live -= nr;
        self.tombstones += nr;
    }

    /// Drops all tombstones if there are more than invariant 3 allows. Must be called after each
    /// batch of removals.
    pub(crate) fn bound_tombstones(&mut self, folios: &mut FolioTable) {
        if self.tombstones > self.live / 16 + 256 {
            self.sweep_except(folios, None);
        }
    }

    /// Drops all tombstones.
    pub(crate) fn sweep(&mut self, folios: &mut FolioTable) {
        if self.tombstones > 0 {
            self.sweep_except(folios, None);
        }
    }

    /// Drops all tombstones, and all entries of the page `keep_out`. Its word in the table may
    /// still name a live entry, but the caller has a newer word for it.
    fn sweep_except(&mut self, folios: &mut FolioTable, keep_out: Option<FolioId>) {
        for ring in self.rings.iter_mut().chain(&mut self.more) {
            let mut swept = Ring::default();
            while let Some(raw) = Self::pop_raw(ring, folios) {
                let (id, version) = id_and_version(raw);
                let word = folios.get(id);
                if word.is_live(version) && Some(id) != keep_out {
                    swept.push_head(raw);
                } else {
                    folios.set(id, word.release_version(version));
                }
            }
            *ring = swept;
        }
        self.tombstones = 0;
    }

    /// Returns the pages of `list` from tail to head. For tests, reports and invariants.
    pub(crate) fn order(&self, folios: &FolioTable, list: usize) -> Vec<FolioId> {
        self.ring(list)
            .iter_from_tail()
            .map(id_and_version)
            .filter(|&(id, version)| folios.get(id).is_live(version))
            .map(|(id, _)| id)
            .collect()
    }

    /// Asserts invariants 1 to 3.
    pub(crate) fn check(&self, folios: &FolioTable) {
        let (mut live, mut total) = (0, 0);
        let mut seen = alloc::vec![0u32; folios.len()];
        for raw in self.all().flat_map(Ring::iter_from_tail) {
            let (id, version) = id_and_version(raw);
            total += 1;
            live += usize::from(folios.get(id).is_live(version));
            assert_eq!(
                seen[id.index()] & 1 << version,
                0,
                "{id:?} v{version} occurs twice"
            );
            seen[id.index()] |= 1 << version;
        }
        assert_eq!(
            (live, total),
            (self.live, self.live + self.tombstones),
            "list accounts"
        );
        for (id, word) in folios.iter() {
            assert_eq!(
                seen[id.index()],
                word.raw() >> 2 & 0xf,
                "versions of {id:?}"
            );
            let listed = word.state() == State::Listed;
            let has_live = seen[id.index()] & 1 << word.live_version() != 0;
            assert!(!listed || has_live, "{id:?} is listed but in no list");
        }
        assert_eq!(
            live,
            folios.count(State::Listed),
            "a page has two live entries"
        );
        assert!(
            self.tombstones <= self.live / 16 + 256,
            "too many tombstones"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(folios: &FolioTable, id: u32) -> (FolioId, Word) {
        (
            FolioId(id),
            folios.get(FolioId(id)).into_state(State::Listed),
        )
    }

    fn setup(n: u32) -> (FolioTable, Lists<2>) {
        let (mut folios, mut lists) = (FolioTable::default(), Lists::new());
        folios.ensure(n as usize);
        for id in 0..n {
            let page = listed(&folios, id);
            lists.push(&mut folios, 0, page, End::Head);
        }
        (folios, lists)
    }

    #[test]
    fn a_page_listed_again_is_found_at_its_new_position() {
        let (mut folios, mut lists) = setup(3);
        lists.remove(&mut folios, FolioId(0), State::Absent, None);
        let page = listed(&folios, 0);
        lists.push(&mut folios, 0, page, End::Head);
        lists.check(&folios);
        let order: Vec<u32> = lists.order(&folios, 0).iter().map(|id| id.0).collect();
        assert_eq!(order, [1, 2, 0]);
        let (first, word) = lists.pop(&mut folios, 0).expect("a page");
        assert_eq!((first, word.entries()), (FolioId(1), 0));
        assert_eq!(lists.tombstones, 0, "the tombstone at the tail is gone");
    }

    #[test]
    fn a_fifth_version_forces_a_sweep() {
        let (mut folios, mut lists) = setup(100);
        for round in 0..10 {
            lists.remove(&mut folios, FolioId(0), State::Absent, None);
            let page = listed(&folios, 0);
            lists.push(&mut folios, round % 2, page, End::Head);
            lists.check(&folios);
        }
        assert_eq!(lists.live(), 100);
        assert!(lists.tombstones < 4);
    }

    #[test]
    fn a_short_lived_page_makes_no_tombstone() {
        let (mut folios, mut lists) = setup(100);
        lists.remove(&mut folios, FolioId(90), State::Absent, Some(0));
        lists.check(&folios);
        assert_eq!(lists.tombstones, 0);
        lists.remove(&mut folios, FolioId(3), State::Absent, Some(0));
        assert_eq!(lists.tombstones, 1);
    }

    #[test]
    fn removing_most_pages_frees_their_memory() {
        let (mut folios, mut lists) = setup(50_000);
        let before = lists.footprint();
        for id in 0..40_000 {
            lists.remove(&mut folios, FolioId(id), State::Absent, None);
        }
        lists.bound_tombstones(&mut folios);
        lists.check(&folios);
        assert!(lists.footprint() < before / 4);
    }

    /// The canaries below corrupt lists in one way that `check` must find.
    #[test]
    #[should_panic(expected = "occurs twice")]
    fn canary_an_entry_is_in_twice() {
        let (folios, mut lists) = setup(3);
        let tail = lists.rings[0].tail().expect("three pages");
        lists.rings[1].push_head(tail);
        lists.check(&folios);
    }

    #[test]
    #[should_panic(expected = "list accounts")]
    fn canary_an_entry_is_lost() {
        let (folios, mut lists) = setup(3);
        lists.rings[0].pop_tail();
        lists.check(&folios);
    }

    #[test]
    #[should_panic(expected = "versions of FolioId(1)")]
    fn canary_a_word_names_an_entry_that_is_nowhere() {
        let (mut folios, lists) = setup(3);
        let word = folios.get(FolioId(1));
        assert_eq!(word.live_version(), 0);
        // The bit of version 1 is set, although no list has such an entry.
        folios.set(FolioId(1), Word::from_raw(word.raw() | 1 << 3));
        lists.check(&folios);
    }

    #[test]
    #[should_panic(expected = "too many tombstones")]
    fn canary_tombstones_are_never_swept() {
        let (mut folios, mut lists) = setup(1000);
        for id in 0..600 {
            lists.remove(&mut folios, FolioId(id), State::Absent, None);
        }
        lists.check(&folios);
    }
}
