//! Walks of the page tables of one address space: complete walks before aging, and look-around at a
//! page that eviction found young.
//! spec: lru-gen.md 5.2, 7.
//!
//! Invariants: after a walk, no page in a table that it read is accessed, except through a VMA
//! without recency. All bits in a skipped table stay as they were.

use super::{ACCESSED, AroundFindings, BESIDE, ENTRIES, Space};
use crate::vma::Vma;
use engine::lru_gen::{is_dense, look_around_window};
use engine::{FolioId, Lruvec, ScanReason};
use std::ops::Range;

/// Which tables a walk reads. A walk never reads a table that has no accessed page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkKind {
    /// Tables in the Bloom filter.
    Filtered,
    /// All tables; the walk fills the filter for the next walk (the kernel's `force_scan`).
    Forced,
    /// All tables; there are no filters.
    Unfiltered,
}

/// Counts of all walks so far. The kernel has the first four counts, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkCounts {
    /// Number of page-table entries read, present or not.
    pub total: u64,
    /// Number of entries found accessed.
    pub young: u64,
    /// Number of tables read.
    pub found: u64,
    /// Number of tables with enough accessed pages to be in the next filter.
    pub added: u64,
    /// Number of tables skipped because they were not in the filter.
    pub passed_by: u64,
    /// Number of neighbours that look-around found accessed.
    pub around: u64,
}

impl WalkCounts {
    /// Adds the counts of another space.
    pub const fn add(&mut self, other: Self) {
        self.total += other.total;
        self.young += other.young;
        self.found += other.found;
        self.added += other.added;
        self.passed_by += other.passed_by;
        self.around += other.around;
    }
}

fn cut(vma: &Vma, pages: Range<u64>) -> Range<u64> {
    vma.start.max(pages.start)..vma.end.min(pages.end)
}

impl Space {
    /// Returns the counts of this space.
    #[must_use]
    pub const fn walk_counts(&self) -> WalkCounts {
        self.counts
    }

    /// Makes the walk that precedes a new generation of `lruvec`. The walk is skipped if the
    /// program has not run since the last walk, unless it is forced. The filters of a skipped space
    /// do not change, so the next walk still reads the tables in which an older walk found many
    /// accessed pages.
    /// spec: lru-gen.md 5.1.
    pub(in crate::scenario) fn walk(&mut self, lruvec: &mut Lruvec, kind: WalkKind) {
        let has_run = self.take_run();
        if kind == WalkKind::Filtered && !has_run {
            return;
        }
        let recent = self.map.iter().filter(|vma| self.map.has_recency(vma));
        let recent: Vec<Vma> = recent.copied().collect();
        let seq = lruvec.lru_gen().max_seq();
        let filtered = kind != WalkKind::Unfiltered;
        if filtered {
            self.filters.begin(seq);
        }
        for leaf in 0..self.directory.len() {
            if !self.directory[leaf].as_ref().is_some_and(|l| l.accessed) {
                continue;
            }
            if kind == WalkKind::Filtered && !self.filters.test(seq, leaf as u64) {
                self.counts.passed_by += 1;
                continue;
            }
            self.counts.found += 1;
            let (total, young) = self.walk_leaf(leaf, &recent, lruvec);
            if filtered && total > 0 && is_dense(young, total) {
                self.filters.add_for_next(seq, leaf as u64);
                self.counts.added += 1;
            }
        }
    }

    /// Walks one table. Returns the number of its entries in VMAs with recency, and how many of
    /// these were accessed.
    fn walk_leaf(&mut self, leaf: usize, recent: &[Vma], lruvec: &mut Lruvec) -> (u64, u64) {
        let pages = (leaf * ENTRIES) as u64..((leaf + 1) * ENTRIES) as u64;
        let (mut total, mut young) = (0, 0);
        for vma in recent {
            for page in cut(vma, pages.clone()) {
                total += 1;
                young += u64::from(self.take_young(page, vma, lruvec));
            }
        }
        self.leaf(leaf).accessed = false;
        self.counts.total += total;
        self.counts.young += young;
        (total, young)
    }

