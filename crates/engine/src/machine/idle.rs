//! Finds priorities at which a pass would visit every memcg and evict nothing. With 100,000 tenants
//! of a page each, every pass but the last would be in vain: eight times 200,000 visits for 128
//! pages.
//!
//! The kernel makes these passes, and so does a machine unless
//! [`super::MachineConfig::vain_passes`] is off. They move entries of the memcg LRU, and age the
//! memcgs that must age. Without them, the pass that scans also ages the memcgs that it visits.
//!
//! Invariant: at a priority that is not worth a pass no page would be evicted and no event counted.
//! After changes of a memcg's lruvec were handed over, its outlook is computed once.

use super::{Machine, ReclaimRequest};
use crate::folio::FolioType;
use crate::lru_gen::DEF_PRIORITY;
use crate::lruvec::Lruvec;
use crate::memcg::MemcgId;
use crate::units::{Limit, Pages};
use alloc::vec::Vec;

const PRIORITIES: usize = DEF_PRIORITY as usize + 1;

/// What reclaim from a memcg would do, as of its present lists and limits.
#[derive(Clone, Copy, Debug, Default)]
enum ReclaimOutlook {
    #[default]
    Nothing,
    /// The memcg must age before any page can be evicted.
    Age,
    /// A scan would find pages at this priority and at all lower ones; the second number is the
    /// memcg's resident pages.
    Scan(usize, u64),
    /// A pass at any priority has an effect.
    Always,
}

#[derive(Clone, Copy, Debug, Default)]
struct KnownOutlook {
    outlook: ReclaimOutlook,
    is_changed: bool,
}

/// The last known outlook of each memcg, and the number of memcgs with each outlook.
#[derive(Debug, Default)]
pub(super) struct VainPriorities {
    known: Vec<KnownOutlook>,
    changed: Vec<MemcgId>,
    always: u64,
    age: u64,
    /// Memcgs that can be scanned; the index is the highest priority at which a scan begins.
    scan: [u64; PRIORITIES],
    pages: u64,
}

impl VainPriorities {
    /// Notes that the lruvec or the settings of `id` have changed, or that `id` was removed.
    #[inline]
    pub(super) fn note(&mut self, id: MemcgId) {
        let known = self.known.get(id.index());
        if known.is_none_or(|known| !known.is_changed) {
            self.note_first(id);
        }
    }

    #[cold]
    fn note_first(&mut self, id: MemcgId) {
        if self.known.len() <= id.index() {
            self.known.resize(id.index() + 1, KnownOutlook::default());
        }
        self.known[id.index()].is_changed = true;
        self.changed.push(id);
    }

    fn set(&mut self, id: MemcgId, outlook: ReclaimOutlook) {
        let is_changed = false;
        let before = core::mem::replace(
            &mut self.known[id.index()],
            KnownOutlook {
                outlook,
                is_changed,
            },
        );
        self.count(before.outlook, |count, by| *count -= by);
        self.count(outlook, |count, by| *count += by);
    }

    fn count(&mut self, outlook: ReclaimOutlook, change: impl Fn(&mut u64, u64)) {
        match outlook {
            ReclaimOutlook::Nothing => {}
            ReclaimOutlook::Age => change(&mut self.age, 1),
            ReclaimOutlook::Always => change(&mut self.always, 1),
            ReclaimOutlook::Scan(priority, pages) => {
                change(&mut self.scan[priority], 1);
                change(&mut self.pages, pages);
            }
        }
    }

    fn is_worth_a_pass(&self, nr: Pages, priority: usize) -> bool {
        let scans = self.scan[priority..].iter().any(|&count| count > 0);
        // If the pages that can be scanned are too few, memcgs that must age do so first.
        self.always > 0 || scans || (self.age > 0 && Pages(self.pages) < nr)
    }
}

impl Machine {
    /// Whether a pass at `priority` could reclaim any page for `request` from any tenant.
    pub(super) fn is_worth_a_pass(&mut self, request: ReclaimRequest, priority: u32) -> bool {
        // Outlooks are for all memory nodes together; they say nothing about one node.
        if self.config.vain_passes || self.node.is_some() {
            return true;
        }
        // A memcg that lacks swap counts an event at each pass.
        let swap = self.tree.get(MemcgId::ROOT).limits().swap_max;
        let is_short = swap != Limit::Max || self.no_swap == Some(request.now);
        if is_short || request.swappiness.is_some() {
            return true;
        }
        self.hand_all_over();
        let mut changed = core::mem::take(&mut self.idle.changed);
        for id in changed.drain(..) {
            let outlook = self.reclaim_outlook(id);
            self.idle.set(id, outlook);
        }
        self.idle.changed = changed;
        self.idle.is_worth_a_pass(request.nr, priority as usize)
    }

    fn reclaim_outlook(&self, id: MemcgId) -> ReclaimOutlook {
        let Some(lruvec) = self.lruvecs.get(id.index()).and_then(Option::as_ref) else {
            return ReclaimOutlook::Nothing;
        };
        let limits = self.tree.get(id).limits();
        if limits.low > Pages(0) || limits.swap_max != Limit::Max {
            return ReclaimOutlook::Always;
        }
        let (swappiness, online) = (self.swappiness(id, None), self.tree.is_online(id));
        let Some(lru) = lruvec.multi_gen() else {
            // Partly protected and offline memcgs are scanned at every priority. Whether a parent's
            // inactive list is low depends on the memcgs below, too.
            let is_parent = self.tree.children(id).next().is_some();
            let always =
                !online || limits.min > Pages(0) || (is_parent && lruvec.resident() > Pages(0));
            return classic_outlook(lruvec)
                .filter(|_| !always)
                .unwrap_or(ReclaimOutlook::Always);
        };
        if lruvec.evictable_total(swappiness) == Pages(0) {
            return ReclaimOutlook::Nothing;
        }
        let target = |priority| lru.nr_to_scan(swappiness, priority, (online, None));
        let scans = |&priority: &u32| {
            let target = target(priority);
            !target.must_age && target.scan > 0
        };
        match (0..=DEF_PRIORITY).rev().find(scans) {
            Some(priority) => ReclaimOutlook::Scan(priority as usize, lruvec.resident().0),
            None => ReclaimOutlook::Age,
        }
    }
}

/// Predicts reclaim from classic lists: the highest priority at which the scan target of some list
/// is at least one page. `None` if the inactive anon list is low: then a pass of any priority moves
/// pages to it.
fn classic_outlook(lruvec: &Lruvec) -> Option<ReclaimOutlook> {
    let lru = lruvec
        .classic()
        .filter(|lru| !lru.is_low(FolioType::Anon))?;
    let sizes = lru.sizes();
    let longest = sizes.inactive.into_iter().chain(sizes.active).max();
    let Some(priority) = longest.unwrap_or(0).checked_ilog2() else {
        return Some(ReclaimOutlook::Nothing);
    };
    let priority = priority.min(DEF_PRIORITY) as usize;
    Some(ReclaimOutlook::Scan(priority, lruvec.resident().0))
}

#[cfg(test)]
mod tests;
