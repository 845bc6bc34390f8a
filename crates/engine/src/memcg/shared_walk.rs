//! Shared walks: the concurrent direct reclaimers of one memcg (`root`) share a position in its
//! subtree. Each continues where another stopped, instead of all beginning with the same memcg.
//! spec: reclaim-control.md 5.3.
//!
//! Invariant: within one traversal (numbered by `round`) each memcg is returned to only one
//! reclaimer. A reclaimer's walk ends with the traversal that it joined, or, with `in_turn`, once
//! it has visited every memcg.

use super::{MemcgId, MemcgTree};
use alloc::collections::BTreeMap;

#[derive(Clone, Copy, Debug, Default)]
struct Position {
    round: u64,
    at: Option<MemcgId>,
}

/// The shared positions: one for each memcg from which reclaimers start.
#[derive(Debug, Default)]
pub struct SharedPositions {
    positions: BTreeMap<MemcgId, Position>,
    in_turn: bool,
}

/// One reclaimer's participation in a traversal.
#[derive(Clone, Copy, Debug, Default)]
pub struct SharedWalk {
    round: Option<u64>,
    /// The first memcg that this reclaimer visited; `None` before.
    first: Option<MemcgId>,
}

impl SharedPositions {
    /// Creates an empty set of positions. With `in_turn`, a walk that joins a traversal continues
    /// into the next one until it has visited every memcg. Else it ends with the traversal, as in
    /// the kernel.
    #[must_use]
    pub const fn new(in_turn: bool) -> Self {
        Self {
            positions: BTreeMap::new(),
            in_turn,
        }
    }

    /// Returns the next memcg for the reclaimer of `walk`: `root` or a memcg below it; `None` when
    /// the walk has ended.
    pub fn next(
        &mut self,
        tree: &MemcgTree,
        root: MemcgId,
        walk: &mut SharedWalk,
    ) -> Option<MemcgId> {
        let extra_rounds = u64::from(self.in_turn);
        let position = self.positions.entry(root).or_default();
        let is_over = |round: u64| {
            walk.round
                .is_some_and(|joined| round > joined + extra_rounds)
        };
        if is_over(position.round) {
            return None;
        }
        let mut next = match position.at {
            None => Some(root),
            Some(at) => tree.after(root, at),
        };
        if next.is_none() {
            *position = Position {
                round: position.round + 1,
                at: None,
            };
            if is_over(position.round) {
                return None;
            }
            // A reclaimer that joins at the end of a traversal begins the next one.
            next = Some(root);
        }
        if self.in_turn && next == walk.first {
            return None;
        }
        walk.round.get_or_insert(position.round);
        walk.first = walk.first.or(next);
        position.at = next;
        next
    }

    /// Forgets `id`, which is being released. `before` is the memcg that preceded `id` in
    /// pre-order: positions at `id` move to it, so that the memcg after `id` is next.
    pub fn forget(&mut self, id: MemcgId, before: Option<MemcgId>) {
        self.positions.remove(&id);
        let positions = self.positions.values_mut();
        for position in positions.filter(|p| p.at == Some(id)) {
            position.at = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn tree() -> (MemcgTree, Vec<MemcgId>) {
        let mut tree = MemcgTree::new(true, 1, 1);
        let mut all = alloc::vec![MemcgId::ROOT];
        all.extend((0..3).map(|_| tree.create(MemcgId::ROOT)));
        (tree, all)
    }

    /// Two reclaimers visit each of four memcgs once in each round.
    /// spec: reclaim-control.md 11, test 14.
    #[test]
    fn two_reclaimers_share_a_traversal() {
        let (tree, mut all) = tree();
        let mut shared = SharedPositions::default();
        for _round in 0..3 {
            let mut walks = [SharedWalk::default(); 2];
            let mut seen = [Vec::new(), Vec::new()];
            let mut has_progress = true;
            while has_progress {
                has_progress = false;
                for (walk, seen) in walks.iter_mut().zip(&mut seen) {
                    if let Some(id) = shared.next(&tree, MemcgId::ROOT, walk) {
                        seen.push(id);
                        has_progress = true;
                    }
                }
            }
            assert_eq!((seen[0].len(), seen[1].len()), (2, 2), "each gets others");
            let mut both = seen.concat();
            both.sort_unstable();
            all.sort_unstable();
            assert_eq!(both, all, "each once");
        }
    }

    #[test]
    fn a_single_walk_visits_all_and_a_latecomer_ends_with_it() {
        let (tree, all) = tree();
        let mut shared = SharedPositions::default();
        let (mut first, mut late) = (SharedWalk::default(), SharedWalk::default());
        for &id in &all[..3] {
            assert_eq!(shared.next(&tree, MemcgId::ROOT, &mut first), Some(id));
        }
        let last = shared.next(&tree, MemcgId::ROOT, &mut late);
        assert_eq!(last, Some(all[3]));
        for walk in [&mut first, &mut late] {
            assert_eq!(shared.next(&tree, MemcgId::ROOT, walk), None);
        }
    }

    /// Regression: a walk that joined a traversal in the middle visited only the memcgs that
    /// remained, and the next walk began at the first memcg. So of two memcgs the first always
    /// contributed the missing pages.
    #[test]
    fn in_turn_each_walk_visits_all() {
        let (mut tree, all) = tree();
        let mut shared = SharedPositions::new(true);
        let mut take = |tree: &MemcgTree, most: usize| {
            let mut walk = SharedWalk::default();
            let mut next = || shared.next(tree, MemcgId::ROOT, &mut walk);
            let seen: Vec<MemcgId> = core::iter::from_fn(&mut next).take(most).collect();
            seen
        };
        assert_eq!(take(&tree, 2), all[..2]);
        assert_eq!(take(&tree, 9), [all[2], all[3], all[0], all[1]]);
        assert_eq!(take(&tree, 9), [all[2], all[3], all[0], all[1]]);
        assert_eq!(take(&tree, 1), [all[2]]);
        assert_eq!(take(&tree, 9), [all[3], all[0], all[1], all[2]]);
        // If the memcg at which the walk began is released, the walk ends with the traversal.
        let mut walk = SharedWalk::default();
        assert_eq!(shared.next(&tree, MemcgId::ROOT, &mut walk), Some(all[3]));
        tree.offline(all[3]);
        let before = tree.before(all[3]);
        assert!(tree.release(all[3]));
        shared.forget(all[3], before);
        let remaining = core::iter::from_fn(|| shared.next(&tree, MemcgId::ROOT, &mut walk));
        assert_eq!(remaining.collect::<Vec<_>>(), all[..3]);
    }

    #[test]
    fn a_position_at_a_released_memcg_is_not_lost() {
        let (mut tree, all) = tree();
        let (mut shared, mut walk) = (SharedPositions::default(), SharedWalk::default());
        for _ in 0..2 {
            shared.next(&tree, MemcgId::ROOT, &mut walk);
        }
        tree.offline(all[1]);
        let before = tree.before(all[1]);
        assert!(tree.release(all[1]));
        shared.forget(all[1], before);
        assert_eq!(shared.next(&tree, MemcgId::ROOT, &mut walk), Some(all[2]));
    }
}
