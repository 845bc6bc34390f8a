//! The *level* of a memcg: the sums by which its reclaim decides. These are list sizes, eviction
//! clock, activations and costs of its lruvec and of the lruvecs of all memcgs below it.
//! spec: classic-lru.md 4.3, 5.2; workingset.md 2.
//!
//! Invariants: the clock never goes back; the values of an ancestor's level are at least those of
//! each descendant's (workingset.md I1). A lruvec has the level of its own lists only; the machine
//! sums these up. An eviction advances the clocks of the reclaim's target and of the memcgs above
//! it. An activation advances the clocks of the page's owner and of the memcgs above it.

use super::{Costs, Stage, inactive_is_low};
use crate::folio::FolioType;

/// Number of pages on each of the four lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Pages on the inactive lists: `[anon, file]`.
    pub inactive: [u64; 2],
    /// Pages on the active lists: `[anon, file]`.
    pub active: [u64; 2],
}

impl Sizes {
    /// Number of pages on all lists.
    #[must_use]
    pub fn total(self) -> u64 {
        self.inactive.iter().chain(&self.active).sum()
    }

    /// Returns the sums of these sizes and `other`, list by list.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.each(other, |a, b| a + b)
    }

    /// Returns these sizes minus those of `other`, list by list.
    ///
    /// # Panics
    /// When a list of `other` is longer than the same list here.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        self.each(other, |a, b| {
            a.checked_sub(b).expect("a part exceeds its whole")
        })
    }

    fn each(self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        let both = |a: [u64; 2], b: [u64; 2]| [f(a[0], b[0]), f(a[1], b[1])];
        Self {
            inactive: both(self.inactive, other.inactive),
            active: both(self.active, other.active),
        }
    }
}

/// Sums of one memcg and all memcgs below it, or of one lruvec alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// List sizes.
    pub sizes: Sizes,
    /// The eviction clock: number of pages evicted or activated so far.
    pub nonresident_age: u64,
    /// Number of refaults that activated a page, by type.
    pub activations: [u64; 2],
    /// What scanning each type has cost.
    pub costs: Costs,
}

impl Level {
    /// Whether the inactive list of `ty` is so short that active pages must be deactivated.
    #[must_use]
    pub fn is_low(&self, stage: Stage, ty: FolioType) -> bool {
        is_low(stage, self.sizes, ty)
    }
}

/// Whether the inactive list of `ty` is, by these `sizes`, so short that active pages must be
/// deactivated.
pub(super) const fn is_low(stage: Stage, sizes: Sizes, ty: FolioType) -> bool {
    let (inactive, active) = (sizes.inactive[ty.index()], sizes.active[ty.index()]);
    if matches!(stage, Stage::Protection) && matches!(ty, FolioType::Anon) {
        return inactive < active;
    }
    inactive_is_low(inactive, active)
}

/// A scan cost noted at one lruvec; the machine adds it to the levels of the memcgs above.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CostNote {
    pub(crate) ty: FolioType,
    pub(crate) nr_io: u64,
    pub(crate) nr_rotated: u64,
    /// Pages on the lruvec's own lists when the cost was noted: costs above a quarter of a level's
    /// size are halved.
    pub(crate) size: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_add_up() {
        let a = Sizes {
            inactive: [1, 2],
            active: [3, 4],
        };
        let b = Sizes {
            inactive: [10, 20],
            active: [30, 40],
        };
        assert_eq!((a.plus(b).total(), a.plus(b).less(a)), (110, b));
    }

    #[test]
    #[should_panic(expected = "a part exceeds its whole")]
    fn canary_a_part_exceeds_its_whole() {
        let larger = Sizes {
            inactive: [1, 0],
            ..Sizes::default()
        };
        let _ = Sizes::default().less(larger);
    }
}
