//! What a test shows to a policy, and numbers that nobody chose.

use super::AgeHistogram;
use super::seen::Seen;
use crate::units::{Millis, Pages};

/// All of it, to be changed at will.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    pub(super) ages: AgeHistogram,
    pub(super) cache: AgeHistogram,
    pub(super) out: AgeHistogram,
    pub(super) back: AgeHistogram,
    pub(super) refaults: Pages,
    pub(super) stalled_us: Option<u64>,
    pub(super) usage: Pages,
    pub(super) is_dry: bool,
}

impl Shown {
    /// At this time.
    pub(super) fn at(&self, now: u64) -> Seen<'_> {
        Seen {
            now: Millis(now),
            ages: &self.ages,
            cache: &self.cache,
            out: &self.out,
            back: &self.back,
            refaults: self.refaults,
            stalled_us: self.stalled_us,
            usage: self.usage,
            is_dry: self.is_dry,
        }
    }
}

/// Numbers without a pattern, the same from the same beginning.
pub(super) struct Noise(pub(super) u64);

impl Noise {
    /// The next one, below this.
    pub(super) fn below(&mut self, below: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % below
    }
}
