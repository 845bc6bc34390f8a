//! What can be seen of a machine: ages, counters, usage against limits, and why a page stays.

use super::Machine;
use crate::folio::{FolioId, FolioType};
use crate::lru_gen::Explanation;
use crate::memcg::MemcgId;
use crate::units::{Millis, Pages};
use crate::workingset_report::{Aggregation, Bins, PageAge};

impl Machine {
    /// Why a page would or would not be taken now.
    #[must_use]
    pub fn explain(&self, memcg: MemcgId, id: FolioId, now: Millis) -> Explanation {
        let swappiness = self.swappiness(memcg, None);
        self.lruvec(memcg).explain(id, swappiness, now)
    }

    /// How long the oldest page of `memcg` and all below it may have been idle; `None` without pages or
    /// generations.
    #[must_use]
    pub fn oldest_age(&self, memcg: MemcgId, now: Millis) -> Option<Millis> {
        let subtree = self.tree.pre_order(memcg);
        let lrus = subtree.iter().filter_map(|&id| self.lruvec(id).multi_gen());
        let births = lrus.flat_map(|lru| FolioType::ALL.map(|ty| lru.oldest_birth(ty)));
        births.flatten().min().map(|birth| now.since(birth))
    }

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

    /// How many pages `memcg` uses above its max or its high, whichever is less: usage as measured, where
    /// that was given ([`Self::set_measured`]).
    #[must_use]
    pub fn over_limit(&self, memcg: MemcgId) -> Pages {
        let memcg = self.tree.get(memcg);
        let limits = memcg.limits();
        memcg
            .usage()
            .less(limits.max.pages().min(limits.high.pages()))
    }

    /// How many pages `memcg` uses that neither its min nor its low protects: what proactive reclaim may take.
    #[must_use]
    pub fn unprotected(&self, memcg: MemcgId) -> Pages {
        let memcg = self.tree.get(memcg);
        let limits = memcg.limits();
        memcg.usage().less(limits.min.max(limits.low))
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
        memcg.usage().less(effective.min.max(effective.low))
    }

    /// `memcg` uses so many pages, as measured: on a host, page cache counts, too, and pages that no walk
    /// has seen yet. It takes the place of what is counted, for limits and protection; see
    /// [`crate::memcg::MemcgTree::set_measured`].
    pub fn set_measured(&mut self, memcg: MemcgId, usage: Pages) {
        self.tree.set_measured(memcg, Some(usage));
        self.note_measured(memcg);
    }

    /// From now on the usage of `memcg` is what is counted.
    pub fn forget_measured(&mut self, memcg: MemcgId) {
        self.tree.set_measured(memcg, None);
    }
}

#[cfg(test)]
mod tests;
