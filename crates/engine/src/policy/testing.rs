//! What a test shows to a policy.

use super::AgeHistogram;
use super::seen::Seen;
use crate::units::{Millis, Pages};

/// All of it, to be changed at will.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    pub(super) ages: AgeHistogram,
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
            out: &self.out,
            back: &self.back,
            refaults: self.refaults,
            stalled_us: self.stalled_us,
            usage: self.usage,
            is_dry: self.is_dry,
        }
    }
}
