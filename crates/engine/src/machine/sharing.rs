//! How a reclaim request is divided among the memcgs of a subtree: each memcg's *share*.
//! spec: lru-gen.md 5.5; reclaim-control.md 5.3.
//!
//! At each priority the kernel scans a part of each lruvec's size, in batches of 64 pages, so the
//! pressure on all is equal. With batches of thousands, the first memcg of the walk would
//! contribute everything. Of two tenants under one limit the first is always the same, and would
//! run at a third of the other's speed. So the request is first divided by size, and each memcg
//! contributes its part in one batch. Pages that are then still missing are reclaimed with rising
//! pressure, from each memcg at most the part of its size that the priority implies.
//!
//! In reclaim by the memcg LRU each memcg contributes by its size and the priority, too. But it
//! contributes at most its part of the pages that are still missing (or one batch of the kernel's
//! size, if that is more). Without this bound a pass is unfair where many memcgs only age because
//! their pages were accessed: meanwhile the pressure rises, and the first memcg with old pages
//! would contribute half of its size. At the last priority each memcg contributes all it has, so
//! that the request is met even if few memcgs have old pages.
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
    /// Each memcg may contribute the whole request: either the kernel's small batches limit it, or
    /// the target is the only memcg.
    #[default]
    Whole,
    /// Each memcg contributes by its size and the pass's priority.
    BySize,
    /// Each memcg contributes the fraction `wanted / open` of its scannable pages; `open` is the
    /// number of scannable pages of all memcgs.
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

    /// Returns the share of `id` in a pass; `None` if the share is too small for a visit. Such
    /// parts are reclaimed at the next priorities instead.
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
        // Of a partly protected memcg only the pages above its protection are scanned. Protection
        // changes as siblings lose pages, so such a memcg is scanned little at a time.
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

    /// Returns how many pages of `id` a reclaim of the root may evict: those of types that may be
    /// evicted, minus the protected part. The caller has computed the protection of `id`.
    fn unprotected_evictable(&self, id: MemcgId, swappiness: Option<Swappiness>) -> u64 {
        let all = self.evictable(id, swappiness);
        let low_reclaim = self.config.low_last && self.takes_below_low;
        let protection = self.protection((MemcgId::ROOT, id), low_reclaim);
        protection.map_or(all, |protection| protection.scan(all).min(all))
    }

    /// Returns how many pages of `id` a reclaim may scan, if need be after aging; 0 under the
    /// classic policy. A reclaim of one memory node does not age for its part, because that would
    /// move the pages of other nodes, too.
    fn open(&self, id: MemcgId, sc: &ScanControl) -> u64 {
        let state = (sc.online, sc.protection);
        let of = |lru: &LruGen| match sc.node {
            None => lru.open_once_aged(sc.swappiness, sc.protection),
            node => {
                lru.nr_to_scan_on(node, sc.swappiness, DEF_PRIORITY, state)
                    .open
            }
        };
        self.lruvec(id).multi_gen().map_or(0, of)
    }
}

/// Returns `wanted * pages / all`: the part of `wanted` that a memcg with `pages` of `all` pages
/// contributes.
fn part_of(wanted: Pages, pages: u64, all: u64) -> u64 {
    let part = u128::from(wanted.0) * u128::from(pages) / u128::from(all.max(1));
    u64::try_from(part).unwrap_or(wanted.0)
}

#[cfg(test)]
mod tests;
