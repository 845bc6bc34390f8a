//! Limits that are shares of what the program uses, resident and swapped together.
//!
//! Invariant: the whole is the most that was used so far, so a share never shrinks because of what it made
//! leave. Where nothing is known yet there is no limit. A program that is just starting grows too fast for
//! a hard share: there a share of memory.max is held as memory.high is, and nothing is killed for it.

use engine::units::{Bytes, Limit};
use host::manage;

use crate::options::{Limits, MAX_LEAST, Size};

/// Limits as given, and the whole that shares are of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    limits: Limits,
    whole: Bytes,
    is_starting: bool,
}

impl Shares {
    /// `is_starting`: the program is about to start, and uses nothing yet.
    pub(super) fn new(limits: Limits, is_starting: bool) -> Shares {
        Shares {
            limits,
            whole: Bytes(0),
            is_starting,
        }
    }

    /// Other limits, of the same whole.
    pub(super) fn with(self, limits: Limits) -> Shares {
        Shares {
            limits,
            is_starting: false,
            ..self
        }
    }

    /// Limits as given.
    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    /// Whether any depends on what is used.
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

    /// So much is used: the limits, if they are others now.
    pub(super) fn used(&mut self, bytes: u64) -> Option<manage::Limits> {
        if bytes <= self.whole.0 {
            return None;
        }
        self.whole = Bytes(bytes);
        Some(self.now())
    }

    /// The limits as they are now.
    pub(super) fn now(&self) -> manage::Limits {
        let of = |size: Size| match size {
            Size::Share(_) if self.whole.0 == 0 => Limit::Max,
            size => size.of(self.whole),
        };
        // A share of what a program uses in its first moment is less than any program can live in.
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

    /// The story: `--memory-high 512`, in bytes, made a program crawl, and is refused; 1% of a shell was as little.
    #[test]
    fn a_share_of_hardly_anything_is_what_a_program_can_live_in() {
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
