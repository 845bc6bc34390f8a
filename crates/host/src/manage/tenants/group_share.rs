//! Decides which of the host's control groups are tenants of their own, if not all of them can be.
//!
//! Invariant: at most [`MOST`] are. If there are more groups, the places of a group are divided
//! evenly among its children, so a user who makes many groups cannot keep another user's groups
//! out. Groups that are already tenants come first, so the choice is stable while the shares are.

use std::cmp::Reverse;

/// Maximum number of the host's groups that are tenants of their own. Each takes about 12 KiB of
/// memory and 0.5 ms of a scan.
pub(super) const MOST: usize = 1000;
/// Maximum depth of a group below `host`, in levels of the hierarchy; real hosts have about ten.
pub(super) const LEVELS_MAX: usize = 32;
/// Maximum length of a tenant's path in bytes; the path of a pod's container has about 200.
pub(super) const PATH_MAX: usize = 1024;
/// For each group, a scan considers at most this many new child groups more than there are free
/// places.
pub(super) const ASKING_MAX: usize = 64;

/// Returns the reason why groups are no tenants, for log lines and reports.
pub(super) fn why() -> String {
    format!(
        "{MOST} groups of the host are tenants at most, {LEVELS_MAX} levels below `host` at most, with paths of {PATH_MAX} bytes at most"
    )
}

/// Returns for each group whether it is a tenant; at most `most` groups are. `parents` has for each
/// group the index of its parent, `None` for the first group; parents come before their children.
/// Of the children of a group, earlier ones take precedence.
pub(super) fn choose(parents: &[Option<usize>], most: usize) -> Vec<bool> {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); parents.len()];
    // Each group needs one place, and the places that its children need.
    let mut wants = vec![1usize; parents.len()];
    for at in (0..parents.len()).rev() {
        if let Some(parent) = parents[at] {
            wants[parent] += wants[at];
            children[parent].push(at);
        }
    }
    let mut has = vec![0usize; parents.len()];
    if let Some(first) = has.first_mut() {
        *first = most;
    }
    for at in 0..parents.len() {
        let Some(mut left) = has[at].checked_sub(1) else {
            continue;
        };
        let mut below = std::mem::take(&mut children[at]);
        // If places cannot be divided evenly, the last groups in this order get one more each.
        below.sort_by_key(|child| (wants[*child], Reverse(*child)));
        let mut waiting = below.len();
        for child in below {
            has[child] = wants[child].min(left / waiting);
            left -= has[child];
            waiting -= 1;
        }
    }
    has.into_iter().map(|share| share > 0).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Makes a tree of a first group and its children; child `n` has `below[n]` children. Returns
    /// how many tenants each of these branches gets.
    fn shares(below: &[usize], most: usize) -> Vec<usize> {
        let mut parents = vec![None];
        parents.extend(below.iter().map(|_| Some(0)));
        for (at, count) in below.iter().enumerate() {
            parents.extend(std::iter::repeat_n(Some(at + 1), *count));
        }
        let chosen = choose(&parents, most);
        let of = |branch: usize| {
            let is_in = |at: usize| at == branch || parents[at] == Some(branch);
            (0..parents.len())
                .filter(|at| is_in(*at) && chosen[*at])
                .count()
        };
        (1..=below.len()).map(of).collect()
    }

    #[test]
    fn many_groups_below_one_parent_exclude_no_others() {
        assert_eq!(shares(&[20_000, 3, 10], 100), [100 - 1 - 4 - 11, 4, 11]);
        assert_eq!(shares(&[20_000, 50, 20_000], 100), [33, 33, 33]);
        assert_eq!(shares(&[2, 3], 100), [3, 4], "all fit");
        assert_eq!(
            choose(&[None, Some(0), Some(0), Some(0)], 3),
            [true, true, true, false]
        );
        assert_eq!(choose(&[], 3), Vec::<bool>::new());
    }

    /// Regression: with chains of 1,900 nested groups, the start took 15 s.
    #[test]
    fn a_chain_has_no_more_than_its_share() {
        let mut parents = vec![None, Some(0), Some(0)];
        parents.extend((2..2000).map(Some));
        let chosen = choose(&parents, 10);
        assert_eq!(chosen.iter().filter(|one| **one).count(), 10);
        assert!(chosen[1] && chosen[2] && chosen[9] && !chosen[10]);
    }

    proptest! {
        #[test]
        fn the_maximum_is_chosen_with_all_ancestors(
            above in prop::collection::vec(any::<prop::sample::Index>(), 0..200),
            most in 1usize..250,
        ) {
            let mut parents = vec![None];
            for above in above {
                parents.push(Some(above.index(parents.len())));
            }
            let chosen = choose(&parents, most);
            let count = chosen.iter().filter(|one| **one).count();
            prop_assert_eq!(count, most.min(parents.len()));
            for (at, parent) in parents.iter().enumerate() {
                prop_assert!(!chosen[at] || parent.is_none_or(|parent| chosen[parent]));
            }
            // Groups that are tenants come first in the next choice, and stay tenants.
            let (mut order, rest): (Vec<usize>, Vec<usize>) =
                (0..parents.len()).partition(|at| chosen[*at]);
            order.extend(rest);
            let place = |at: usize| order.iter().position(|one| *one == at);
            let again: Vec<_> = order.iter().map(|at| parents[*at].and_then(place)).collect();
            let again = choose(&again, most);
            prop_assert!(again.iter().take(count).all(|one| *one));
        }
    }
}
