//! The heat of each memcg, which is higher the fewer pages recent reclaim got from the memcg.
//! Reclaim by heat levels takes from cold memcgs first.
//! spec: heat-level.md.
//!
//! Invariants (heat-level.md 6): I1 heat is at most [`HEAT_MAX`], and the root's is 0; I4 heat
//! changes only by a visit, or falls by one each second.

use super::MemcgId;
use crate::units::{Millis, Pages};
use alloc::vec::Vec;

/// Minimum heat of a warm memcg.
pub const HEAT_WARM: u8 = 4;
/// Minimum heat of a hot memcg.
pub const HEAT_HOT: u8 = 8;
/// Maximum heat.
pub const HEAT_MAX: u8 = 12;
/// Heat falls by one when more than this time has passed since it last fell.
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
    /// Returns by how much the visit changes the memcg's heat. `before` is `refaults` of the
    /// previous visit.
    fn change(self, before: u64) -> i8 {
        let reclaimed = u128::from(self.reclaimed.0);
        let change = match u128::from(self.tried) {
            0 => 12,
            tried if reclaimed * 2 >= tried => -2,
            tried if reclaimed * 4 >= tried => -1,
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
    /// The heat of each memcg, by the memcg's index.
    heats: Vec<Heat>,
}

impl MemcgHeat {
    /// Sets the heat of a memcg that is created at `now` to 0.
    pub fn online(&mut self, id: MemcgId, now: Millis) {
        if self.heats.len() <= id.index() {
            self.heats.resize(id.index() + 1, Heat::default());
        }
        self.heats[id.index()] = Heat {
            decayed: now,
            ..Heat::default()
        };
    }

    /// Returns the heat of `id` as of its last visit or decay.
    #[must_use]
    pub fn heat(&self, id: MemcgId) -> u8 {
        self.heats[id.index()].heat
    }

    /// Returns the level of `id` at `now`, after the decay that is pending.
    pub fn level(&mut self, id: MemcgId, now: Millis) -> HeatLevel {
        self.heats[id.index()].decay(now);
        HeatLevel::of(self.heat(id))
    }

    /// Updates the heat of `id` after a visit that ended at `now`. Has no effect on the root, which
    /// stays cold.
    pub fn visited(&mut self, id: MemcgId, visit: HeatVisit, now: Millis) {
        if id == MemcgId::ROOT {
            return;
        }
        let heat = &mut self.heats[id.index()];
        heat.decay(now);
        heat.add(visit.change(heat.refaults));
        heat.refaults = visit.refaults;
    }

    /// Asserts I1.
    ///
    /// # Panics
    /// When it does not hold.
    pub fn check_invariants(&self) {
        let root = self.heats.first().map_or(0, |root| root.heat);
        assert_eq!(root, 0, "I1: heat of the root");
        assert!(self.heats.iter().all(|heat| heat.heat <= HEAT_MAX), "I1");
    }
}

#[cfg(test)]
mod tests;
