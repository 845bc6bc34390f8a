//! Assertions of the invariants of `mod.rs`; they read the word of every page.

use super::refault_clock::RefaultClock;
use super::{LRU_REFS_WIDTH, LruGen, MAX_NR_GENS, MIN_NR_GENS, SLOTS};
use crate::folio::{FolioTable, FolioType};
use crate::units::Swappiness;
use crate::word::{State, TOKEN_BITS, Word};

impl LruGen {
    /// Asserts the invariants of this lruvec.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub(crate) fn check(&self, folios: &FolioTable, swappiness: Swappiness) {
        self.lists.check(folios);
        for ty in super::evictable(swappiness) {
            let gens = self.nr_gens(ty);
            assert!(
                (MIN_NR_GENS..=MAX_NR_GENS).contains(&gens),
                "I1: {ty:?} has {gens}"
            );
        }
        let [anon, file] = self.min_seq;
        let reach = MAX_NR_GENS - MIN_NR_GENS - 1;
        let aligned = !self.two_sided || anon.abs_diff(file) <= reach;
        assert!(aligned, "I6: min_seq {anon} and {file}");
        let mut counted = [[0i64; 2]; SLOTS];
        let mut others = alloc::vec![[[0i64; 2]; SLOTS]; self.others.len()];
        for (id, word) in folios.iter().filter(|(_, w)| w.state() == State::Listed) {
            let ty = word.folio_type();
            counted[word.generation()][ty.index()] += 1;
            if let Some(node) = word.node().index().checked_sub(1) {
                others[node][word.generation()][ty.index()] += 1;
            }
            let seq = self.seq_of(word.generation(), ty);
            let window = self.min_seq(ty)..=self.max_seq;
            assert!(
                window.contains(&seq),
                "I2: {id:?} in {seq}, window {window:?}"
            );
        }
        assert_eq!(counted, self.nr_pages, "I3: pages by slot and type");
        assert_eq!(others, self.others, "I3: pages of other nodes");
        self.check_shadows(folios);
        let listed: u64 = FolioType::ALL.iter().map(|&ty| self.total(ty)).sum();
        assert_eq!(listed, self.lists.live() as u64, "I7: pages on lists");
        for ty in FolioType::ALL {
            for seq in self.min_seq(ty)..self.max_seq {
                assert!(
                    self.birth(seq) <= self.birth(seq + 1),
                    "I5: births of {seq} and next"
                );
            }
            assert_eq!(self.active(ty) + self.inactive(ty), self.total(ty), "I9");
        }
    }

    /// Asserts that no shadow names a generation, or a time of the refault clock, that is still to
    /// come. Once the numbers have wrapped in the tokens, nothing can be checked (workingset.md
    /// I3).
    fn check_shadows(&self, folios: &FolioTable) {
        let newest = self.clock.map_or(self.max_seq, RefaultClock::time);
        if newest >= u64::from(u32::MAX >> (32 - TOKEN_BITS + LRU_REFS_WIDTH)) {
            return;
        }
        let shadow = |w: Word| w.state() == State::Shadow && w.has_shadow();
        for (id, word) in folios.iter().filter(|&(_, w)| shadow(w)) {
            let seq = u64::from(word.shadow().0 >> LRU_REFS_WIDTH);
            assert!(seq <= newest, "{id:?} left in the future, {seq}");
        }
    }
}
