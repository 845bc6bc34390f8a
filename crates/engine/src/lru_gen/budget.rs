//! Decides how many pages a pass over a lruvec scans, and whether it must age first.
//! spec: lru-gen.md 5.5.

use super::{DEF_PRIORITY, LruGen, MIN_NR_GENS, Profile, evictable};
use crate::memcg::ScanProtection;
use crate::units::Swappiness;
use crate::word::NodeId;

/// Whether aging must precede eviction, and how many pages eviction would scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanTarget {
    /// The caller must age and then end its visit of this lruvec: no generation remains from which
    /// pages may be evicted, or, under [`Profile::P616`], only one.
    pub must_age: bool,
    /// Number of pages to scan at the given priority, if `must_age` is false.
    pub scan: u64,
    /// Number of evictable pages; `scan` is a part of them. Zero if no generation remains from
    /// which pages may be evicted.
    pub open: u64,
    /// Whether all evictable pages are in generations too young to evict from, so that only aging
    /// makes some of them old enough.
    pub is_stuck: bool,
}

impl LruGen {
    /// Returns the scan target at `priority`, for all memory nodes. `state`: whether the memcg is
    /// online, and its protection. All pages of an offline memcg are scanned at once, if possible
    /// without aging. Under [`Profile::P616`] protection reduces the number of pages to scan in
    /// proportion.
    #[must_use]
    pub fn nr_to_scan(
        &self,
        swappiness: Swappiness,
        priority: u32,
        state: (bool, Option<ScanProtection>),
    ) -> ScanTarget {
        self.nr_to_scan_on(None, swappiness, priority, state)
    }

    /// Returns the scan target as [`Self::nr_to_scan`] does, but for one memory node; for all nodes
    /// if `node` is `None`.
    #[must_use]
    pub fn nr_to_scan_on(
        &self,
        node: Option<NodeId>,
        swappiness: Swappiness,
        priority: u32,
        (online, protection): (bool, Option<ScanProtection>),
    ) -> ScanTarget {
        let total: u64 = evictable(swappiness)
            .map(|ty| self.total_on(node, ty))
            .sum();
        let oldest = self.oldest_on(node, swappiness);
        let stuck = oldest + MIN_NR_GENS > self.max_seq;
        let is_empty = node.is_some() && total == 0;
        let needs_aging = match self.profile {
            // Aging would move only pages of other nodes, and would make none of this node
            // evictable.
            _ if is_empty => false,
            Profile::P616 => oldest + MIN_NR_GENS >= self.max_seq,
            Profile::P63 | Profile::P612 => stuck || self.few_are_old(swappiness),
        };
        // Pages that cannot be isolated do not count. Otherwise an offline memcg would be scanned
        // in vain and never aged.
        let size = if stuck { 0 } else { total };
        let emptying = !online && size > 0;
        let open = match (self.profile, protection) {
            (Profile::P616, Some(protection)) => protection.scan(size),
            _ => size,
        };
        ScanTarget {
            // At the first priority reclaim continues without aging.
            must_age: needs_aging && !emptying && priority != DEF_PRIORITY,
            scan: if emptying { size } else { open >> priority },
            open: if emptying { size } else { open.min(size) },
            is_stuck: stuck && total > 0,
        }
    }

    /// Returns how many pages eviction may reach once the lruvec has aged, without those that
    /// `protection` keeps.
    #[must_use]
    pub fn open_once_aged(
        &self,
        swappiness: Swappiness,
        protection: Option<ScanProtection>,
    ) -> u64 {
        let total: u64 = evictable(swappiness).map(|ty| self.total(ty)).sum();
        match (self.profile, protection) {
            (Profile::P616, Some(protection)) => protection.scan(total).min(total),
            _ => total,
        }
    }

