//! Whether a program takes memory faster than it can be taken from it ahead of the wall.
//!
//! Invariant: it is told by how often its charges met the wall while something was done ahead of it, over the time of that; and where the
//! kernel holds the limit, such a program is left to it for a while. Then it is tried again.
//!
//! Why: the kernel reclaims within the fault that needs the memory, and pays 4 to 8 us a page. What leaves by our hand while its program runs costs
//! both of us 17 to 30 us (docs/benchmarks.md, How pages leave), and of one that outruns us it makes no room.

use std::time::{Duration, Instant};

/// Met so often in a second it is held by the wall, whatever we do.
const OFTEN: u64 = 2000;
/// Something is done ahead for so long before that is asked.
const TRIED: Duration = Duration::from_millis(50);
/// Left alone for so long at first, and twice as long each time that nothing has changed, up to so long.
const LEFT: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(800));

/// See the module.
#[derive(Debug)]
pub(super) struct Outrun {
    /// When the present trial began, and how often the wall had been met until then.
    at: Instant,
    hits: u64,
    /// Nothing is done ahead of the wall until then.
    until: Option<Instant>,
    left: Duration,
}

impl Outrun {
    pub(super) fn new() -> Outrun {
        Outrun {
            at: Instant::now(),
            hits: 0,
            until: None,
            left: LEFT.0,
        }
    }

    /// How long nothing is done ahead of the wall; `hits` says how often it was met until `now`, and is asked where that matters.
    pub(super) fn left(
        &mut self,
        now: Instant,
        hits: impl FnOnce() -> Option<u64>,
    ) -> Option<Duration> {
        if let Some(until) = self.until {
            if until > now {
                return Some(until - now);
            }
            // What it met meanwhile says nothing.
            (self.until, self.at, self.hits) = (None, now, hits()?);
            return None;
        }
        let apart = now.saturating_duration_since(self.at);
        if apart < TRIED {
            return None;
        }
        let hits = hits()?;
        let came = hits.saturating_sub(self.hits);
        (self.at, self.hits) = (now, hits);
        if u128::from(came) * 1_000_000 < apart.as_micros() * u128::from(OFTEN) {
            self.left = LEFT.0;
            return None;
        }
        let left = self.left;
        self.until = Some(now + left);
        self.left = (left * 2).min(LEFT.1);
        Some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_meets_the_wall_all_the_same_is_left_to_it_for_longer_and_longer() {
        let mut outrun = Outrun::new();
        let begin = outrun.at;
        let mut at = |ms: u64, hits| outrun.left(begin + Duration::from_millis(ms), || hits);
        // Fewer than 2,000 a second, then as many.
        assert_eq!(at(1000, Some(1999)), None);
        assert_eq!(at(1049, None), None);
        assert_eq!(at(1050, Some(2099)), Some(LEFT.0));
        // Nobody asks meanwhile, and what it met then does not count.
        assert_eq!(at(1060, None), Some(LEFT.0 - Duration::from_millis(10)));
        assert_eq!(at(1100, Some(9000)), None);
        assert_eq!(at(1150, Some(9100)), Some(LEFT.0 * 2));
        // It has stopped.
        assert_eq!(at(1250, Some(20_000)), None);
        assert_eq!(at(1300, Some(20_099)), None);
        assert_eq!(at(1350, Some(20_199)), Some(LEFT.0));
        for ms in (2000..60_000).step_by(1000) {
            let _ = at(ms, Some(ms * 1000));
            let _ = at(ms + 50, Some(ms * 1000 + 1000));
        }
        let left = at(60_000, None).or_else(|| at(60_001, Some(1 << 40)));
        assert!(left <= Some(LEFT.1));
    }
}
