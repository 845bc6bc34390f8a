//! Refault distances of the classic LRU.
//! spec: workingset.md 4, 5.
//!
//! A shadow names the target memcg of the reclaim that evicted the page, and stores the target's
//! eviction clock. At a refault, the advance of that clock since is the refault distance. If the
//! distance is at most the number of pages on the target's other lists, the page would have stayed
//! in memory if it had competed with them.

use super::{ActiveInactive, CostNote, Sizes, Stage};
use crate::folio::{FolioId, FolioTable, FolioType};
use crate::word::{Flag, Word};
use crate::workingset::Refault;

/// Number of pages with which a refaulting page of type `ty` competes: those on all lists but the
/// inactive list of `ty`. Anon lists count only if anon pages can be evicted (`swap`).
/// spec: workingset.md 5.1.
#[must_use]
pub const fn room(stage: Stage, ty: FolioType, sizes: Sizes, swap: bool) -> u64 {
    let [anon, file] = [FolioType::Anon.index(), FolioType::File.index()];
    let mut competing = sizes.active[file];
    if matches!(stage, Stage::Protection) {
        // At this stage of the patch series only active pages count.
        return if swap {
            competing + sizes.active[anon]
        } else {
            competing
        };
    }
    if matches!(ty, FolioType::Anon) {
        competing += sizes.inactive[file];
    }
    if swap {
        competing += sizes.active[anon];
        if matches!(ty, FolioType::File) {
            competing += sizes.inactive[anon];
        }
    }
    competing
}

impl ActiveInactive {
    /// Records that an isolated page was evicted: turns its word into a shadow entry. The stamp is
    /// the value of the clock before this eviction advances it.
    pub(crate) fn evicted(&mut self, folios: &mut FolioTable, id: FolioId) {
        let word = folios.get(id);
        let stamp = u32::try_from(self.clock.stamp(self.age_of_target())).unwrap_or(0);
        self.target_names.set(id, self.target.steps);
        folios.set(id, word.into_shadow(stamp, word.has(Flag::Workingset)));
        if self.target.steps == 0 {
            self.advance_clock(1);
        } else {
            // As in the kernel's workingset_eviction(), only the clocks of the target and of the
            // memcgs above it advance, not that of this memcg, which owns the page.
            self.evicted_for_target += 1;
            self.target.ahead += 1;
        }
    }

    const fn age_of_target(&self) -> u64 {
        self.own.nonresident_age + self.target.ahead
    }

    /// Returns whether the refaulting page of `shadow` was evicted recently, and counts the
    /// refault. The caller has set the target that the shadow names. `swap`: whether the target's
    /// anon pages can be evicted.
    pub(crate) fn refault(&mut self, shadow: Word, ty: FolioType, swap: bool) -> Refault {
        let (stamp, workingset) = shadow.shadow();
        let (age, sizes) = (self.age_of_target(), self.target.lists(self.own.sizes));
        let distance = self.clock.distance(age, u64::from(stamp));
        let detects = ty == FolioType::File || self.stage == Stage::Detection;
        let is_near = distance <= room(self.stage, ty, sizes, swap);
        let recent = detects && is_near && !self.target.is_gone;
        if recent {
            self.advance_clock(1);
            self.own.activations[ty.index()] += 1;
            if workingset {
                self.note_cost(ty, 1, 0);
            }
        }
        Refault {
            recent,
            workingset,
            tier: 0,
        }
    }

    /// Adds to the cost of scanning `ty`: `nr_io` pages of I/O, and `nr_rotated` pages scanned in
    /// vain.
    pub(crate) fn note_cost(&mut self, ty: FolioType, nr_io: u64, nr_rotated: u64) {
        let size = self.own.sizes.total();
        self.own.costs.note(ty, nr_io, nr_rotated, size);
        if let Some(notes) = &mut self.notes {
            notes.push(CostNote {
                ty,
                nr_io,
                nr_rotated,
                size,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page competes with all lists but the inactive list of its own type; with anon lists only
    /// if there is swap.
    /// spec: workingset.md 12, test 2.
    #[test]
    fn competing_memory_by_type_and_swap() {
        let sizes = Sizes {
            inactive: [20, 50],
            active: [30, 100],
        };
        let competing = |ty, swap| room(Stage::Detection, ty, sizes, swap);
        assert_eq!(
            (
                competing(FolioType::File, true),
                competing(FolioType::Anon, true)
            ),
            (150, 180)
        );
        assert_eq!(
            (
                competing(FolioType::File, false),
                competing(FolioType::Anon, false)
            ),
            (100, 150)
        );
    }
}
