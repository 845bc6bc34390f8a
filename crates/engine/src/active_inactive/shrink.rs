//! Shrinking the four lists of one lruvec. spec: classic-lru.md 4, 5.4.

use super::{ActiveInactive, ReferenceInput, Referenced, ScanInput, Stage, check_references};
use super::{inactive_is_low, scan_targets};
use crate::folio::{FolioId, FolioTable, FolioType, Recency};
use crate::units::Swappiness;
use crate::word::{Flag, State, Word};
use alloc::vec::Vec;

/// Counts of one step over one list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Step {
    /// Pages looked at.
    pub(crate) scanned: u64,
    /// Pages that changed lists: deactivated, or activated.
    pub(crate) moved: u64,
    /// Unevictable ones that left their list.
    pub(crate) unevictable: u64,
}

/// Whether the page was accessed through a mapping with recency, or told young; that is taken. The bit
/// of a mapping without recency is neither counted nor cleared. spec: reclaim-control.md 6.1.
fn take_young(
    folios: &mut FolioTable,
    (id, word): (FolioId, Word),
    recency: Recency<'_>,
) -> (bool, Word) {
    let accessed = folios.is_accessed(id) && recency(id) && folios.take_accessed(id);
    (
        accessed || word.has(Flag::Young),
        word.with(Flag::Young, false),
    )
}

impl ActiveInactive {
    pub(crate) fn is_low(&self, ty: FolioType) -> bool {
        let (inactive, active) = (
            self.sizes.inactive[ty.index()],
            self.sizes.active[ty.index()],
        );
        if self.stage == Stage::Protection && ty == FolioType::Anon {
            return inactive < active;
        }
        inactive_is_low(inactive, active)
    }

    /// By type: whether this pass may take from the active list. Decided once a pass.
    pub(crate) fn may_deactivate(&mut self) -> [bool; 2] {
        let seen = core::mem::replace(&mut self.activations_seen, self.activations);
        FolioType::ALL.map(|ty| seen[ty.index()] != self.activations[ty.index()] || self.is_low(ty))
    }

    /// Up to `nr` pages from the tail of the active list: executable file pages in use stay, all
    /// others are deactivated, referenced or not.
    pub(crate) fn shrink_active(
        &mut self,
        folios: &mut FolioTable,
        (ty, nr): (FolioType, u64),
        recency: Recency<'_>,
    ) -> Step {
        // What comes back to the head is not met twice.
        let nr = nr.min(self.sizes.active[ty.index()]);
        let (mut step, mut rotated) = (Step::default(), 0);
        while step.scanned < nr {
            let Some((id, word)) = self.pop(folios, ty.index() * 2 + 1) else {
                break;
            };
            step.scanned += 1;
            if word.has(Flag::Unevictable) {
                folios.set(id, word.into_state(State::OffList));
                step.unevictable += 1;
                continue;
            }
            let (young, word) = take_young(folios, (id, word), recency);
            if young && word.has(Flag::Exec) && ty == FolioType::File {
                self.add(folios, id, word);
                self.advance_clock(1);
                rotated += 1;
            } else {
                let word = word.with(Flag::Active, false).with(Flag::Workingset, true);
                self.add(folios, id, word);
                step.moved += 1;
            }
        }
        // Looking at them was in vain.
        if rotated > 0 {
            self.note_cost(ty, 0, rotated);
        }
        step
    }

    /// Up to `nr` pages from the tail of the inactive list: each is checked, and what may go is
    /// isolated into `out`.
    pub(crate) fn isolate_inactive(
        &mut self,
        folios: &mut FolioTable,
        (ty, nr): (FolioType, u64),
        recency: Recency<'_>,
        out: &mut Vec<FolioId>,
    ) -> Step {
        let nr = nr.min(self.sizes.inactive[ty.index()]);
        let mut step = Step::default();
        while step.scanned < nr {
            let Some((id, word)) = self.pop(folios, ty.index() * 2) else {
                break;
            };
            step.scanned += 1;
            if word.has(Flag::Unevictable) {
                folios.set(id, word.into_state(State::OffList));
                step.unevictable += 1;
                continue;
            }
            let (young, word) = take_young(folios, (id, word), recency);
            let (verdict, word) = self.check_word(word, young);
            let dirty_file = ty == FolioType::File && word.has(Flag::Dirty);
            let stays = word.has(Flag::Writeback) || dirty_file;
            match verdict {
                Referenced::Reclaim | Referenced::ReclaimClean if !stays => {
                    folios.set(id, word.into_state(State::OffList));
                    out.push(id);
                }
                Referenced::Activate => {
                    self.add(folios, id, word.with(Flag::Active, true));
                    self.advance_clock(1);
                    step.moved += 1;
                }
                _ => self.add(folios, id, word),
            }
        }
        step
    }

    fn check_word(&self, word: Word, young: bool) -> (Referenced, Word) {
        let input = ReferenceInput {
            ty: word.folio_type(),
            pte_references: u32::from(young),
            referenced: word.has(Flag::Referenced),
            executable: word.has(Flag::Exec),
            locked: false,
        };
        let (verdict, referenced) = check_references(self.stage, input);
        (verdict, word.with(Flag::Referenced, referenced))
    }

    /// An isolated page that could not go comes back: active when it was accessed meanwhile and
    /// has been before, else inactive.
    pub(crate) fn put_back(
        &mut self,
        folios: &mut FolioTable,
        id: FolioId,
        referenced: bool,
    ) -> bool {
        let word = folios.get(id);
        let young = word.has(Flag::Young) || referenced;
        let at_once = self.stage == Stage::Base && word.folio_type() == FolioType::Anon;
        let activate = young && (word.has(Flag::Referenced) || at_once);
        let word = word
            .with(Flag::Young, false)
            .with(Flag::Referenced, young)
            .with(Flag::Active, activate);
        self.add(folios, id, word.into_state(State::Listed));
        self.advance_clock(u64::from(activate));
        activate
    }

    /// Targets of one pass, and which active lists it may shrink.
    pub(crate) fn pass_targets(
        &mut self,
        swappiness: Swappiness,
        priority: u32,
    ) -> ([[u64; 2]; 2], [bool; 2]) {
        let input = self.scan_input(swappiness, priority, false);
        (scan_targets(&input), input.may_deactivate)
    }

    /// What the targets of a pass over a memcg that has an owner depend on.
    pub(crate) fn scan_input(
        &mut self,
        swappiness: Swappiness,
        priority: u32,
        force_deactivate: bool,
    ) -> ScanInput {
        ScanInput {
            sizes: self.sizes,
            priority,
            swappiness,
            swap: swappiness != Swappiness::FILE_ONLY,
            memcg_reclaim: true,
            costs: self.costs,
            may_deactivate: self.may_deactivate().map(|may| may || force_deactivate),
            file_is_tiny: false,
            protection: None,
            online: true,
        }
    }
}
