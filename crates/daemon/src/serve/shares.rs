//! Limits that are shares of what the program uses, resident and swapped out together.
//!
//! Invariant: a share is of the most bytes that the program has used so far, so a share does not
//! shrink because the manager reclaims. Before the first measurement there is no limit. A program
//! that is just starting grows too fast for a hard limit: until then a share of memory.max is
//! enforced like memory.high, and nothing is killed for it.

use engine::units::{Bytes, Limit};
use host::manage;

use crate::options::{Limits, MAX_LEAST, Size};

/// Limits as set by the user, and the number of bytes that is 100%.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    limits: Limits,
    whole: Bytes,
    is_starting: bool,
}

impl Shares {
    /// Returns the limits with nothing measured yet. `is_starting`: the program is about to start.
    pub(super) fn new(limits: Limits, is_starting: bool) -> Shares {
        Shares {
            limits,
            whole: Bytes(0),
            is_starting,
        }
    }

    /// Returns these shares with other limits; the number of bytes that is 100% stays.
    pub(super) fn with(self, limits: Limits) -> Shares {
        Shares {
            limits,
            is_starting: false,
            ..self
        }
    }

    /// Returns the limits as the user set them.
    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    /// Whether any limit is a share.
    pub(super) fn vary(&self) -> bool {
        let Limits {
            min,
            low,
            high,
            max,
            swap_max,
        } = self.limits;
        [min, low, high, max, swap_max]
            .into_iter()
            .any(Size::is_share)
    }

    /// Records how many bytes the program uses. Returns the limits if they have changed, else
    /// `None`.
    pub(super) fn used(&mut self, bytes: u64) -> Option<manage::Limits> {
        if bytes <= self.whole.0 {
            return None;
        }
        self.whole = Bytes(bytes);
        Some(self.now())
    }

    /// Returns the limits in bytes, by the bytes used so far.
    pub(super) fn now(&self) -> manage::Limits {
        let of = |size: Size| match size {
            Size::Share(_) if self.whole.0 == 0 => Limit::Max,
            size => size.of(self.whole),
        };
        // Just after its start a program uses so little memory that a share of it is less than any
        // program needs.
        let hold = |size: Size| match (size, of(size)) {
            (Size::Share(_), Limit::Bytes(bytes)) => Limit::Bytes(bytes.max(MAX_LEAST)),
            (_, limit) => limit,
        };
        let below = |size: Size| match size {
            Size::Share(_) if self.whole.0 == 0 => Limit::Bytes(Bytes(0)),
            size => size.of(self.whole),
        };
        let limits = self.limits;
        let (mut high, mut max) = (hold(limits.high), hold(limits.max));
        if self.is_starting && limits.max.is_share() {
            high = if max.pages() < high.pages() {
                max
            } else {
                high
            };
            max = Limit::Max;
        }
        manage::Limits {
            min: below(limits.min),
            low: below(limits.low),
            high,
            max,
            swap_max: of(limits.swap_max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half() -> Limits {
        Limits {
            max: "50%".parse().expect("a share"),
            min: "10%".parse().expect("a share"),
            ..Limits::default()
        }
    }

    #[test]
    fn a_share_is_of_the_most_that_was_used() {
        let mut shares = Shares::new(half(), false);
        assert_eq!(shares.now().max, Limit::Max, "nothing is known yet");
        let limits = shares.used(1 << 30).expect("others");
        assert_eq!(limits.max, Limit::Bytes(Bytes(1 << 29)));
        assert_eq!(limits.min, Limit::Bytes(Bytes((1 << 30) / 10)));
        assert_eq!(shares.used(600), None, "what left does not count less");
    }

    /// `--memory-high 512` (bytes) is refused because a program would crawl. 1% of what a shell
    /// uses is as little, but is raised to [`MAX_LEAST`].
    #[test]
    fn a_tiny_share_is_raised_to_what_a_program_needs() {
        let mut shares = Shares::new(half(), false);
        let limits = shares.used(100 << 10).expect("others");
        assert_eq!(limits.max, Limit::Bytes(MAX_LEAST));
    }

    #[test]
    fn a_share_kills_no_program_that_starts() {
        let mut shares = Shares::new(half(), true);
        let limits = shares.used(1 << 30).expect("others");
        let max = (limits.max, limits.high);
        assert_eq!(max, (Limit::Max, Limit::Bytes(Bytes(1 << 29))));
        assert!(shares.vary() && !Shares::new(Limits::default(), true).vary());
    }
}
