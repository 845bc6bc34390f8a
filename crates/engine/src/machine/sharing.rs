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
//! By the memcg LRU each memcg contributes by its size and the priority, too, but no more than its
//! part of what is still missing, and at least a batch as the kernel's. Otherwise a pass would be
//! unfair where many memcgs only age, because their pages were accessed: the priority rises
//! meanwhile, and the first memcg with old pages contributes half of its size. At the last priority
//! each memcg contributes what it has, so that the request is met even if few have anything.
//!
//! Invariant: all parts together are no more than the request, except for those that are less than
//! a batch.

use super::{Machine, ReclaimRequest};
use crate::lru_gen::{DEF_PRIORITY, LruGen, MIN_LRU_BATCH};
use crate::memcg::MemcgId;
use crate::units::{Pages, Swappiness};
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
                let part = part_of(wanted, self.open(id, sc), open);
                (part >= MIN_LRU_BATCH as u64).then_some(Share::Of(Pages(part)))
            }
        }
    }

    /// Decides how a pass over the root by the memcg LRU at `priority` divides the `missing` pages
    /// of `request`.
    pub(super) fn sharing_of_lru(
        &mut self,
        (request, priority): (&ReclaimRequest, u32),
        missing: Pages,
    ) -> Sharing {
        let root = MemcgId::ROOT;
        let is_classic = self.lruvec(root).classic().is_some();
        if self.config.batch <= MIN_LRU_BATCH || is_classic || priority == 0 {
            return Sharing::BySize;
        }
        let mut open = 0;
        for id in self.tree.pre_order(root) {
            self.tree.calculate_protection(root, id);
            let is_low = self.tree.below_low(root, id) && !self.takes_below_low;
            if !self.tree.below_min(root, id) && !is_low {
                open += self.unprotected_evictable(id, request.swappiness);
            }
        }
        Sharing::Divided {
            wanted: missing,
            open,
        }
    }

    /// Returns the share of `id` in a pass by the memcg LRU.
    pub(super) fn share_of_lru(
        &mut self,
        id: MemcgId,
        sharing: Sharing,
        request: &ReclaimRequest,
    ) -> Share {
        let Sharing::Divided { wanted, open } = sharing else {
            return Share::BySize;
        };
        self.tree.calculate_path(MemcgId::ROOT, id);
        let low_reclaim = self.config.low_last && self.takes_below_low;
        // A protected memcg is scanned by what exceeds its protection, which changes as its
        // siblings lose pages: at any priority, little at a time.
        if self.protection((MemcgId::ROOT, id), low_reclaim).is_some() {
            return Share::BySize;
        }
        let own = self.evictable(id, request.swappiness);
        Share::AtMost(Pages(part_of(wanted, own, open).max(MIN_LRU_BATCH as u64)))
    }

    /// Returns how many pages of `id` are of types that may be evicted.
    fn evictable(&self, id: MemcgId, swappiness: Option<Swappiness>) -> u64 {
        let swappiness = self.swappiness(id, swappiness);
        self.lruvec(id).evictable_total(swappiness).0
    }

    /// Returns how many pages of `id` are of types that may be evicted, without those that its
    /// protection, which the caller has computed, keeps from a reclaim of the root.
    fn unprotected_evictable(&self, id: MemcgId, swappiness: Option<Swappiness>) -> u64 {
        let all = self.evictable(id, swappiness);
        let low_reclaim = self.config.low_last && self.takes_below_low;
        let protection = self.protection((MemcgId::ROOT, id), low_reclaim);
        protection.map_or(all, |protection| protection.scan(all).min(all))
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

/// Returns the part of `wanted` that `pages` of `all` pages contribute.
fn part_of(wanted: Pages, pages: u64, all: u64) -> u64 {
    let part = u128::from(wanted.0) * u128::from(pages) / u128::from(all.max(1));
    u64::try_from(part).unwrap_or(wanted.0)
}

#[cfg(test)]
mod tests;
