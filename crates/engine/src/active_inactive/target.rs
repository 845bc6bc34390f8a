//! The target: the memcg for which pages of a lruvec are reclaimed. The lists and the clock of the
//! target also decide whether a refault of these pages is recent.
//! spec: workingset.md 4, 5.1, I7.
//!
//! The target is the lruvec's own memcg or a memcg above it; the machine sets it before each
//! operation. Shadows name the target by its distance from the lruvec's memcg, in levels. A page's
//! word has no free bits for that name, so a table beside the words stores the names.
//!
//! Invariant: the stamp of an evicted page is of the clock of the target that the page's name
//! denotes.

use super::Sizes;
use crate::folio::FolioId;
use alloc::vec::Vec;

/// What a lruvec must know of the target of a reclaim. By default the lruvec is its own target.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Target {
    /// Number of levels from the lruvec's memcg up to the target; 0 if the memcg is the target.
    pub(crate) steps: u8,
    /// The target's clock minus the clock of this lruvec alone. It stays the same when both
    /// advance.
    pub(crate) ahead: u64,
    /// Pages on the lists of all other lruvecs of the target and the memcgs below it.
    pub(crate) others: Sizes,
    /// Whether the target memcg was deleted.
    pub(crate) is_gone: bool,
    /// Pages on the lists of memcgs below the lruvec's own memcg.
    pub(crate) below: Sizes,
    /// List sizes as the statistics show them, if these may lag behind; `None` to use the exact
    /// sizes.
    pub(crate) shown: Option<Shown>,
}

/// List sizes as the memory statistics show them, which may lag behind the lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    /// Pages of the target and all memcgs below it.
    pub(crate) target: Sizes,
    /// Pages of the lruvec's own memcg and all memcgs below it.
    pub(crate) subtree: Sizes,
}

impl Target {
    /// Returns the list sizes of the target and all memcgs below it. `own`: the sizes of this
    /// lruvec.
    pub(super) fn lists(&self, own: Sizes) -> Sizes {
        self.shown
            .map_or_else(|| own.plus(self.others), |shown| shown.target)
    }

    /// Returns the list sizes of the lruvec's memcg and all memcgs below it. `own`: the sizes of
    /// this lruvec.
    pub(super) fn subtree(&self, own: Sizes) -> Sizes {
        self.shown
            .map_or_else(|| own.plus(self.below), |shown| shown.subtree)
    }
}

/// The names of the targets of evicted pages: for each page the number of levels from the lruvec's
/// memcg up to it; the index is the page's id. Empty as long as every page was evicted by a reclaim
/// of its own memcg.
#[derive(Debug, Default)]
pub(super) struct TargetNames(Vec<u8>);

impl TargetNames {
    /// Records that the page was evicted for a target `steps` levels above.
    pub(super) fn set(&mut self, id: FolioId, steps: u8) {
        let at = id.0 as usize;
        if at >= self.0.len() {
            if steps == 0 {
                return;
            }
            self.0.resize(at + 1, 0);
        }
        self.0[at] = steps;
    }

    pub(super) fn get(&self, id: FolioId) -> u8 {
        self.0.get(id.0 as usize).copied().unwrap_or(0)
    }

    /// Drops the names of the ids from `len` on.
    pub(super) fn shrink(&mut self, len: usize) {
        self.0.truncate(len);
        self.0.shrink_to_fit();
    }

    pub(super) fn footprint(&self) -> usize {
        self.0.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_sizes_replace_the_exact_ones() {
        let sizes = |n| Sizes {
            inactive: [n, 0],
            active: [0, n],
        };
        let mut target = Target {
            others: sizes(10),
            below: sizes(20),
            ..Target::default()
        };
        let own = sizes(1);
        assert_eq!(
            (target.lists(own), target.subtree(own)),
            (sizes(11), sizes(21))
        );
        target.shown = Some(Shown {
            target: sizes(5),
            subtree: sizes(3),
        });
        assert_eq!(
            (target.lists(own), target.subtree(own)),
            (sizes(5), sizes(3))
        );
    }

    #[test]
    fn names_cost_nothing_until_another_memcg_reclaims() {
        let mut names = TargetNames::default();
        names.set(FolioId(9), 0);
        assert_eq!((names.get(FolioId(9)), names.footprint()), (0, 0));
        names.set(FolioId(9), 2);
        names.set(FolioId(3), 1);
        assert_eq!([9, 3, 4, 10].map(|id| names.get(FolioId(id))), [2, 1, 0, 0]);
        names.set(FolioId(9), 0);
        assert_eq!(names.get(FolioId(9)), 0, "the last eviction counts");
    }
}
