//! Effective protection: how much of its memory.min or low a memcg gets, given the protection of
//! its parent and the claims of its siblings.
//! spec: reclaim-control.md 2.1.

use crate::units::{Pages, scaled};

/// Effective min and low of a memcg.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// Effective memory.min.
    pub min: Pages,
    /// Effective memory.low.
    pub low: Pages,
}

/// Inputs of [`effective_protection`] for one child, for min or for low.
#[derive(Clone, Copy, Debug)]
pub struct ProtectionInput {
    /// The child's usage.
    pub usage: Pages,
    /// The usage of the child's parent.
    pub parent_usage: Pages,
    /// The child's memory.min or memory.low.
    pub setting: Pages,
    /// The parent's effective protection.
    pub parent_effective: Pages,
    /// Sum of `min(usage, setting)` over all children of the parent.
    pub siblings_protected: Pages,
    /// Whether the mount option memory_recursiveprot is set: then protection that no child claims
    /// is divided among the children by their usage.
    pub recursive: bool,
}

/// Returns the child's effective protection. Integer divisions round down, as in the kernel.
#[must_use]
pub fn effective_protection(input: ProtectionInput) -> Pages {
    let ProtectionInput {
        usage,
        parent_usage,
        setting,
        parent_effective,
        ..
    } = input;
    let siblings = input.siblings_protected;
    let protected = usage.min(setting);
    if siblings > parent_effective {
        return Pages(scaled(protected.0, parent_effective.0, siblings.0));
    }
    let shares = parent_usage > siblings && usage > protected && parent_effective > siblings;
    if !input.recursive || !shares {
        return protected;
    }
    let unclaimed = parent_effective.less(siblings);
    let above = usage.less(protected);
    let share = scaled(unclaimed.0, above.0, parent_usage.less(siblings).0);
    Pages(protected.0 + share)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effective(
        usage: u64,
        setting: u64,
        parent: (u64, u64),
        siblings: u64,
        recursive: bool,
    ) -> u64 {
        let input = ProtectionInput {
            usage: Pages(usage),
            parent_usage: Pages(parent.0),
            setting: Pages(setting),
            parent_effective: Pages(parent.1),
            siblings_protected: Pages(siblings),
            recursive,
        };
        effective_protection(input).0
    }

    /// If children claim more than the parent has, each gets a part in proportion to its claim.
    /// spec: reclaim-control.md 11, test 1.
    #[test]
    fn overcommitted_protection_is_shared_in_proportion() {
        assert_eq!(effective(8, 8, (16, 10), 16, false), 5);
        assert_eq!(effective(8, 8, (10, 10), 10, false), 8);
        assert_eq!(effective(2, 2, (10, 10), 10, false), 2);
    }

    /// With memory_recursiveprot the protection that no child claims is divided by usage.
    /// spec: reclaim-control.md 11, test 2.
    #[test]
    fn recursive_protection_shares_the_unclaimed() {
        assert_eq!(effective(10, 4, (20, 10), 4, true), 6);
        assert_eq!(effective(10, 0, (20, 10), 4, true), 3);
    }

    /// Without memory_recursiveprot a child gets only what it claims.
    /// spec: reclaim-control.md 11, test 3.
    #[test]
    fn without_recursion_only_the_claimed() {
        assert_eq!(effective(10, 4, (20, 10), 4, false), 4);
        assert_eq!(effective(10, 0, (20, 10), 4, false), 0);
    }

    #[test]
    fn never_more_than_usage_and_no_overflow() {
        assert_eq!(effective(3, u64::MAX, (3, u64::MAX), 3, true), 3);
        assert_eq!(
            effective(u64::MAX, u64::MAX, (u64::MAX, 7), u64::MAX, true),
            7
        );
    }
}