    /// Clears the accessed bit of `page`, and reports the page to `lruvec` if the bit was set.
    fn take_young(&mut self, page: u64, vma: &Vma, lruvec: &mut Lruvec) -> bool {
        let young = self.clear_young(page);
        if young {
            vma.folio(page).into_iter().for_each(|id| lruvec.young(id));
        }
        young
    }

    /// Clears the accessed bit of `page`; returns whether it was set.
    fn clear_young(&mut self, page: u64) -> bool {
        let bits = self.bits(page);
        let young = bits & ACCESSED != 0;
        if young {
            self.set(page, bits & !ACCESSED);
        }
        young
    }

    /// Returns the pages where `id` is mapped.
    fn pages_of(&self, id: FolioId) -> Vec<u64> {
        self.map.mappings(id).map(|(page, _)| page).collect()
    }

    /// Does the look-around for a page that eviction has found accessed: clears the accessed bits
    /// of its neighbours. A neighbour in the same batch is then kept, and does not cause another
    /// look-around.
    pub(in crate::scenario) fn look_around(&mut self, id: FolioId) {
        for page in self.pages_of(id) {
            self.look_around_page(page);
        }
    }

    fn look_around_page(&mut self, page: u64) {
        let Some(vma) = self.recent_vma(page) else {
            return;
        };
        let Some(window) = look_around_window(page, vma.start..vma.end) else {
            return;
        };
        // The page itself counts as young.
        let (total, mut found) = (window.end - window.start, 1);
        for page in window {
            if self.clear_young(page) {
                found += 1;
                self.set(page, self.bits(page) | BESIDE);
                self.around.young.extend(vma.folio(page));
            }
        }
        self.counts.around += found - 1;
        if is_dense(found, total) {
            self.around.dense.push(super::entry(page).0 as u64);
        }
    }

    /// Returns whether look-around found the page of `id` accessed and has not reported it yet.
    pub(in crate::scenario) fn was_found_beside(&self, id: FolioId) -> bool {
        let mut mappings = self.map.mappings(id);
        mappings.any(|(page, _)| self.bits(page) & BESIDE != 0)
    }

    /// Reports to `lruvec` the findings of look-around since the last report, in a reclaim for
    /// `reason`. Adds tables with many accessed pages to the filter of the next walk.
    pub(in crate::scenario) fn report_neighbours(
        &mut self,
        lruvec: &mut Lruvec,
        reason: ScanReason,
    ) {
        let seq = lruvec.lru_gen().max_seq();
        let AroundFindings { young, dense } = std::mem::take(&mut self.around);
        for id in young {
            for page in self.pages_of(id) {
                self.set(page, self.bits(page) & !BESIDE);
            }
            lruvec.young_neighbour(id, reason);
        }
        for leaf in dense {
            self.filters.add(seq, leaf);
        }
    }

    /// Checks that the table of each accessed page has its accessed bit set.
    ///
    /// # Errors
    /// The page for which this does not hold.
    pub fn check(&self) -> Result<(), String> {
        for (n, leaf) in (0u64..).zip(&self.directory) {
            let Some(leaf) = leaf.as_ref().filter(|leaf| !leaf.accessed) else {
                continue;
            };
            for (at, bits) in (0u64..).zip(leaf.bits) {
                let page = n * ENTRIES as u64 + at;
                if bits & ACCESSED != 0 && self.recent_vma(page).is_some() {
                    return Err(format!("page {page} is accessed, its table is not"));
                }
            }
        }
        Ok(())
    }
}

/// Plants a bug: all present pages are accessed, but the accessed bits of their tables are clear.
#[cfg(test)]
impl Space {
    pub(in crate::scenario) fn hide(&mut self) {
        for leaf in self.directory.iter_mut().flatten() {
            leaf.bits
                .iter_mut()
                .for_each(|bits| *bits |= (*bits & super::PRESENT) << 1);
            leaf.accessed = false;
        }
    }
}

#[cfg(test)]
mod tests;
