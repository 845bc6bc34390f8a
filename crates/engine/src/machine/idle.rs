//! Priorities at which nobody has a page to give: there a pass would visit everybody in vain. Of 100,000 tenants
//! with a page each every pass but the last would: eight times 200,000 visits for 128 pages.
//!
//! The kernel makes these passes, and so does a machine unless [`super::MachineConfig::vain_passes`] is off. They
//! move entries of the memcg LRU about, and age whoever has to; without them the pass that scans does that, of those that
//! it comes to.
//!
//! Invariant: at a priority that is not worth a pass nobody gives a page and nobody counts an event; what a memcg
//! could do is looked at once for each time that its lruvec was handed over after changes.

use super::{Machine, ReclaimRequest};
use crate::folio::FolioType;
use crate::lru_gen::DEF_PRIORITY;
use crate::lruvec::Lruvec;
use crate::memcg::MemcgId;
use crate::units::{Limit, Pages};
use alloc::vec::Vec;

const PRIORITIES: usize = DEF_PRIORITY as usize + 1;

/// What reclaim of a memcg would do.
#[derive(Clone, Copy, Debug, Default)]
enum Can {
    #[default]
    Nothing,
    /// Age, and give nothing before.
    Age,
    /// Scan, of so many pages, at this priority or a lower one.
    Scan(usize, u64),
    /// Leave some trace at every priority.
    Always,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    can: Can,
    is_changed: bool,
}

/// What was last seen of each memcg, and how many can do what.
#[derive(Debug, Default)]
pub(super) struct Idle {
    seen: Vec<Seen>,
    changed: Vec<MemcgId>,
    always: u64,
    age: u64,
    /// By the highest priority at which they are scanned.
    scan: [u64; PRIORITIES],
    pages: u64,
}

impl Idle {
    /// The lruvec or the settings of `id` have changed, or it goes.
    #[inline]
    pub(super) fn note(&mut self, id: MemcgId) {
        let seen = self.seen.get(id.index());
        if seen.is_none_or(|seen| !seen.is_changed) {
            self.note_first(id);
        }
    }

    #[cold]
    fn note_first(&mut self, id: MemcgId) {
        if self.seen.len() <= id.index() {
            self.seen.resize(id.index() + 1, Seen::default());
        }
        self.seen[id.index()].is_changed = true;
        self.changed.push(id);
    }

    fn set(&mut self, id: MemcgId, can: Can) {
        let is_changed = false;
        let before = core::mem::replace(&mut self.seen[id.index()], Seen { can, is_changed });
        self.count(before.can, |count, by| *count -= by);
        self.count(can, |count, by| *count += by);
    }

    fn count(&mut self, can: Can, change: impl Fn(&mut u64, u64)) {
        match can {
            Can::Nothing => {}
            Can::Age => change(&mut self.age, 1),
            Can::Always => change(&mut self.always, 1),
            Can::Scan(priority, pages) => {
                change(&mut self.scan[priority], 1);
                change(&mut self.pages, pages);
            }
        }
    }

    fn is_worth_a_pass(&self, nr: Pages, priority: usize) -> bool {
        let scans = self.scan[priority..].iter().any(|&count| count > 0);
        // Where too little can be scanned, who has to age does so first.
        self.always > 0 || scans || (self.age > 0 && Pages(self.pages) < nr)
    }
}

impl Machine {
    /// False when a pass over any part of the tree at `priority` would get nothing for `request`.
    pub(super) fn is_worth_a_pass(&mut self, request: ReclaimRequest, priority: u32) -> bool {
        if self.config.vain_passes {
            return true;
        }
        // Who lacks swap counts an event each time.
        let swap = self.tree.get(MemcgId::ROOT).limits().swap_max;
        let is_short = swap != Limit::Max || self.no_swap == Some(request.now);
        if is_short || request.swappiness.is_some() {
            return true;
        }
        self.hand_all_over();
        let mut changed = core::mem::take(&mut self.idle.changed);
        for id in changed.drain(..) {
            let can = self.can(id);
            self.idle.set(id, can);
        }
        self.idle.changed = changed;
        self.idle.is_worth_a_pass(request.nr, priority as usize)
    }

    fn can(&self, id: MemcgId) -> Can {
        let Some(lruvec) = self.lruvecs.get(id.index()).and_then(Option::as_ref) else {
            return Can::Nothing;
        };
        let limits = self.tree.get(id).limits();
        if limits.low > Pages(0) || limits.swap_max != Limit::Max {
            return Can::Always;
        }
        let (swappiness, online) = (self.swappiness(id, None), self.tree.is_online(id));
        let Some(lru) = lruvec.multi_gen() else {
            // What is protected in part, and what nobody owns, is scanned at every priority; whether a parent's list is
            // low is decided by those below it, too.
            let is_parent = self.tree.children(id).next().is_some();
            let always =
                !online || limits.min > Pages(0) || (is_parent && lruvec.resident() > Pages(0));
            return can_classic(lruvec)
                .filter(|_| !always)
                .unwrap_or(Can::Always);
        };
        if lruvec.evictable_total(swappiness) == Pages(0) {
            return Can::Nothing;
        }
        let target = |priority| lru.nr_to_scan(swappiness, priority, (online, None));
        let scans = |&priority: &u32| {
            let target = target(priority);
            !target.must_age && target.scan > 0
        };
        match (0..=DEF_PRIORITY).rev().find(scans) {
            Some(priority) => Can::Scan(priority as usize, lruvec.resident().0),
            None => Can::Age,
        }
    }
}

/// What reclaim of classic lists would do: a list is scanned from the priority on that leaves a page of it; a pass
/// of any priority ages anon whose inactive list is low, which is `None` here.
fn can_classic(lruvec: &Lruvec) -> Option<Can> {
    let lru = lruvec
        .classic()
        .filter(|lru| !lru.is_low(FolioType::Anon))?;
    let sizes = lru.sizes();
    let longest = sizes.inactive.into_iter().chain(sizes.active).max();
    let Some(priority) = longest.unwrap_or(0).checked_ilog2() else {
        return Some(Can::Nothing);
    };
    let priority = priority.min(DEF_PRIORITY) as usize;
    Some(Can::Scan(priority, lruvec.resident().0))
}

#[cfg(test)]
mod tests;
