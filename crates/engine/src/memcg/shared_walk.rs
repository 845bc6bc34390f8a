//! The position that concurrent direct reclaimers of one root share, so that they continue each
//! other's round instead of all beginning with the same memcg. spec: reclaim-control.md 5.3.
//!
//! Invariant: within one round no memcg is handed out twice; a reclaimer sees the end of the round
//! that it joined, and nothing of the next one.

use super::{MemcgId, MemcgTree};
use alloc::collections::BTreeMap;

#[derive(Clone, Copy, Debug, Default)]
struct Position {
    round: u64,
    at: Option<MemcgId>,
}

/// The positions, one a root of reclaim.
#[derive(Debug, Default)]
pub struct SharedPositions(BTreeMap<MemcgId, Position>);

/// One reclaimer's way through a round.
#[derive(Clone, Copy, Debug, Default)]
pub struct SharedWalk {
    round: Option<u64>,
}

impl SharedPositions {
    /// The next memcg below `root`, itself included, for the reclaimer of `walk`; `None` when the
    /// round that it joined is over.
    pub fn next(
        &mut self,
        tree: &MemcgTree,
        root: MemcgId,
        walk: &mut SharedWalk,
    ) -> Option<MemcgId> {
        let position = self.0.entry(root).or_default();
        if walk.round.is_some_and(|round| round != position.round) {
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
            if walk.round.is_some() {
                return None;
            }
            // Whoever comes in just at the end begins the next round.
            next = Some(root);
        }
        walk.round = Some(position.round);
        position.at = next;
        next
    }

    /// `id` is released; `before` stood before it in pre-order. Positions at it go back by that one, so
    /// that what came behind `id` is next.
    pub fn forget(&mut self, id: MemcgId, before: Option<MemcgId>) {
        self.0.remove(&id);
        for position in self.0.values_mut().filter(|p| p.at == Some(id)) {
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

    /// reclaim-control.md 11, test 14.
    #[test]
    fn two_reclaimers_share_a_round() {
        let (tree, mut all) = tree();
        let mut shared = SharedPositions::default();
        for _round in 0..3 {
            let mut walks = [SharedWalk::default(); 2];
            let mut seen = [Vec::new(), Vec::new()];
            let mut going = true;
            while going {
                going = false;
                for (walk, seen) in walks.iter_mut().zip(&mut seen) {
                    if let Some(id) = shared.next(&tree, MemcgId::ROOT, walk) {
                        seen.push(id);
                        going = true;
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
    fn one_alone_goes_round_once_and_a_latecomer_ends_with_it() {
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
