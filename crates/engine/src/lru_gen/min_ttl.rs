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
    /// Which types may go.
    pub swappiness: Swappiness,
}

impl LruGen {
    /// True when this lruvec has something old enough to be given without thrashing. An OOM kill is due when no lruvec
    /// that is above its min and not empty has.
    #[must_use]
    pub fn outlives(&self, check: TtlCheck) -> bool {
        let oldest = self.birth(self.evictable_min_seq(check.swappiness));
        check.min_ttl == Millis(0) || oldest.after(check.min_ttl) < check.now
    }
}
