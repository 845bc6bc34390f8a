//! Decisions made once for all lruvecs of a reclaim pass, from the sums of the target memcg and all
//! memcgs below it (the kernel's prepare_scan_control).
//! spec: classic-lru.md 4.3, 5.1.
//!
//! Invariant: these decisions do not depend on the order in which the pass visits memcgs.

use super::{Costs, Level, Stage};
use crate::folio::FolioType;
use crate::units::Pages;

/// Decisions for one reclaim pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// What scanning each type has cost the target.
    pub costs: Costs,
    /// Whether active lists may be shrunk: `[anon, file]`.
    pub may_deactivate: [bool; 2],
    /// Whether this is a reclaim of a memcg (for a limit, or for memory.reclaim, also of the root),
    /// not of the machine.
    pub memcg_reclaim: bool,
    /// Whether the machine has hardly any file pages left: then only anon pages are scanned.
    pub file_is_tiny: bool,
    /// Whether there are enough inactive file pages that are not in use: then only file pages are
    /// scanned.
    pub cache_trim: bool,
}

/// Number of free pages of the machine, and the number that the machine needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FreePages {
    pub(crate) free: Pages,
    /// Number of free pages that the machine needs: the sum of its high watermarks.
    pub(crate) high: Pages,
}

impl Prepared {
    /// Makes the decisions for a reclaim of a memcg at `priority`. `level` has the sums of the
    /// target, `seen` its activations `[anon, file]` as of its last reclaim.
    pub(crate) fn new(
        (stage, level): (Stage, &Level),
        seen: [u64; 2],
        priority: u32,
        force_deactivate: bool,
    ) -> Self {
        let may_deactivate = FolioType::ALL.map(|ty| {
            let activated = level.activations[ty.index()] != seen[ty.index()];
            force_deactivate || activated || level.is_low(stage, ty)
        });
        let file = FolioType::File.index();
        Self {
            costs: level.costs,
            may_deactivate,
            memcg_reclaim: true,
            file_is_tiny: false,
            cache_trim: level.sizes.inactive[file] >> priority > 0 && !may_deactivate[file],
        }
    }

    /// Changes the decisions of [`Self::new`] to those for a reclaim from the whole machine.
    pub(crate) fn of_machine(self, level: &Level, priority: u32, pages: FreePages) -> Self {
        let (anon, file) = (FolioType::Anon.index(), FolioType::File.index());
        let cache = level.sizes.inactive[file] + level.sizes.active[file];
        let is_tiny = cache + pages.free.0 <= pages.high.0
            && !self.may_deactivate[anon]
            && level.sizes.inactive[anon] >> priority > 0;
        Self {
            memcg_reclaim: false,
            file_is_tiny: is_tiny,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::active_inactive::Sizes;

    const LEVEL: Level = Level {
        sizes: Sizes {
            inactive: [1000, 40],
            active: [500, 20],
        },
        nonresident_age: 0,
        activations: [7, 9],
        costs: Costs { anon: 0, file: 0 },
    };

    fn at(priority: u32, seen: [u64; 2]) -> Prepared {
        Prepared::new((Stage::Detection, &LEVEL), seen, priority, false)
    }

    #[test]
    fn deactivation_is_wanted_by_force_activation_or_a_low_list() {
        assert_eq!(at(2, [7, 9]).may_deactivate, [false, false]);
        assert_eq!(at(2, [6, 9]).may_deactivate, [true, false]);
        let forced = Prepared::new((Stage::Detection, &LEVEL), [7, 9], 2, true);
        assert_eq!(forced.may_deactivate, [true, true]);
        let mut low = LEVEL;
        low.sizes.inactive[1] = 19;
        let low = Prepared::new((Stage::Detection, &low), [7, 9], 2, false);
        assert_eq!(low.may_deactivate, [false, true]);
    }

    #[test]
    fn inactive_cache_is_trimmed_while_it_is_not_in_use() {
        assert!(at(5, [7, 9]).cache_trim);
        assert!(!at(6, [7, 9]).cache_trim, "40 >> 6 is nothing");
        assert!(!at(5, [7, 8]).cache_trim, "a file page has refaulted");
    }

    #[test]
    fn file_is_tiny_when_all_of_it_would_not_free_enough() {
        let tiny = |free, priority, seen| {
            let pages = FreePages {
                free: Pages(free),
                high: Pages(100),
            };
            let prepared = at(priority, seen).of_machine(&LEVEL, priority, pages);
            prepared.file_is_tiny
        };
        assert!(tiny(40, 2, [7, 9]), "60 file pages and 40 free ones");
        assert!(!tiny(41, 2, [7, 9]));
        assert!(!tiny(40, 2, [6, 9]), "anon is claimed, too");
        assert!(!tiny(40, 10, [7, 9]), "1000 >> 10 is nothing");
    }
}
