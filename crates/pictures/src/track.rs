//! What is drawn: one target's figures at evenly spaced times.
//!
//! Invariant: a column that nobody watched is none, and is drawn as nothing: neither as 0 nor as what was before.

use engine::{Bytes, Millis};

use crate::ages::{BINS, EDGES_MS, class_sums, short};

/// How times are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// By what has passed since the beginning.
    Passed,
    /// By how long ago it was: the last column is now.
    Ago,
}

/// Whether a picture tells its figures by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hints {
    /// To who points at a column.
    Titles,
    /// The page sees to that.
    None,
}

/// Figures at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moment {
    /// Bytes in memory by age ([`EDGES_MS`]).
    pub ages: [u64; BINS],
    /// Bytes in memory of unknown age.
    pub unknown: u64,
    /// Bytes in swap.
    pub swapped: u64,
    /// Pages that came back, a minute.
    pub back: Option<u64>,
    /// The share of the time in which somebody waited for memory, hundredths of a percent.
    pub waited: Option<u32>,
}

impl Moment {
    /// Bytes in memory.
    #[must_use]
    pub fn resident(&self) -> u64 {
        self.ages
            .iter()
            .fold(self.unknown, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// Bytes that were surely not touched for so long.
    #[must_use]
    pub fn older_than(&self, ms: u64) -> u64 {
        let old = EDGES_MS
            .iter()
            .zip(&self.ages)
            .filter(|(edge, _)| **edge >= ms);
        old.fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// In a line, for who points at it.
    pub(crate) fn words(&self) -> String {
        let mut text = format!("{} in memory", Bytes(self.resident()));
        if self.swapped > 0 {
            text += &format!(", {} in swap", Bytes(self.swapped));
        }
        for edge in [10_000, 60_000, 600_000, 3_600_000] {
            match self.older_than(edge) {
                0 => break,
                old => text += &format!("; {} not touched for {}", Bytes(old), short(edge)),
            }
        }
        text
    }
}

/// Figures over time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Track {
    /// When the first column begins, milliseconds: since the beginning, or of any clock.
    pub from_ms: u64,
    /// How long a column is.
    pub step_ms: u64,
    /// All of them.
    pub columns: Vec<Option<Moment>>,
    /// How times are told.
    pub clock: Clock,
}

impl Track {
    /// Its columns, as a coordinate; 1 at least.
    pub(crate) fn width(&self) -> u64 {
        u64::try_from(self.columns.len())
            .unwrap_or(u64::MAX)
            .clamp(1, 1 << 20)
    }

    /// From its beginning to its end, milliseconds; 1 at least.
    pub(crate) fn span_ms(&self) -> u64 {
        self.step_ms.saturating_mul(self.width()).max(1)
    }

    /// The newest figures.
    #[must_use]
    pub fn last(&self) -> Option<&Moment> {
        self.columns.iter().rev().flatten().next()
    }

    /// The figures that there are.
    pub(crate) fn moments(&self) -> impl Iterator<Item = &Moment> {
        self.columns.iter().flatten()
    }

    /// The oldest class of age that there ever is any memory of.
    pub(crate) fn has_class(&self, class: usize) -> bool {
        self.moments()
            .any(|moment| class_sums(&moment.ages)[class] > 0)
    }

    /// When a column was, in words.
    #[must_use]
    pub fn time_of(&self, column: usize) -> String {
        let column = u64::try_from(column).unwrap_or(u64::MAX);
        match self.clock {
            Clock::Passed => {
                let after = self.step_ms.saturating_mul(column.saturating_add(1));
                format!(
                    "after {}",
                    Millis(self.from_ms.saturating_add(after) / 100 * 100)
                )
            }
            Clock::Ago => {
                let ago = self.width().saturating_sub(column.saturating_add(1));
                match self.step_ms.saturating_mul(ago) {
                    0 => "now".to_owned(),
                    ago => format!("{} ago", Millis(ago)),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_in_words() {
        let mut moment = Moment {
            unknown: 1 << 20,
            ..Moment::default()
        };
        moment.ages[0] = 3 << 20;
        moment.ages[7] = 4 << 20;
        assert_eq!(moment.resident(), 8 << 20);
        assert_eq!(
            (moment.older_than(60_000), moment.older_than(60_001)),
            (4 << 20, 0)
        );
        let words = "8 MiB in memory; 4 MiB not touched for 10s; 4 MiB not touched for 1m";
        assert_eq!(moment.words(), words);
        let track = |clock| Track {
            from_ms: 0,
            step_ms: 10_000,
            columns: vec![None, Some(moment), None],
            clock,
        };
        assert_eq!(track(Clock::Passed).time_of(0), "after 10s");
        assert_eq!(track(Clock::Ago).time_of(0), "20s ago");
        assert_eq!(track(Clock::Ago).time_of(2), "now");
        assert_eq!(track(Clock::Ago).last(), Some(&moment));
    }
}
