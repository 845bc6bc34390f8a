//! On whose behalf pages of a lruvec leave, and by whose lists they are judged when they come back.
//! spec: workingset.md 4, 5.1, I7.
//!
//! That is the target of reclaim, the lruvec's own memcg or one above it; the machine says which before
//! each operation. The state word has no room for its name, so that stands beside it.
//!
//! Invariant: the name of a page that is out is that of the target whose clock its stamp is of.

use super::Sizes;
use crate::folio::FolioId;
use alloc::vec::Vec;

/// The target, as its lruvec sees it. By default the lruvec is alone.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Target {
    /// How many levels it is above the lruvec's memcg.
    pub(crate) steps: u8,
    /// Its clock less what this lruvec has added to it: they go on together.
    pub(crate) ahead: u64,
    /// Pages on the lists of all others that belong to it.
    pub(crate) others: Sizes,
    /// It was deleted.
    pub(crate) is_gone: bool,
    /// Pages on the lists of those below the lruvec's own memcg.
    pub(crate) below: Sizes,
    /// What statistics show of these lists, where they come late.
    pub(crate) shown: Option<Shown>,
}

/// Lists as statistics show them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    /// Of the target and all below it.
    pub(crate) target: Sizes,
    /// Of the lruvec's own memcg and all below it.
    pub(crate) subtree: Sizes,
}

impl Target {
    /// The lists of the target, of which a lruvec has `own`.
    pub(super) fn lists(&self, own: Sizes) -> Sizes {
        self.shown
            .map_or_else(|| own.plus(self.others), |shown| shown.target)
    }

    /// The lists of the lruvec's memcg and all below it.
    pub(super) fn subtree(&self, own: Sizes) -> Sizes {
        self.shown
            .map_or_else(|| own.plus(self.below), |shown| shown.subtree)
    }
}

/// Names by page. Nothing is stored as long as every page leaves on its own memcg's behalf.
#[derive(Debug, Default)]
pub(super) struct Names(Vec<u8>);

impl Names {
    /// The page left for a target that is so many levels up.
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

    /// Forgets ids from `len` on.
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
    fn lists_are_what_is_shown_of_them() {
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
    fn names_cost_nothing_until_somebody_else_reclaims() {
        let mut names = Names::default();
        names.set(FolioId(9), 0);
        assert_eq!((names.get(FolioId(9)), names.footprint()), (0, 0));
        names.set(FolioId(9), 2);
        names.set(FolioId(3), 1);
        assert_eq!([9, 3, 4, 10].map(|id| names.get(FolioId(id))), [2, 1, 0, 0]);
        names.set(FolioId(9), 0);
        assert_eq!(names.get(FolioId(9)), 0, "the last eviction counts");
    }
}
