//! Renaming of pages: if few pages remain in a block of ids, an embedder can give them ids in other
//! blocks, and free the block.
//!
//! Invariant: a rename changes no size, no counter and no state of a page, except its position: it
//! becomes the last page of its list that eviction scans.

use super::Lruvec;
use crate::folio::FolioId;
use crate::word::State;

impl Lruvec {
    /// Gives the page `from` the id `to`. Returns false, and changes nothing, if `from` is absent,
    /// isolated or unevictable: the code that isolated the page knows it by its old id.
    ///
    /// # Panics
    /// When `to` is a page already, or not below the number of ids that [`Self::ensure`] made
    /// valid.
    pub fn rename(&mut self, from: FolioId, to: FolioId) -> bool {
        let word = self.folios.get(from);
        let free = self.folios.get(to);
        assert_eq!(free.state(), State::Absent, "{to:?} is a page already");
        match word.state() {
            State::Absent | State::OffList => return false,
            State::Listed => {
                self.note_removed(from, word);
                self.note_page_in(to, free);
                self.lru.rename(&mut self.folios, from, to);
                self.lru.bound_tombstones(&mut self.folios);
            }
            State::Shadow => {
                if word.has_shadow() {
                    self.note_removed(from, word);
                    self.note_page_in(to, free);
                    self.note_evicted(to);
                }
                self.lru.rename_shadow(from, to);
                self.folios.forget(from.0..from.0 + 1);
                self.folios.set(to, free.renamed_from(word));
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folio::FolioType;
    use crate::lruvec::{FaultKind, Policy};
    use crate::units::{Millis, Pages, Swappiness};
    use crate::vmstat::ScanReason;
    use alloc::vec::Vec;

    /// Creates the pages 0..64, of both types, in several generations, some of them evicted. Ids
    /// below 200 are valid.
    fn mixed(policy: Policy) -> Lruvec {
        let mut lruvec = Lruvec::new(policy, Millis(0));
        lruvec.bound_shadows();
        lruvec.ensure(200);
        for id in 0..64 {
            let ty = FolioType::ALL[id as usize % 2];
            lruvec.fault_in(FolioId(id), ty, FaultKind::FirstTouch, true, true);
            if id % 16 == 15 && lruvec.multi_gen().is_some() {
                let seq = lruvec.lru_gen().max_seq();
                lruvec.inc_max_seq(seq, Swappiness::default(), Millis(u64::from(id)));
            }
        }
        for id in (0..64).step_by(5).map(FolioId) {
            lruvec.left(id);
        }
        lruvec
    }

    fn counts(lruvec: &Lruvec) -> Vec<u64> {
        let mut counts: Vec<u64> = FolioType::ALL
            .iter()
            .flat_map(|&ty| {
                let (active, inactive) = lruvec.active_inactive(ty);
                [
                    active.0,
                    inactive.0,
                    lruvec.out(ty).0,
                    lruvec.off_list(ty).0,
                ]
            })
            .collect();
        counts.push(lruvec.resident().0);
        counts
    }

    #[test]
    fn a_renamed_page_keeps_its_state() {
        for policy in [
            Policy::default(),
            Policy::ActiveInactive(crate::active_inactive::Stage::default(), Pages(1000)),
        ] {
            let mut lruvec = mixed(policy);
            lruvec.touch(FolioId(7));
            let counts_before = counts(&lruvec);
            let state_of = |lruvec: &Lruvec, id: u32| {
                let word = lruvec.folios().get(FolioId(id));
                let bits = word.raw() & !0xfc;
                (bits, lruvec.folios().is_accessed(FolioId(id)))
            };
            let before_rename: Vec<_> = (0..64).map(|id| state_of(&lruvec, id)).collect();
            for id in 0..64 {
                assert!(lruvec.rename(FolioId(id), FolioId(id + 100)));
                lruvec.check_invariants(Swappiness::default());
            }
            assert_eq!(counts(&lruvec), counts_before);
            let after_rename: Vec<_> = (100..164).map(|id| state_of(&lruvec, id)).collect();
            assert_eq!(after_rename, before_rename);
            assert!((0..64).all(|id| lruvec.folios().get(FolioId(id)).state() == State::Absent));
            // An evicted page refaults under its new id.
            let kind = FaultKind::Refault;
            let refault = lruvec.fault_in(FolioId(105), FolioType::File, kind, true, true);
            assert!(refault.is_some(), "its shadow is known");
            // Pages are renamed back to ids that still have tombstones.
            for id in 0..64 {
                assert!(lruvec.rename(FolioId(id + 100), FolioId(id)));
            }
            lruvec.check_invariants(Swappiness::default());
        }
    }

    #[test]
    fn isolated_and_unevictable_pages_keep_their_ids() {
        let mut lruvec = mixed(Policy::default());
        let mut isolated = Vec::new();
        lruvec.isolate_by_age(
            Swappiness::default(),
            (4, &mut crate::lru_gen::ByAgeCursor::default()),
            &mut isolated,
        );
        let isolated = *isolated.first().expect("some are old");
        assert!(!lruvec.rename(isolated, FolioId(150)));
        assert!(!lruvec.rename(FolioId(199), FolioId(150)));
        assert_eq!(lruvec.folios().get(FolioId(150)).state(), State::Absent);
        lruvec.evicted(isolated, ScanReason::Proactive);
        assert!(lruvec.rename(isolated, FolioId(150)));
        lruvec.check_invariants(Swappiness::default());
    }
}
