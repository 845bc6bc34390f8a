//! Usage of tenants, as counted or as measured, and what of it is unprotected; the page-age histogram.
//!
//! Invariant: a measured usage takes the place of the counted one for limits and protection, nowhere else.

use super::Machine;
use crate::folio::FolioType;
use crate::memcg::MemcgId;
use crate::units::{Millis, Pages};
use crate::workingset_report::{Aggregation, Bins, PageAge};

impl Machine {
    /// The page-age histogram of `memcg` and all below it. It sums to the resident pages: those of which
    /// no age is known (on no list right now, or under the classic policy) count as young.
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

    /// How many pages `memcg` has that neither its min nor its low protects: what proactive reclaim may take.
    #[must_use]
    pub fn unprotected(&self, memcg: MemcgId) -> Pages {
        let memcg = self.tree.get(memcg);
        let limits = memcg.limits();
        memcg.beyond(limits.min.max(limits.low))
    }

    /// How many pages of `memcg` a reclaim of `target` may take for their age: what neither its min nor its low, nor what it inherits of
    /// those above it up to `target`, protects.
    pub fn unprotected_from(&mut self, target: MemcgId, memcg: MemcgId) -> Pages {
        if memcg == target || memcg == MemcgId::ROOT {
            return self.unprotected(memcg);
        }
        self.tree.calculate_path(target, memcg);
        let memcg = self.tree.get(memcg);
        let effective = memcg.protection();
        memcg.beyond(effective.min.max(effective.low))
    }

    /// `memcg` uses so many pages, as measured: on a host, page cache counts, too, and pages that no walk
    /// has seen yet. It takes the place of what is counted, for limits and protection; see
    /// [`crate::memcg::MemcgTree::set_measured`].
    pub fn set_measured(&mut self, memcg: MemcgId, usage: Pages) {
        self.tree.set_measured(memcg, Some(usage));
        self.note_measured(memcg);
    }
}

#[cfg(test)]
mod tests;
