//! The data of a picture: the figures of one target at evenly spaced times.
//!
//! Invariant: a column in which nothing was watched is `None`. It is drawn empty: neither as 0 nor
//! as the figures before it.

use engine::age_bins::{BINS, EDGES_MS};
use engine::{Bytes, Millis};

use crate::ages::{class_sums, short};

/// How times are written on an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// As the time since the track's beginning: `after 10s`.
    Passed,
    /// As the time before now: `10s ago`. The last column is now.
    Ago,
}

/// Whether the picture itself shows the figures under the pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hints {
    /// Yes: each column has a title, which the browser shows.
    Titles,
    /// No: a script of the page shows them.
    None,
}

/// The figures at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moment {
    /// Bytes in memory, by bin of ages ([`EDGES_MS`]).
    pub ages: [u64; BINS],
    /// Bytes in memory of unknown age.
    pub unknown: u64,
    /// Bytes in swap.
    pub swapped: u64,
    /// Refaults per minute, pages; `None` if unknown.
    pub back: Option<u64>,
    /// Share of the time in which at least one process waited for memory, hundredths of a percent;
    /// `None` if unknown.
    pub waited: Option<u32>,
}

impl Moment {
    /// Returns the bytes in memory, of known and of unknown age.
    #[must_use]
    pub fn resident(&self) -> u64 {
        self.ages
            .iter()
            .fold(self.unknown, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// Returns the bytes in those bins whose lower edge is at least `ms`. No page in them was
    /// accessed in the last `ms` milliseconds.
    #[must_use]
    pub fn older_than(&self, ms: u64) -> u64 {
        let old = EDGES_MS
            .iter()
            .zip(&self.ages)
            .filter(|(edge, _)| **edge >= ms);
        old.fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// Returns the figures as one line of text, which the browser shows under the pointer.
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

/// The figures of one target over time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Track {
    /// Beginning of the first column, milliseconds. With [`Clock::Passed`] it is the time since the
    /// beginning; with [`Clock::Ago`] it may be of any clock, because pictures do not use it.
    pub from_ms: u64,
    /// Duration of a column, milliseconds.
    pub step_ms: u64,
    /// The columns, oldest first; `None` for a column in which nothing was watched.
    pub columns: Vec<Option<Moment>>,
    /// How the times are written.
    pub clock: Clock,
}

impl Track {
    /// Returns the width of a picture: the number of columns, at least 1.
    pub(crate) fn width(&self) -> u64 {
        u64::try_from(self.columns.len())
            .unwrap_or(u64::MAX)
            .clamp(1, 1 << 20)
    }

    /// Returns the duration of all columns together, milliseconds; at least 1 ms.
    pub(crate) fn span_ms(&self) -> u64 {
        self.step_ms.saturating_mul(self.width()).max(1)
    }

    /// Returns the newest figures; `None` if no column has figures.
    #[must_use]
    pub fn last(&self) -> Option<&Moment> {
        self.columns.iter().rev().flatten().next()
    }

    /// Returns the figures of all columns that have figures, oldest first.
    pub(crate) fn moments(&self) -> impl Iterator<Item = &Moment> {
        self.columns.iter().flatten()
    }

    /// Returns whether any column has memory in this age class.
    pub(crate) fn has_class(&self, class: usize) -> bool {
        self.moments()
            .any(|moment| class_sums(&moment.ages)[class] > 0)
    }

    /// Returns the time of the column with this index as text: `after 10s`, `10s ago` or `now`.
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
