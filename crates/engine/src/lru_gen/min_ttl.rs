//! Thrashing prevention: when even the oldest generation everywhere is younger than `min_ttl`,
//! reclaim only takes what is in use, and killing is kinder. spec: lru-gen.md 9.

use super::LruGen;
use crate::units::{Millis, Swappiness};

/// What the question is about.
#[derive(Clone, Copy, Debug)]
pub struct TtlCheck {
    /// The time to live that the user asked for; zero turns the check off.
    pub min_ttl: Millis,
    /// The present.
    pub now: Millis,
    /// Priority of the reclaim that asks.
    pub priority: u32,
    /// Which types may go.
    pub swappiness: Swappiness,
}

impl LruGen {
    /// True when this lruvec can give something without thrashing. `below_min` and `online` are
    /// its memcg's. An OOM kill is due when no lruvec can.
    #[must_use]
    pub fn is_reclaimable(&self, check: TtlCheck, below_min: bool, online: bool) -> bool {
        if below_min {
            return false;
        }
        let oldest = self.birth(self.evictable_min_seq(check.swappiness));
        let sizable = self.is_sizable(check.swappiness, check.priority, online);
        sizable && (check.min_ttl == Millis(0) || oldest.after(check.min_ttl) < check.now)
    }
}
