//! Marks along an axis: a coordinate in tenths of a percent of the axis, and a text.
//!
//! Invariant: marks lie inside the picture, and are few enough for a screen of 320 pixels.

use engine::{Bytes, Millis};

use crate::ages::short;
use crate::track::{Clock, Track};

/// Length of a whole axis in its unit, tenths of a percent.
pub(crate) const WHOLE: u64 = 1000;

/// A mark on an axis: coordinate in tenths of a percent, text.
pub(crate) type Mark = (u64, String);

/// Possible distances between two marks of a time axis, milliseconds.
const STEPS_MS: [u64; 23] = [
    100,
    200,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    30_000,
    60_000,
    120_000,
    300_000,
    600_000,
    900_000,
    1_800_000,
    3_600_000,
    7_200_000,
    10_800_000,
    21_600_000,
    43_200_000,
    86_400_000,
    172_800_000,
    604_800_000,
];
/// Maximum number of intervals between marks, on a time axis (`TIMES`) and on other axes (`SIZES`).
const TIMES: u64 = 5;
const SIZES: u64 = 4;

/// Returns `part` of `whole` in tenths of a percent, at most [`WHOLE`].
pub(crate) fn place(part: u64, whole: u64) -> u64 {
    let part = u128::from(part.min(whole)) * u128::from(WHOLE);
    u64::try_from(part / u128::from(whole.max(1))).unwrap_or(WHOLE)
}

/// Returns the marks of a track's time axis, from left to right.
pub(crate) fn times(track: &Track) -> Vec<Mark> {
    let span = track.span_ms();
    let fits = |step: &&u64| span / **step <= TIMES;
    let step = STEPS_MS.iter().find(fits).copied().unwrap_or(span);
    let marks = (0..=TIMES).map_while(|n| {
        let ms = step.saturating_mul(n);
        (ms <= span).then_some(ms)
    });
    match track.clock {
        Clock::Passed => marks
            .map(|ms| {
                let name = match track.from_ms.saturating_add(ms) {
                    0..100 => "0s".to_owned(),
                    at => Millis(at / 100 * 100).to_string(),
                };
                (place(ms, span), name)
            })
            .collect(),
        Clock::Ago => {
            let name = |ms| match ms {
                0 => "now".to_owned(),
                ms => format!("{} ago", short(ms)),
            };
            let mut all: Vec<Mark> = marks
                .map(|ms| (WHOLE - place(ms, span), name(ms)))
                .collect();
            all.reverse();
            all
        }
    }
}

/// Returns marks for sizes from 0 to `most` bytes, ascending. The coordinates count from the top of
/// the picture.
pub(crate) fn sizes(most: u64) -> Vec<Mark> {
    // The steps are powers of two, so that the texts are short.
    levels(
        most,
        (most / SIZES).max(1).checked_next_power_of_two(),
        |bytes| Bytes(bytes).to_string(),
    )
}

/// Returns marks for sizes from `from` to `from + span` bytes. The coordinates count from the left.
pub(crate) fn sizes_between(from: u64, span: u64) -> Vec<Mark> {
    let step = (span / SIZES).max(1);
    let step = step.checked_next_power_of_two().unwrap_or(step);
    let first = from.div_ceil(step).saturating_mul(step);
    let mut marks: Vec<Mark> = Vec::new();
    for n in 0..=SIZES {
        let size = first.saturating_add(step.saturating_mul(n));
        let name = Bytes(size).to_string();
        // Leaves out a mark whose text equals the previous one's.
        let is_new = marks.last().is_none_or(|(_, last)| *last != name);
        if size >= from && size - from <= span && is_new {
            marks.push((place(size - from, span), name));
        }
    }
    marks
}

/// Returns marks for counts from 0 to `most`, ascending, with the texts that `name` returns. The
/// coordinates count from the top.
pub(crate) fn counts(most: u64, name: impl Fn(u64) -> String) -> Vec<Mark> {
    levels(most, decimal_step((most / SIZES).max(1)), name)
}

/// Returns marks at 0 and at multiples of `step` up to `most`, with the texts that `name` returns.
fn levels(most: u64, step: Option<u64>, name: impl Fn(u64) -> String) -> Vec<Mark> {
    let step = step.unwrap_or(most).max(1);
    let all = (0..=SIZES).map_while(|n| {
        let level = step.saturating_mul(n);
        (level <= most).then(|| (WHOLE - place(level, most), name(level)))
    });
    all.collect()
}

/// Returns the smallest number of the form 1, 2 or 5 times a power of ten that is at least `least`;
/// `None` if it has more than 64 bits.
fn decimal_step(least: u64) -> Option<u64> {
    let mut power = 1u64;
    loop {
        for digit in [1, 2, 5] {
            let step = power.checked_mul(digit)?;
            if step >= least {
                return Some(step);
            }
        }
        power = power.checked_mul(10)?;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn track(from_ms: u64, step_ms: u64, columns: usize, clock: Clock) -> Track {
        Track {
            from_ms,
            step_ms,
            columns: vec![None; columns],
            clock,
        }
    }

    fn texts(marks: &[Mark]) -> Vec<&str> {
        marks.iter().map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn times_and_sizes_are_round() {
        let day = times(&track(5, 300_000, 288, Clock::Ago));
        assert_eq!(
            texts(&day),
            ["1d ago", "18h ago", "12h ago", "6h ago", "now"]
        );
        assert_eq!((day[0].0, day[4].0), (0, WHOLE));
        let minute = times(&track(0, 1000, 60, Clock::Passed));
        assert_eq!(texts(&minute), ["0s", "20s", "40s", "1m"]);
        assert_eq!(
            texts(&sizes(1000 << 20)),
            ["0 B", "256 MiB", "512 MiB", "768 MiB"]
        );
        assert_eq!(
            texts(&sizes_between(50 << 20, 50 << 20)),
            ["64 MiB", "80 MiB", "96 MiB"]
        );
        assert_eq!(sizes_between(50 << 20, 50 << 20)[0].0, 280);
        assert_eq!(texts(&sizes_between(1 << 40, 1 << 20)), ["1 TiB"]);
        assert_eq!(
            texts(&counts(700, |n| n.to_string())),
            ["0", "200", "400", "600"]
        );
    }

    proptest! {
        #[test]
        fn marks_lie_inside(
            from in any::<u64>(), step in any::<u64>(), columns in 0usize..400, most in any::<u64>(), ago: bool
        ) {
            let clock = if ago { Clock::Ago } else { Clock::Passed };
            let all = [times(&track(from, step, columns, clock)), sizes(most), counts(most, |n| n.to_string())];
            let between = sizes_between(from, step);
            prop_assert!(between.len() <= 6 && between.iter().all(|(at, _)| *at <= WHOLE));
            for marks in all {
                prop_assert!(!marks.is_empty() && marks.len() <= 6);
                prop_assert!(marks.iter().all(|(at, _)| *at <= WHOLE));
            }
        }
    }
}
