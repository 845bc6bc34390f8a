//! Refault distances of the classic LRU. spec: workingset.md 4, 5.
//!
//! A shadow names the target of the reclaim that took its page, and stores that one's clock at eviction. If as
//! many pages have been evicted or activated there since as its other lists hold, or fewer, the page would have
//! stayed, had it competed with them.

use super::{ActiveInactive, CostNote, Sizes, Stage};
use crate::folio::{FolioId, FolioTable, FolioType};
use crate::word::{Flag, Word};
use crate::workingset::Refault;

/// The room that a refaulting page of type `ty` competes for: every list but its own inactive one;
/// anon only when it can be evicted. spec: workingset.md 5.1.
#[must_use]
pub const fn room(stage: Stage, ty: FolioType, sizes: Sizes, swap: bool) -> u64 {
    let [anon, file] = [FolioType::Anon.index(), FolioType::File.index()];
    let mut room = sizes.active[file];
    if matches!(stage, Stage::Protection) {
        // Between the patches of the series only active pages counted.
        return if swap {
            room + sizes.active[anon]
        } else {
            room
        };
    }
    if matches!(ty, FolioType::Anon) {
        room += sizes.inactive[file];
    }
    if swap {
        room += sizes.active[anon];
        if matches!(ty, FolioType::File) {
            room += sizes.inactive[anon];
        }
    }
    room
}

impl ActiveInactive {
    /// An isolated page has left: the stamp is read before the clock moves on.
    pub(crate) fn evicted(&mut self, folios: &mut FolioTable, id: FolioId) {
        let word = folios.get(id);
        let stamp = u32::try_from(self.clock.stamp(self.age_of_target())).unwrap_or(0);
        self.names.set(id, self.target.steps);
        folios.set(id, word.into_shadow(stamp, word.has(Flag::Workingset)));
        self.advance_clock(1);
    }

    const fn age_of_target(&self) -> u64 {
        self.own.nonresident_age + self.target.ahead
    }

    /// Whether the page of `shadow`, which comes back, left recently, by the lists of the target that it names,
    /// which is set. `swap` as in [`room`], of the target.
    pub(crate) fn refault(&mut self, shadow: Word, ty: FolioType, swap: bool) -> Refault {
        let (stamp, workingset) = shadow.shadow();
        let (age, sizes) = (self.age_of_target(), self.target.lists(self.own.sizes));
        let distance = self.clock.distance(age, u64::from(stamp));
        let detects = ty == FolioType::File || self.stage == Stage::Detection;
        let near = distance <= room(self.stage, ty, sizes, swap);
        let recent = detects && near && !self.target.is_gone;
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

    /// Scanning `ty` cost so many pages of I/O and so many that were looked at in vain.
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

    /// workingset.md 12, test 2.
    #[test]
    fn room_by_type_and_swap() {
        let sizes = Sizes {
            inactive: [20, 50],
            active: [30, 100],
        };
        let of = |ty, swap| room(Stage::Detection, ty, sizes, swap);
        assert_eq!(
            (of(FolioType::File, true), of(FolioType::Anon, true)),
            (150, 180)
        );
        assert_eq!(
            (of(FolioType::File, false), of(FolioType::Anon, false)),
            (100, 150)
        );
    }
}
