//! Eviction by age instead of by need: what proactive reclaim asks for.
//!
//! Invariant: each page is offered that is not in one of the two youngest generations, the oldest generation first. Whether it is old
//! enough is not known here: generations are four, and whoever reclaims by age has one of each page. What is too young it leaves
//! ([`crate::PageOut::TooYoung`]).

use super::{IsolateBudget, Isolated, LruGen, MIN_NR_GENS};
use crate::folio::{FolioId, FolioTable};
use crate::units::Swappiness;
use alloc::vec::Vec;

impl LruGen {
    /// Isolates from all generations but the two youngest; `scanned` is 0 when nothing is left there.
    pub(crate) fn isolate_by_age(
        &mut self,
        folios: &mut FolioTable,
        swappiness: Swappiness,
        budget: IsolateBudget,
        out: &mut Vec<FolioId>,
    ) -> Isolated {
        let mut done = Isolated::default();
        let oldest = self.min_seq[0].min(self.min_seq[1]);
        let last = self.max_seq.checked_sub(MIN_NR_GENS);
        let Some(last) = last.filter(|last| oldest <= *last) else {
            return done;
        };
        let (first, _) = self
            .controller
            .choose(self.profile, swappiness, self.min_seq);
        for ty in [first, first.other()] {
            if done.scanned == 0 && swappiness.may_evict(ty) && self.min_seq(ty) <= last {
                let tier_idx = self.controller.tier_idx(self.profile, ty);
                done.add(self.scan(folios, (ty, tier_idx), budget, out));
            }
        }
        let moved = self.try_to_inc_min_seq(folios, swappiness);
        done.scanned += usize::from(moved);
        done
    }
}