    /// Whether the rules before Linux v6.14 require aging: there are at most three generations, and
    /// more than half of the pages are in the youngest, or less than a quarter in the oldest.
    fn few_are_old(&self, swappiness: Swappiness) -> bool {
        let total: u64 = evictable(swappiness).map(|ty| self.total(ty)).sum();
        let min_seq = self.evictable_min_seq(swappiness);
        if min_seq + MIN_NR_GENS < self.max_seq {
            return false;
        }
        let young: u64 = evictable(swappiness)
            .map(|ty| self.size(self.max_seq, ty))
            .sum();
        let old: u64 = evictable(swappiness).map(|ty| self.size(min_seq, ty)).sum();
        young * MIN_NR_GENS > total || old * (MIN_NR_GENS + 2) < total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folio::{FolioId, FolioType};
    use crate::lru_gen::IsolateBudget;
    use crate::lruvec::{FaultKind, Lruvec, Policy};
    use crate::units::Millis;
    use crate::vmscan::ScanReason;
    use alloc::vec::Vec;

    /// Regression: lru-gen.md 5.5. With three generations reclaim still took pages of the oldest,
    /// and aged only when two were left. In the experiment memcg-lru the stddev/mean of pages
    /// reclaimed from each tenant was 7.9, 16.9 and 18.1% at scales 24, 32 and 48.
    #[test]
    fn p616_ages_at_three_generations_below_the_first_priority() {
        let swappiness = Swappiness::default();
        let mut lruvec = Lruvec::new(Policy::default(), Millis(0));
        lruvec.ensure(64);
        for id in (0..64).map(FolioId) {
            lruvec.fault_in(id, FolioType::Anon, FaultKind::FirstTouch, true, true);
        }
        let must_age = |lruvec: &Lruvec, priority, online| {
            let lru = lruvec.lru_gen();
            let target = lru.nr_to_scan(swappiness, priority, (online, None));
            target.must_age
        };
        let low = DEF_PRIORITY - 1;
        assert!(!must_age(&lruvec, low, true), "four generations remain");
        // This isolation drops empty generations, until two remain.
        let budget = IsolateBudget::default();
        lruvec.isolate(ScanReason::Direct, swappiness, budget, &mut Vec::new());
        let seq = lruvec.lru_gen().max_seq();
        lruvec.inc_max_seq(seq, swappiness, Millis(1));
        assert_eq!(lruvec.lru_gen().nr_gens(FolioType::Anon), 3);
        assert!(must_age(&lruvec, low, true) && must_age(&lruvec, 0, true));
        assert!(
            !must_age(&lruvec, DEF_PRIORITY, true),
            "the first priority needs no aging"
        );
        assert!(
            !must_age(&lruvec, low, false),
            "an offline memcg is emptied first"
        );
    }

    /// Regression: lru-gen.md 5.5. Under the rules before v6.14 an offline memcg with two
    /// generations was scanned as a whole, but no page could be isolated. So it was never aged, and
    /// its pages stayed for ever.
    #[test]
    fn where_nothing_can_be_isolated_nothing_is_scanned() {
        for profile in [Profile::P616, Profile::P612, Profile::P63] {
            let (swappiness, policy) = (Swappiness::default(), Policy::MultiGen(profile));
            let mut lruvec = Lruvec::new(policy, Millis(0));
            lruvec.ensure(64);
            for id in (0..64).map(FolioId) {
                lruvec.fault_in(id, FolioType::Anon, FaultKind::FirstTouch, true, true);
            }
            let budget = IsolateBudget::default();
            lruvec.isolate(ScanReason::Direct, swappiness, budget, &mut Vec::new());
            assert_eq!(lruvec.lru_gen().nr_gens(FolioType::Anon), 2);
            for online in [true, false] {
                let target = lruvec.lru_gen().nr_to_scan(swappiness, 0, (online, None));
                let actual = (target.must_age, target.scan, target.open);
                assert_eq!(actual, (true, 0, 0), "{profile:?}, online: {online}");
            }
        }
    }
}
