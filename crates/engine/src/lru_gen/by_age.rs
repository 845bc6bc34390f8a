//! Eviction by age instead of by need: what proactive reclaim asks for.
//!
//! Invariant: each page is offered once that is not in one of the two youngest generations, the oldest generation first (again only as many as entries of
//! pages that had gone are swept meanwhile, for these were counted). Whether it is old
//! enough is not known here: generations are four, and whoever reclaims by age has one of each page. What is too young for that stays where it
//! was, in its order ([`crate::PageOut::TooYoung`]): limits take from there, too.
//!
//! (The story, of a reading: a policy that only said what it would do put all that was cold before the youngest generation at each look, and a limit took
//! what had been used a minute ago. Mended, it was so still where all that was cold fitted into one batch: its generations had ended.)

use super::{IsolateBudget, Isolated, LruGen, MIN_NR_GENS, list_of, slot_of};
use crate::folio::{FolioId, FolioTable, FolioType};
use crate::list::End;
use crate::units::Swappiness;
use crate::word::{Flag, State};
use alloc::vec::Vec;

/// How far a reclaim by age has come in one lruvec. A fresh one begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByAgePlace(Place);

#[derive(Clone, Copy, Debug, Default)]
enum Place {
    #[default]
    Fresh,
    At(At),
    End,
}

#[derive(Clone, Copy, Debug)]
struct At {
    ty: FolioType,
    is_last_type: bool,
    seq: u64,
    /// Entries of its list that were there when it began, and are to be met still.
    entries: usize,
}

impl LruGen {
    /// Isolates from all generations but the two youngest; `scanned` is 0 when all were offered.
    pub(crate) fn isolate_by_age(
        &mut self,
        folios: &mut FolioTable,
        (swappiness, budget): (Swappiness, IsolateBudget),
        place: &mut ByAgePlace,
        out: &mut Vec<FolioId>,
    ) -> Isolated {
        let mut done = Isolated::default();
        // What the pass before has emptied ends here and not at its own end, when pages that may have to stay there are isolated.
        if matches!(place.0, Place::Fresh) {
            self.try_to_inc_min_seq(folios, swappiness);
        }
        while done.isolated == 0 {
            let Some(mut at) = self.generation_at(place.0, swappiness) else {
                place.0 = Place::End;
                done.scanned = 0;
                break;
            };
            let tier_idx = self.controller.tier_idx(self.profile, at.ty);
            let list = (at.ty, at.seq, tier_idx);
            done.add(self.scan_generation(folios, list, (budget, &mut at.entries), out));
            place.0 = Place::At(at);
        }
        done
    }

    /// The generation from which pages are to be offered next; none when there is none left.
    fn generation_at(&self, place: Place, swappiness: Swappiness) -> Option<At> {
        let last = self.max_seq.checked_sub(MIN_NR_GENS)?;
        let mut at = match place {
            Place::End => return None,
            Place::At(at) => at,
            Place::Fresh => {
                let (first, _) = self
                    .controller
                    .choose(self.profile, swappiness, self.min_seq);
                self.generation(first, self.min_seq(first), false)
            }
        };
        loop {
            at = if at.seq > last || !swappiness.may_evict(at.ty) {
                if at.is_last_type {
                    return None;
                }
                let other = at.ty.other();
                self.generation(other, self.min_seq(other), true)
            } else if at.entries == 0 || at.seq < self.min_seq(at.ty) {
                let next = self.min_seq(at.ty).max(at.seq + 1);
                self.generation(at.ty, next, at.is_last_type)
            } else {
                return Some(at);
            };
        }
    }

    fn generation(&self, ty: FolioType, seq: u64, is_last_type: bool) -> At {
        At {
            ty,
            is_last_type,
            seq,
            entries: self.lists.entries(list_of(slot_of(seq), ty)),
        }
    }

    /// An isolated page is too young to leave: it goes back to its generation, behind those that are yet to be met. Where that has ended since, or
    /// a walk told that the page is young, it is put back as any other.
    pub(crate) fn stay(&mut self, folios: &mut FolioTable, id: FolioId) -> bool {
        let word = folios.get(id);
        let (slot, ty) = (word.generation(), word.folio_type());
        let mut all = self.min_seq(ty)..=self.max_seq;
        if word.has(Flag::Young) || !all.any(|seq| slot_of(seq) == slot) {
            return self.put_back(folios, id, false);
        }
        let word = word.into_state(State::Listed);
        self.lists
            .push(folios, list_of(slot, ty), (id, word), End::Head);
        self.count(slot, ty, 1);
        false
    }
}
