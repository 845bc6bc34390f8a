//! Why a page would, or would not, be taken now: for `--dry-run`.

use super::{LruGen, MIN_NR_GENS, refs};
use crate::folio::{FolioId, FolioTable, FolioType};
use crate::units::{Millis, Swappiness};
use crate::word::{Flag, State};

/// The first reason that settles it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It would be isolated when reclaim gets to it.
    Candidate,
    /// It is not in memory.
    NotPresent,
    /// It is being reclaimed right now.
    Isolated,
    /// It is locked.
    Unevictable,
    /// Its type may not be evicted under this swappiness.
    TypeExcluded,
    /// This many generations have to go before it is the oldest one's turn.
    TooYoung(u64),
    /// Its type is down to the two generations that always stay: aging must come first.
    NeedsAging,
    /// It is on the active list (classic policy).
    OnActiveList,
    /// Its tier refaults too much to be taken.
    ProtectedTier,
    /// It is being written, or is dirty file data.
    BeingWritten,
}

/// What is known of a page, and the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The verdict.
    pub verdict: Verdict,
    /// Its generation, when it is on a list.
    pub seq: Option<u64>,
    /// Its tier.
    pub tier: usize,
    /// It has been idle at least this long.
    pub idle_at_least: Millis,
}

impl LruGen {
    pub(crate) fn explain(
        &self,
        folios: &FolioTable,
        id: FolioId,
        swappiness: Swappiness,
        now: Millis,
    ) -> Explanation {
        let word = folios.get(id);
        let tier = refs::tier_of(self.profile, word);
        let off = |verdict| Explanation {
            verdict,
            seq: None,
            tier: 0,
            idle_at_least: Millis(0),
        };
        match word.state() {
            State::Absent | State::Shadow => return off(Verdict::NotPresent),
            State::OffList if word.has(Flag::Unevictable) => return off(Verdict::Unevictable),
            State::OffList => return off(Verdict::Isolated),
            State::Listed => {}
        }
        let ty = word.folio_type();
        let seq = self.seq_of(word.generation(), ty);
        let verdict = if word.has(Flag::Unevictable) {
            Verdict::Unevictable
        } else if !swappiness.may_evict(ty) {
            Verdict::TypeExcluded
        } else if self.nr_gens(ty) <= MIN_NR_GENS {
            Verdict::NeedsAging
        } else if seq > self.min_seq(ty) {
            Verdict::TooYoung(seq - self.min_seq(ty))
        } else if refs::is_saturated(self.profile, word)
            || tier > self.controller.tier_idx(self.profile, ty)
        {
            Verdict::ProtectedTier
        } else if word.has(Flag::Writeback) || (ty == FolioType::File && word.has(Flag::Dirty)) {
            Verdict::BeingWritten
        } else {
            Verdict::Candidate
        };
        Explanation {
            verdict,
            seq: Some(seq),
            tier,
            idle_at_least: self.idle_at_least(seq, now),
        }
    }
}
