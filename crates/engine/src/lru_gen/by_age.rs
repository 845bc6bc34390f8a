//! Eviction by age instead of by need: what proactive reclaim asks for.
//!
//! What a walk found young is in the generation that was youngest then, s: last used before
//! birth(s + 1). But a page that just came in starts one generation older than the youngest, so a
//! page of s may have been used until birth(s + 2): no generation is taken before that is `age` ago.
//! (The page-age histogram keeps the kernel's reading, birth(s + 1).)
//!
//! In the generation after those, s + 1 of the above, some pages are known better: a page whose
//! PG_workingset is set and whose references are spent was put there by a walk (or by a refault) while
//! it was the youngest, so it was last used before birth(s + 2). Such pages are taken too; without
//! that, a page that was in use at one look would be found idle only at the look after the next.
//!
//! Generations are taken whole otherwise, and the youngest two never. Aging at intervals of `age` finds all
//! idle pages within twice that time; at half of it or less, the oldest generations merge before
//! they are old enough, and nothing is ever found.

use super::{IsolateBudget, Isolated, LruGen, MIN_NR_GENS, list_of, slot_of};
use crate::folio::{FolioId, FolioTable, FolioType};
use crate::list::End;
use crate::units::{Millis, Swappiness};
use crate::word::Flag;
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

    /// Isolates up to `nr` pages of `ty` that are one generation too young to be taken whole, and are
    /// known to have been idle for `age` all the same. P63 keeps no such knowledge.
    pub(crate) fn isolate_proven(
        &mut self,
        folios: &mut FolioTable,
        (age, now): (Millis, Millis),
        (ty, nr): (FolioType, usize),
        out: &mut Vec<FolioId>,
    ) -> Isolated {
        let mut done = Isolated {
            ty: Some(ty),
            ..Isolated::default()
        };
        let seq = self.min_seq(ty);
        let idle = seq < self.max_seq && now.since(self.birth(seq + 1)) >= age;
        if self.profile.is_before_614() || self.nr_gens(ty) <= MIN_NR_GENS || !idle {
            return done;
        }
        let (slot, tier_idx) = (slot_of(seq), self.controller.tier_idx(self.profile, ty));
        let list = list_of(slot, ty);
        // What stays goes to the head: when its first is met again, the round is over.
        let mut first_kept = None;
        while done.isolated < nr {
            let Some((id, word)) = self.lists.pop(folios, list) else {
                break;
            };
            if first_kept == Some(id) {
                self.lists.push(folios, list, (id, word), End::Tail);
                break;
            }
            done.scanned += 1;
            let proven = word.has(Flag::Workingset) && !word.has(Flag::Referenced);
            if word.generation() == slot && !proven {
                self.lists.push(folios, list, (id, word), End::Head);
                first_kept = first_kept.or(Some(id));
                continue;
            }
            let sorted = self.sort(word, tier_idx, true);
            // With I/O allowed no page is skipped.
            let _ = self.follow(folios, (id, sorted), &mut done, out);
        }
        done
    }
}
