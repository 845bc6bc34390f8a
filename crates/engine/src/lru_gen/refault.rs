//! Shadow entries of the multi-gen LRU: what is kept of an evicted page, and what its refault
//! means.
//! spec: workingset.md 6.
//!
//! A shadow's token is `min_seq << 2 | max(refs - 1, 0)`. No bits name the owner, because the
//! shadow is in the owner's own folio table. The fault that reads a shadow removes it
//! (workingset.md I2). If scans open the generations, the token has a stamp of the
//! [`super::refault_clock`] in place of `min_seq`.

use super::{LRU_REFS_WIDTH, LruGen, MAX_NR_GENS, Profile, refs, tier};
use crate::folio::{FolioId, FolioTable, FolioType};
use crate::word::{Flag, TOKEN_BITS, Word};
use crate::workingset::Refault;

const SEQ_MASK: u64 = (1 << (TOKEN_BITS - LRU_REFS_WIDTH)) - 1;

impl LruGen {
    /// Records that an isolated page was evicted: the page's word becomes its shadow.
    pub(crate) fn evicted(&mut self, folios: &mut FolioTable, id: FolioId) {
        let word = folios.get(id);
        let (ty, refs) = (word.folio_type(), refs::refs(self.profile, word));
        self.controller
            .on_evicted(ty, refs::tier_of(self.profile, word));
        let workingset = match self.profile {
            Profile::P616 => word.has(Flag::Workingset),
            Profile::P63 | Profile::P612 => refs > 0,
        };
        let token = match self.clock {
            Some(clock) => token(clock.stamp(), refs),
            None => token(self.min_seq(ty), refs),
        };
        self.advance_clock();
        folios.set(id, word.into_shadow(token, workingset));
    }

    /// Counts an eviction on the refault clock, if any, and folds the controller's counts when the
    /// clock says so.
    fn advance_clock(&mut self) {
        if self.clock.is_none() {
            return;
        }
        let resident = self.resident();
        let clock = self.clock.as_mut();
        if clock.is_some_and(|clock| clock.advance(resident)) {
            for ty in FolioType::ALL {
                self.controller.carry_over(ty);
            }
        }
    }

    /// Evaluates the shadow of a page of type `ty` that has refaulted. If the refault is recent,
    /// the controller counts it.
    pub(crate) fn refault(&mut self, shadow: Word, ty: FolioType) -> Refault {
        let (token, workingset) = shadow.shadow();
        let refs = self.restored_refs(token, workingset);
        let recent = self.is_recent(token, ty);
        let tier = tier(self.profile, refs, workingset);
        if recent {
            self.controller.on_refaulted(ty, tier);
        }
        Refault {
            recent,
            workingset,
            tier,
        }
    }

    /// Whether the page was evicted recently. With a refault clock: at most as many pages were
    /// evicted since as the tenant's size. Without one, under [`Profile::P616`]: the `min_seq` in
    /// the token and the present `max_seq`, both masked, differ by less than 4. By the rules before
    /// Linux v6.14: `min_seq` has not advanced since.
    fn is_recent(&self, token: u32, ty: FolioType) -> bool {
        let seq = u64::from(token >> LRU_REFS_WIDTH);
        if let Some(clock) = self.clock {
            return clock.is_recent(seq, self.resident());
        }
        match self.profile {
            Profile::P616 => (self.max_seq & SEQ_MASK).abs_diff(seq) < MAX_NR_GENS,
            Profile::P63 | Profile::P612 => self.min_seq(ty) & SEQ_MASK == seq,
        }
    }

    fn restored_refs(&self, token: u32, workingset: bool) -> u32 {
        let bits = token & ((1 << LRU_REFS_WIDTH) - 1);
        match self.profile {
            Profile::P616 if bits > 0 => bits + 1,
            Profile::P616 => 0,
            Profile::P63 | Profile::P612 => bits + u32::from(workingset),
        }
    }

    /// Returns the word of a recently evicted page with the flags that it gets back, and whether
    /// the page counts as restored. Under [`Profile::P616`] the page also gets back its number of
    /// references. That number has no effect until the next reference, because PG_referenced is
    /// only for accesses since the fault.
    ///
    /// By the rules before Linux v6.14, a page that a process faulted on belongs to the working
    /// set, whatever its shadow says. A page that was read through a file descriptor belongs to it
    /// only if it had 4 references (P63), or at least 3 (P612, which then restores all of them). No
    /// other flag is restored.
    pub(crate) fn restore(&self, word: Word, shadow: Word, in_fault: bool) -> (Word, bool) {
        let (token, workingset) = shadow.shadow();
        let refs = self.restored_refs(token, workingset);
        let enough = match self.profile {
            Profile::P616 if workingset => return (word.with(Flag::Workingset, true), true),
            Profile::P616 => return (word.with_refs_field(refs.saturating_sub(1)), false),
            Profile::P612 => refs::FIELD_MAX,
            Profile::P63 => refs::FIELD_MAX + 1,
        };
        let restored = in_fault || refs >= enough;
        // If a fault activates the page, insertion clears the references field anyway.
        let is_full = restored && !in_fault && self.profile == Profile::P612;
        let field = if is_full { refs::FIELD_MAX } else { 0 };
        let word = word.with_refs_field(field);
        (word.with(Flag::Workingset, restored), restored)
    }
}

fn token(min_seq: u64, refs: u32) -> u32 {
    let seq = u32::try_from(min_seq & SEQ_MASK).unwrap_or(0);
    seq << LRU_REFS_WIDTH | refs.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Millis;
    use crate::word::State;

    fn at(profile: Profile, max_seq: u64, min_seq: u64) -> LruGen {
        let mut lru = LruGen::new(profile, Millis(0));
        lru.max_seq = max_seq;
        lru.min_seq = [min_seq; 2];
        lru
    }

    fn recent(lru: &LruGen, evicted_at: u64) -> bool {
        lru.is_recent(token(evicted_at, 0), FolioType::Anon)
    }

    /// P616: a shadow is recent at a distance of 0 to 3 generations. P63: as long as `min_seq` is
    /// the same.
    /// spec: workingset.md 12, test 12.
    #[test]
    fn recency_of_a_shadow() {
        let lru = at(Profile::P616, 10, 7);
        for age in 0..=3 {
            assert!(recent(&lru, 10 - age), "age {age}");
        }
        assert!(!recent(&lru, 6));
        // When the masked sequence number has wrapped, the difference is wrong; I3 accepts that.
        let wrapped = at(Profile::P616, SEQ_MASK + 2, SEQ_MASK - 1);
        assert!(recent(&wrapped, SEQ_MASK + 1) && !recent(&wrapped, SEQ_MASK - 1));
        let old = at(Profile::P63, 10, 7);
        assert!(recent(&old, 7) && !recent(&old, 6));
    }

    /// A shadow's token of the multi-gen LRU keeps extreme values.
    /// spec: workingset.md 12, test 1.
    #[test]
    fn token_round_trip() {
        let lru = at(Profile::P616, 3, 0);
        for refs in 0..=4 {
            let word = Word::default()
                .into_state(State::Listed)
                .into_state(State::OffList);
            let shadow = word.into_shadow(token(SEQ_MASK, refs), false);
            let (back, restored) = lru.restore(Word::default(), shadow, true);
            assert!(!restored);
            assert_eq!(back.refs_field(), refs.saturating_sub(1), "refs {refs}");
            assert!(!back.has(Flag::Referenced), "refs {refs}");
        }
    }
}
