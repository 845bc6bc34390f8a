//! Usage of tenants, counted or measured; how many of their pages are unprotected; and their
//! histogram of page ages.
//!
//! Invariant: a measured usage replaces the counted usage for limits and protection, and for
//! nothing else.

use super::Machine;
use crate::folio::FolioType;
use crate::memcg::MemcgId;
use crate::units::{Millis, Pages};
use crate::workingset_report::{Aggregation, Bins, PageAge};

impl Machine {
    /// Returns the page-age histogram of `memcg` and all memcgs below it. Its sum is the number of
    /// resident pages: pages of unknown age (on no list now, or under the classic policy) count as
    /// young.
    #[must_use]
    pub fn page_age(&self, memcg: MemcgId, now: Millis, bins: &Bins, mode: Aggregation) -> PageAge {
        let mut report = PageAge::new(bins);
        for id in self.tree.pre_order(memcg) {
            let lruvec = self.lruvec(id);
            if let Some(lru) = lruvec.multi_gen() {
                report.add(lru, now, mode);
            }
            for ty in FolioType::ALL {
                let (active, inactive) = lruvec.active_inactive(ty);
                let classic = lruvec.classic().is_some();
                let unknown = if classic { active.0 + inactive.0 } else { 0 };
                report.add_young(ty, Pages(unknown + lruvec.off_list(ty).0));
            }
        }
        report
    }

    /// Returns how many pages of `memcg` neither its min nor its low protects: proactive reclaim
    /// may take them.
    #[must_use]
    pub fn unprotected(&self, memcg: MemcgId) -> Pages {
        let memcg = self.tree.get(memcg);
        let limits = memcg.limits();
        memcg.beyond(limits.min.max(limits.low))
    }

    /// Returns how many pages of `memcg` a reclaim by age of `target` may take: those above the
    /// effective min and low of `memcg`, as computed from `target` down.
    pub fn unprotected_from(&mut self, target: MemcgId, memcg: MemcgId) -> Pages {
        if memcg == target || memcg == MemcgId::ROOT {
            return self.unprotected(memcg);
        }
        self.tree.calculate_path(target, memcg);
        let memcg = self.tree.get(memcg);
        let effective = memcg.protection();
        memcg.beyond(effective.min.max(effective.low))
    }

    /// Sets the usage of `memcg` to a measured number of pages: on a host, page cache and pages
    /// that no walk has seen yet count, too. It replaces the counted usage for limits and
    /// protection; see [`crate::memcg::MemcgTree::set_measured`].
    pub fn set_measured(&mut self, memcg: MemcgId, usage: Pages) {
        self.tree.set_measured(memcg, Some(usage));
        self.note_measured(memcg);
    }
}

#[cfg(test)]
mod tests;
