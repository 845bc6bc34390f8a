//! The heat of each memcg: how little reclaim got from it lately. Reclaim by heat levels takes from
//! cold memcgs first.
//! spec: heat-level.md.
//!
//! Invariants (heat-level.md 6): I1 heat is at most [`HEAT_MAX`], and the root's is 0; I4 heat
//! changes only by a visit, or by one for each second.

use super::MemcgId;
use crate::units::{Millis, Pages};
use alloc::vec::Vec;

/// Heat from which on a memcg is warm.
pub const HEAT_WARM: u8 = 4;
/// Heat from which on a memcg is hot.
pub const HEAT_HOT: u8 = 8;
/// Maximum heat.
pub const HEAT_MAX: u8 = 12;
/// Heat falls by one after more than this time.
pub const HEAT_DECAY: Millis = Millis(1000);

/// A range of heat; reclaim takes from lower levels first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum HeatLevel {
    /// Heat 0 to 3.
    #[default]
    Cold,
    /// Heat 4 to 7.
    Warm,
    /// Heat 8 to 12.
    Hot,
}

impl HeatLevel {
    /// Returns the level of `heat`.
    #[must_use]
    pub const fn of(heat: u8) -> Self {
        match heat {
            HEAT_HOT.. => Self::Hot,
            HEAT_WARM.. => Self::Warm,
            _ => Self::Cold,
        }
    }

    /// Returns the next hotter level; `None` for hot.
    #[must_use]
    pub const fn hotter(self) -> Option<Self> {
        match self {
            Self::Cold => Some(Self::Warm),
            Self::Warm => Some(Self::Hot),
            Self::Hot => None,
        }
    }
}

/// What one visit of a memcg did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeatVisit {
    /// Number of pages that the visit tried to page out.
    pub tried: u64,
    /// Number of these pages that were reclaimed.
    pub reclaimed: Pages,
    /// Number of the memcg's refaults since its creation: workingset activations, anon and file.
    pub refaults: u64,
}

impl HeatVisit {
    /// Returns by how much a visit changes heat, if the memcg had `before` refaults at the visit
    /// before.
    fn change(self, before: u64) -> i8 {
        let got = u128::from(self.reclaimed.0);
        let change = match u128::from(self.tried) {
            0 => 12,
            tried if got * 2 >= tried => -2,
            tried if got * 4 >= tried => -1,
            _ => 1,
        };
        match self.refaults.saturating_sub(before) {
            refaults if refaults > self.reclaimed.0 => change + 1,
            0 if change > 0 => change - 1,
            _ => change,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Heat {
    heat: u8,
    decayed: Millis,
    refaults: u64,
}

impl Heat {
    fn add(&mut self, change: i8) {
        self.heat = self.heat.saturating_add_signed(change).min(HEAT_MAX);
    }

    fn decay(&mut self, now: Millis) {
        if now.since(self.decayed) > HEAT_DECAY {
            self.decayed = now;
            self.add(-1);
        }
    }
}

/// The heat of all memcgs.
#[derive(Debug, Default)]
pub struct MemcgHeat {
    /// The index is the memcg's.
    of: Vec<Heat>,
}

impl MemcgHeat {
    /// Begins with heat 0 for a memcg that was created at `now`.
    pub fn online(&mut self, id: MemcgId, now: Millis) {
        if self.of.len() <= id.index() {
            self.of.resize(id.index() + 1, Heat::default());
        }
        self.of[id.index()] = Heat {
            decayed: now,
            ..Heat::default()
        };
    }

    /// Returns the heat of `id` as of its last visit or decay.
    #[must_use]
    pub fn heat(&self, id: MemcgId) -> u8 {
        self.of[id.index()].heat
    }

    /// Returns the level of `id` at `now`, after a decay if it is time.
    pub fn level(&mut self, id: MemcgId, now: Millis) -> HeatLevel {
        self.of[id.index()].decay(now);
        HeatLevel::of(self.heat(id))
    }

    /// Counts a visit of `id` that ended at `now`. No effect on the root, which stays cold.
    pub fn visited(&mut self, id: MemcgId, visit: HeatVisit, now: Millis) {
        if id == MemcgId::ROOT {
            return;
        }
        let heat = &mut self.of[id.index()];
        heat.decay(now);
        heat.add(visit.change(heat.refaults));
        heat.refaults = visit.refaults;
    }

    /// Asserts I1.
    ///
    /// # Panics
    /// When it does not hold.
    pub fn check_invariants(&self) {
        let root = self.of.first().map_or(0, |root| root.heat);
        assert_eq!(root, 0, "I1: heat of the root");
        assert!(self.of.iter().all(|of| of.heat <= HEAT_MAX), "I1");
    }
}

#[cfg(test)]
mod tests;
