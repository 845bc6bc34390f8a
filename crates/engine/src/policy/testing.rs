//! Helpers of the policies' tests: input of a policy, and pseudo-random numbers.

use super::AgeHistogram;
use super::seen::Seen;
use crate::units::{Millis, Pages};

/// The data that a policy's input borrows; tests change these fields.
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
    /// Returns the input at the time `now`, in milliseconds.
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

/// Pseudo-random numbers; the same seed yields the same numbers.
pub(super) struct Noise(pub(super) u64);

impl Noise {
    /// Returns the next number; it is less than `below`.
    pub(super) fn below(&mut self, below: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % below
    }
}
