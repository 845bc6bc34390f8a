//! What the reports of one watching said, small enough to keep for days.
//!
//! Invariant: at most [`MOST`] points, evenly spread over the whole time, the newest among them; the
//! ages of a point and its unknown bytes are what was resident then.

use host::report::Report;

use super::bins::{fold, total};

/// Points kept. When there are more, every second one goes, and half as many come.
const MOST: usize = 512;
/// Lower edges of the ages, milliseconds.
pub(super) const EDGES_MS: [u64; AGES] = [0, 1000, 5000, 10_000, 60_000, 600_000, 3_600_000];
/// How many ages a picture tells apart.
pub(super) const AGES: usize = 7;

/// One report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Point {
    pub(super) wall_ms: u64,
    /// Bytes by age, the youngest first.
    pub(super) ages: [u64; AGES],
    pub(super) unknown: u64,
    pub(super) swapped: u64,
}

impl Point {
    pub(super) fn of(report: &Report) -> Point {
        let mut ages = [0; AGES];
        for (age, row) in ages.iter_mut().zip(fold(report, EDGES_MS.into_iter())) {
            *age = total(&row);
        }
        Point {
            wall_ms: report.wall_ms,
            ages,
            unknown: report.unknown_age_bytes,
            swapped: report.swapped_bytes,
        }
    }
}

/// The points so far.
#[derive(Debug, Default)]
pub(crate) struct History {
    points: Vec<Point>,
    /// Reports seen.
    seen: u64,
    /// Every so many-th is kept, as a power of two.
    shift: u32,
    newest: Option<Point>,
}

impl History {
    /// One more report.
    pub(crate) fn push(&mut self, report: &Report) {
        let point = Point::of(report);
        if self.seen.trailing_zeros() >= self.shift {
            self.points.push(point);
        }
        self.seen += 1;
        self.newest = Some(point);
        if self.points.len() >= MOST {
            let mut n = 0usize;
            self.points.retain(|_| {
                n += 1;
                n % 2 == 1
            });
            self.shift += 1;
        }
    }

    /// In the order of time, the newest last.
    pub(super) fn points(&self) -> Vec<Point> {
        let mut points = self.points.clone();
        if let Some(newest) = self.newest
            && points.last() != Some(&newest)
        {
            points.push(newest);
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_time_in_few_points() {
        let mut history = History::default();
        for wall_ms in 0..100_000 {
            history.push(&Report {
                wall_ms,
                ..Report::default()
            });
        }
        let points = history.points();
        assert!(
            points.len() <= MOST && points.len() > MOST / 4,
            "{}",
            points.len()
        );
        assert!(points.is_sorted_by_key(|point| point.wall_ms));
        assert_eq!(points[0].wall_ms, 0);
        assert_eq!(points.last().map(|point| point.wall_ms), Some(99_999));
        let gaps: Vec<u64> = points
            .windows(2)
            .map(|two| two[1].wall_ms - two[0].wall_ms)
            .collect();
        let inner = &gaps[..gaps.len() - 1];
        assert!(inner.iter().all(|gap| *gap == inner[0]), "evenly spread");
    }
}
