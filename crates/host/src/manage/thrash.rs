//! Whether a program needs more than it may have: what leaves is wanted again at once, whoever chose it.
//!
//! Invariant: it is told by faults that had to read, over the time between two looks, as a part of what is used; and where the
//! kernel holds the limit, such a program is left to it.
//!
//! Why: what MADV_PAGEOUT takes leaves a shadow of the machine's own lists, not of the group's (Linux 6.18: `reclaim_pages` names no
//! group). Where the host has much page cache, every such page comes back as active, and crowds what is in use off the
//! group's lists; and each look takes the bits by which the kernel knows that. (docs/benchmarks.md, Beside the kernel.)

use std::time::{Duration, Instant};

use engine::Pages;

/// Faults that had to read in a second, as a part of the pages in use: from this part on it thrashes.
const PART: u64 = 5;
/// Of less memory the kernel's lists run empty before it has summed its counters, and it kills ([`crate::wall`], fresh counters): ahead of
/// the wall that program is kept off it. (The story: redis in 26 MiB, beside two builds.)
const PAGES_MIN: Pages = Pages(128 << 8);
/// Between two measurements of who is not looked at by himself.
const APART: Duration = Duration::from_secs(1);
/// Left alone for so long at first, and twice as long each time that nothing has changed, up to so long.
const LEFT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(16));

/// See the module.
#[derive(Debug)]
pub(super) struct Thrash {
    /// When it was measured last, and the faults until then.
    at: Instant,
    faults: u64,
    /// Nothing is done ahead of the wall until then.
    until: Option<Instant>,
    left: Duration,
}

impl Thrash {
    pub(super) fn new() -> Thrash {
        Thrash::since(Instant::now(), 0)
    }

    /// Of one that has had so many faults until `now`.
    pub(super) fn since(now: Instant, faults: u64) -> Thrash {
        Thrash {
            at: now,
            faults,
            until: None,
            left: LEFT.0,
        }
    }

    /// Whether it was measured long enough ago for another measurement to tell anything.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) >= APART
    }

    /// A look was at `now`: the program has had so many faults that had to read until then, and uses so much.
    pub(super) fn measure(&mut self, now: Instant, faults: u64, usage: Pages) {
        let apart = now.saturating_duration_since(self.at);
        let came = faults.saturating_sub(self.faults);
        (self.at, self.faults) = (now, faults);
        let a_second = u128::from(came) * 1000 / apart.as_millis().max(1);
        if self.left(now).is_some() {
            return;
        }
        let is_large = usage >= PAGES_MIN;
        if is_large && a_second * u128::from(PART) > u128::from(usage.0) {
            self.until = Some(now + self.left);
            self.left = (self.left * 2).min(LEFT.1);
        } else {
            (self.until, self.left) = (None, LEFT.0);
        }
    }

    /// How long nothing is done ahead of the wall, if it thrashes.
    pub(super) fn left(&self, now: Instant) -> Option<Duration> {
        let until = self.until.filter(|until| *until > now)?;
        Some(until - now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_thrashes_is_left_alone_for_longer_and_longer() {
        let mut thrash = Thrash::new();
        let begin = thrash.at;
        let at = |ms| begin + Duration::from_millis(ms);
        let (used, small) = (Pages(100_000), Pages(10_000));
        // A fifth of it in a second, and no more.
        thrash.measure(at(500), 10_000, used);
        assert_eq!(thrash.left(at(500)), None);
        thrash.measure(at(750), 20_000, small);
        assert_eq!(thrash.left(at(750)), None);
        thrash.measure(at(1000), 30_000, used);
        assert_eq!(thrash.left(at(1500)), Some(Duration::from_millis(500)));
        // Looks go on meanwhile, and change nothing.
        thrash.measure(at(1600), 30_000, used);
        assert_eq!(thrash.left(at(2000)), None);
        thrash.measure(at(2000), 50_000, used);
        assert_eq!(thrash.left(at(2000)), Some(Duration::from_secs(2)));
        for second in (4..400).step_by(4) {
            thrash.measure(at(second * 1000), second * 100_000, used);
        }
        assert!(thrash.left <= LEFT.1);
        let fresh = Thrash::since(at(0), 9);
        assert!(!fresh.is_due(at(999)) && fresh.is_due(at(1000)));
        // It fits again.
        let faults = thrash.faults;
        thrash.measure(at(1_000_000), faults, used);
        assert_eq!((thrash.left(at(1_000_000)), thrash.left), (None, LEFT.0));
    }
}
