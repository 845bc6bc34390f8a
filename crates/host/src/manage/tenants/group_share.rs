//! How many of the host's control groups are tenants of their own, and which, where there are more.
//!
//! Invariant: never more than [`MOST`], and where more want to be, the groups right below each
//! group share evenly what it has: no user keeps out the groups of another by making many. Those
//! that are tenants already come first, so who is one changes only where the shares do.

use std::cmp::Reverse;

/// Groups of the host that are tenants of their own. Each takes some 12 KiB of memory and half a
/// millisecond of a scan.
pub(super) const MOST: usize = 1000;
/// Levels of groups below `host`: real hosts have some ten.
pub(super) const LEVELS_MAX: usize = 32;
/// Length of a tenant's path, bytes: of a pod's container it is some 200.
pub(super) const PATH_MAX: usize = 1024;
/// Groups below each group that ask for a share it does not have yet.
pub(super) const ASKING_MAX: usize = 64;

/// For people.
pub(super) fn why() -> String {
    format!(
        "{MOST} groups of the host are tenants at most, {LEVELS_MAX} levels below `host` at most, with paths of {PATH_MAX} bytes at most"
    )
}

/// Which groups are tenants. Each is given by the place of its parent in the list, which comes
/// before it; the first has none. Of groups below the same parent those that come first have
/// precedence.
pub(super) fn choose(parents: &[Option<usize>], most: usize) -> Vec<bool> {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); parents.len()];
    // What each wants: one for itself, and what those below it want.
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
        // What a division leaves goes to those that come last here.
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

    /// The tree of a first group with groups below it, each of which has so many below itself; and
    /// how many tenants each of them then has.
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
    fn one_with_many_groups_keeps_out_nobody() {
        assert_eq!(shares(&[20_000, 3, 10], 100), [100 - 1 - 4 - 11, 4, 11]);
        assert_eq!(shares(&[20_000, 50, 20_000], 100), [33, 33, 33]);
        assert_eq!(shares(&[2, 3], 100), [3, 4], "all fit");
        assert_eq!(
            choose(&[None, Some(0), Some(0), Some(0)], 3),
            [true, true, true, false]
        );
        assert_eq!(choose(&[], 3), Vec::<bool>::new());
    }

    /// Regression: chains of 1,900 groups took a start 15 s.
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
        fn as_many_as_may_are_chosen_with_all_above_them(
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
            // Once they are tenants, they come first, and stay tenants.
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
