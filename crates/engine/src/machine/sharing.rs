//! How much of a request each memcg of a subtree contributes.
//! spec: lru-gen.md 5.5; reclaim-control.md 5.3.
//!
//! At each priority the kernel scans a part of each lruvec's size, in batches of 64 pages, so the
//! pressure on all is equal. With batches of thousands, the memcg that is met first would
//! contribute everything. Of two tenants under one limit this is always the same one, which then
//! runs at a third of the other's speed. So the request is first divided by size, and each memcg
//! contributes its part in one batch. What is still missing is taken at rising priority, from each
//! memcg at most what its size implies there.
//!
//! Invariant: all parts together are no more than the request.

use super::{Machine, ReclaimRequest};
use crate::lru_gen::{DEF_PRIORITY, LruGen, MIN_LRU_BATCH};
use crate::memcg::MemcgId;
use crate::units::Pages;
use crate::vmscan::{ScanControl, Share};

/// How one pass over a subtree divides the request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Sharing {
    /// Each memcg may contribute all: the kernel's small batches limit it, or there is no other
    /// memcg.
    #[default]
    Whole,
    /// Each memcg contributes by its size and the pass's priority.
    BySize,
    /// Each memcg contributes `wanted / open` of its scannable pages; `open` is the sum of these
    /// pages in all memcgs.
    Divided { wanted: Pages, open: u64 },
}

impl Machine {
    /// Decides how a pass over `target` at `priority` divides `request`. `low_reclaim`: memcgs
    /// below low contribute, too.
    pub(super) fn sharing(
        &mut self,
        target: MemcgId,
        (request, priority): (ReclaimRequest, u32),
        low_reclaim: bool,
    ) -> Sharing {
        let is_alone = self.tree.children(target).next().is_none();
        let is_classic = self.lruvec(target).classic().is_some();
        if self.config.batch <= MIN_LRU_BATCH || is_alone || is_classic {
            return Sharing::Whole;
        }
        if priority != DEF_PRIORITY || !self.is_exact(request.reason) {
            return Sharing::BySize;
        }
        let mut open = 0;
        for id in self.tree.pre_order(target) {
            self.tree.calculate_protection(target, id);
            let is_low = self.tree.below_low(target, id) && !low_reclaim;
            if !self.tree.below_min(target, id) && !is_low {
                let sc = ScanControl {
                    protection: self.protection((target, id), low_reclaim),
                    ..self.scan_control(id, request, priority)
                };
                open += self.open(id, &sc);
            }
        }
        Sharing::Divided {
            wanted: request.nr,
            open,
        }
    }

    /// Returns the share of `id` in a pass. `None` if it is too small to be worth a visit: that
    /// part is taken at the next priorities, from one memcg after the other.
    pub(super) fn share(&self, id: MemcgId, sharing: Sharing, sc: &ScanControl) -> Option<Share> {
        match sharing {
            Sharing::Whole => Some(Share::Whole),
            Sharing::BySize => Some(Share::BySize),
            Sharing::Divided { wanted, open } => {
                let part = u128::from(wanted.0) * u128::from(self.open(id, sc));
                let part = u64::try_from(part / u128::from(open.max(1))).unwrap_or(wanted.0);
                (part >= MIN_LRU_BATCH as u64).then_some(Share::Of(Pages(part)))
            }
        }
    }

    /// Returns how many pages of `id` a reclaim may scan; 0 under the classic policy.
    fn open(&self, id: MemcgId, sc: &ScanControl) -> u64 {
        let of = |lru: &LruGen| {
            let who = (sc.online, sc.protection);
            lru.nr_to_scan_on(sc.node, sc.swappiness, DEF_PRIORITY, who)
                .open
        };
        self.lruvec(id).multi_gen().map_or(0, of)
    }
}

#[cfg(test)]
mod tests;
