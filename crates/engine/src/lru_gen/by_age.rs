//! Eviction by age instead of by need: what proactive reclaim asks for.
//!
//! What a walk found young is in the generation that was youngest then, s: last used before
//! birth(s + 1). But a page that just came in starts one generation older than the youngest, so a
//! page of s may have been used until birth(s + 2): no generation is taken before that is `age` ago.
//! (The page-age histogram keeps the kernel's reading, birth(s + 1).)
//!
//! Generations are taken whole, and the youngest two never. Aging at intervals of `age` finds all
//! idle pages within twice that time; at half of it or less, the oldest generations merge before
//! they are old enough, and nothing is ever found.

use super::{IsolateBudget, Isolated, LruGen, MIN_NR_GENS};
use crate::folio::{FolioId, FolioTable, FolioType};
use crate::units::{Millis, Swappiness};
use alloc::vec::Vec;

impl LruGen {
    /// How long the pages of generation `seq` have been idle at least, new ones included.
    #[must_use]
    pub const fn idle_at_least(&self, seq: u64, now: Millis) -> Millis {
        if seq + 2 > self.max_seq {
            Millis(0)
        } else {
            now.since(self.birth(seq + 2))
        }
    }

    /// The youngest generation that eviction by `age` may take, if there is any.
    #[must_use]
    pub fn youngest_older_than(&self, age: Millis, now: Millis) -> Option<u64> {
        let oldest = self.min_seq[0].min(self.min_seq[1]);
        let last = self.max_seq.checked_sub(MIN_NR_GENS)?;
        (oldest..=last)
            .rev()
            .find(|&seq| self.idle_at_least(seq, now) >= age)
    }

    /// Isolates from generations up to `last`; `scanned` is 0 when nothing is left there.
    pub(crate) fn isolate_up_to(
        &mut self,
        folios: &mut FolioTable,
        (last, swappiness): (u64, Swappiness),
        budget: IsolateBudget,
        out: &mut Vec<FolioId>,
    ) -> Isolated {
        let (first, _) = self
            .controller
            .choose(self.profile, swappiness, self.min_seq);
        let mut done = Isolated::default();
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

    /// Since when the oldest page has been idle at least: none is older than this tells.
    #[must_use]
    pub fn oldest_birth(&self, ty: FolioType) -> Option<Millis> {
        let seqs = self.min_seq(ty)..=self.max_seq;
        seqs.into_iter()
            .find(|&seq| self.size(seq, ty) > 0)
            .map(|seq| self.birth(seq))
    }
}
