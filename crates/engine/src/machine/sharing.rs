//! Who gives how much of what is wanted of a subtree. spec: lru-gen.md 5.5; reclaim-control.md 5.3.
//!
//! At each priority the kernel scans a part of each lruvec's size, in batches of 64 pages, so all are pressed alike. In batches of thousands
//! who was met first gave all that was wanted, and of two tenants under one wall the same one each time: it ran at a third of the
//! other's speed. So what is wanted is divided by size first, in batches as large as that comes to. What is still lacking then is
//! taken at rising priority, of each no more than its size asks for there.
//!
//! Invariant: the parts of all are together no more than what is wanted.

use super::{Machine, ReclaimRequest};
use crate::lru_gen::{DEF_PRIORITY, LruGen, MIN_LRU_BATCH};
use crate::memcg::MemcgId;
use crate::units::Pages;
use crate::vmscan::{ScanControl, Share};

/// How one pass over a subtree shares out what is wanted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Sharing {
    /// Each visit may take all: the kernel's batches bound it, or nobody else is there.
    #[default]
    Whole,
    /// By size at the pass's priority.
    BySize,
    /// So much of so many pages.
    Divided { wanted: Pages, open: u64 },
}

impl Machine {
    /// How a pass over `target` at `priority` shares out `request`; `low_reclaim`: those below low give, too.
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

    /// The share of `id` in a pass; `None` where it is too small to be worth a visit: what it would have given is taken at the next
    /// priorities, of one after the other.
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

    /// Pages of `id` that a reclaim may scan.
    fn open(&self, id: MemcgId, sc: &ScanControl) -> u64 {
        let of = |lru: &LruGen| {
            let who = (sc.online, sc.protection);
            lru.nr_to_scan(sc.swappiness, DEF_PRIORITY, who).open
        };
        self.lruvec(id).multi_gen().map_or(0, of)
    }
}

#[cfg(test)]
mod tests;
