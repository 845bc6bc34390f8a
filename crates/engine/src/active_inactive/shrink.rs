//! Scans of the four lists of one lruvec: deactivates active pages, and isolates inactive pages.
//! spec: classic-lru.md 4, 5.4.

use super::level::is_low;
use super::{ActiveInactive, ReferenceInput, Referenced, ScanInput, Stage, check_references};
use super::{Prepared, scan_targets};
use crate::folio::{FolioId, FolioTable, FolioType, Recency};
use crate::units::Swappiness;
use crate::word::{Flag, State, Word};
use alloc::vec::Vec;

/// Result of one scan of one list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Step {
    /// Pages scanned.
    pub(crate) scanned: u64,
    /// Pages that changed lists: deactivated, or activated.
    pub(crate) moved: u64,
    /// Unevictable pages that were taken off their list.
    pub(crate) unevictable: u64,
}

/// Returns whether the page was accessed, and its word with flag Young cleared. An access counts if
/// it was made through a mapping with recency, or was reported before (flag Young). The accessed
/// bit of a mapping without recency does not count and is not cleared.
/// spec: reclaim-control.md 6.1.
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
    /// Whether the inactive list of `ty` is too short. Pages of the memcgs below count, too.
    pub(crate) fn is_low(&self, ty: FolioType) -> bool {
        is_low(self.stage, self.target.subtree(self.own.sizes), ty)
    }

    /// Makes the decisions for a pass over a lruvec that is not part of a machine.
    pub(crate) fn prepare(&mut self, priority: u32, force_deactivate: bool) -> Prepared {
        let seen = core::mem::replace(&mut self.activations_seen, self.own.activations);
        Prepared::new((self.stage, &self.own), seen, priority, force_deactivate)
    }

    /// Scans up to `nr` pages from the tail of the active list. Executable file pages that were
    /// accessed move to its head; all others are deactivated, even if they were accessed.
    pub(crate) fn shrink_active(
        &mut self,
        folios: &mut FolioTable,
        (ty, nr): (FolioType, u64),
        recency: Recency<'_>,
    ) -> Step {
        // No page that moves to the head is scanned a second time.
        let nr = nr.min(self.own.sizes.active[ty.index()]);
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
        // Rotated pages were scanned in vain, which counts as cost.
        if rotated > 0 {
            self.note_cost(ty, 0, rotated);
        }
        step
    }

    /// Scans up to `nr` pages from the tail of the inactive list. Takes evictable pages off the
    /// list and appends them to `out`.
    pub(crate) fn isolate_inactive(
        &mut self,
        folios: &mut FolioTable,
        (ty, nr): (FolioType, u64),
        recency: Recency<'_>,
        out: &mut Vec<FolioId>,
    ) -> Step {
        let nr = nr.min(self.own.sizes.inactive[ty.index()]);
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

    /// Puts back an isolated page that could not be evicted. The page becomes active if it was
    /// referenced before the isolation and accessed since; otherwise inactive. Returns whether it
    /// was activated.
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

    /// For a pass over a lruvec that is not part of a machine: returns the number of pages to scan,
    /// `[anon, file]`, each `[inactive, active]`; and whether the active lists may be shrunk,
    /// `[anon, file]`.
    pub(crate) fn pass_targets(
        &mut self,
        swappiness: Swappiness,
        priority: u32,
    ) -> ([[u64; 2]; 2], [bool; 2]) {
        let prepared = self.prepare(priority, false);
        let targets = scan_targets(&ScanInput {
            sizes: self.own.sizes,
            priority,
            swappiness,
            swap: swappiness != Swappiness::FILE_ONLY,
            prepared,
            protection: None,
            online: true,
        });
        (targets, prepared.may_deactivate)
    }
}
