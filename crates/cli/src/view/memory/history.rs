//! The figures of all reports of one watch, in so little memory that days fit.
//!
//! Invariant: at most [`POINTS_MAX`] points, evenly spread over the whole time, and the newest
//! report. The ages and unknown bytes of a point add up to the memory that was resident at its
//! time.

use host::report::Report;
use pictures::{Clock, EDGES_MS, Moment, Track};

use super::bins::fold;

/// Maximum number of points. At this number, every second point is dropped, and from then on only
/// half as many reports are stored as before.
const POINTS_MAX: usize = 512;
/// Columns of a picture: a user cannot distinguish more on a phone, and hardly more on a large
/// screen.
const COLUMNS: u64 = 240;

/// The figures of one report that are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Point {
    wall_ms: u64,
    moment: Moment,
    /// Number of pages refaulted since watching began.
    refaulted: u64,
}

/// Returns those figures of a report that are drawn and that need no second report.
pub(super) fn moment(report: &Report) -> Moment {
    let mut moment = Moment {
        unknown: report.unknown_age_bytes,
        swapped: report.swapped_bytes,
        waited: report.kernel_says.pressure_some_avg10,
        ..Moment::default()
    };
    let rows = fold(report, EDGES_MS.into_iter());
    for (age, row) in moment.ages.iter_mut().zip(&rows) {
        *age = row.bytes();
    }
    moment
}

/// The stored points.
#[derive(Debug, Default)]
pub(crate) struct History {
    points: Vec<Point>,
    /// Number of reports so far.
    seen: u64,
    /// One of every `1 << shift` reports is stored.
    shift: u32,
    newest: Option<Point>,
}

impl History {
    /// Adds a report.
    pub(crate) fn push(&mut self, report: &Report) {
        let point = Point {
            wall_ms: report.wall_ms,
            moment: moment(report),
            refaulted: report.refaulted_pages,
        };
        if self.seen.trailing_zeros() >= self.shift {
            self.points.push(point);
        }
        self.seen += 1;
        self.newest = Some(point);
        if self.points.len() >= POINTS_MAX {
            let mut n = 0usize;
            self.points.retain(|_| {
                n += 1;
                n % 2 == 1
            });
            self.shift += 1;
        }
    }

    /// Returns the points in order of time, the newest last.
    fn points(&self) -> Vec<Point> {
        let mut points = self.points.clone();
        if let Some(newest) = self.newest
            && points.last() != Some(&newest)
        {
            points.push(newest);
        }
        points
    }

    /// Returns the history from the first report to the newest; `None` if there are too few reports
    /// to draw. A column shows the last scan in its time, or otherwise the last scan before, as
    /// scans are not evenly spaced. A column long after the last scan is empty.
    pub(super) fn track(&self) -> Option<Track> {
        let points = self.points();
        let ([first, _, .., last], Some(scans)) = (&points[..], points.len().checked_sub(1)) else {
            return None;
        };
        let span = last.wall_ms.saturating_sub(first.wall_ms);
        let scans = u64::try_from(scans).unwrap_or(COLUMNS);
        if scans < 2 || span == 0 {
            return None;
        }
        let columns = scans.min(COLUMNS);
        let step_ms = span.div_ceil(columns);
        let held_ms = 2 * step_ms.max(span / scans);
        let mut before = first;
        let column = |n: u64| {
            let end_ms = step_ms.saturating_mul(n).saturating_add(first.wall_ms);
            let next = points.partition_point(|point| point.wall_ms <= end_ms);
            let point = points.get(next.checked_sub(1)?)?;
            if end_ms.saturating_sub(point.wall_ms) > held_ms {
                return None;
            }
            let back = refaults(before, point);
            before = point;
            Some(Moment {
                back,
                ..point.moment
            })
        };
        Some(Track {
            from_ms: first.wall_ms,
            step_ms,
            columns: (1..=columns).map(column).collect(),
            clock: Clock::Passed,
        })
    }
}

/// Returns how many pages were refaulted per minute between two reports; `None` if no time passed
/// between them.
fn refaults(before: &Point, point: &Point) -> Option<u64> {
    let pages = u128::from(point.refaulted.saturating_sub(before.refaulted));
    let passed = u128::from(point.wall_ms.saturating_sub(before.wall_ms));
    u64::try_from((pages * 60_000).checked_div(passed)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(wall_ms: u64, swapped_bytes: u64, refaulted_pages: u64) -> Report {
        Report {
            wall_ms,
            swapped_bytes,
            refaulted_pages,
            ..Report::default()
        }
    }

    fn track(reports: &[Report]) -> Option<Track> {
        let mut history = History::default();
        reports.iter().for_each(|report| history.push(report));
        history.track()
    }

    #[test]
    fn a_long_time_in_few_points() {
        let mut history = History::default();
        for wall_ms in 0..100_000 {
            history.push(&report(wall_ms, 0, 0));
        }
        let points = history.points();
        assert!(
            points.len() <= POINTS_MAX && points.len() > POINTS_MAX / 4,
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
        let track = history.track().expect("many");
        assert_eq!(track.columns.len(), 240);
        assert!(track.columns.iter().all(Option::is_some));
    }

    #[test]
    fn scans_at_uneven_times_make_no_gap_and_a_pause_does() {
        let even = [(0, 0), (900, 1), (2_100, 2), (2_900, 3), (4_000, 4)];
        let even = even.map(|(ms, swapped)| report(ms, swapped, swapped * 10));
        let track_of = track(&even).expect("five reports");
        let swapped = track_of.columns.iter();
        let swapped: Vec<_> = swapped.map(|one| one.map(|one| one.swapped)).collect();
        // The scan at 2.1 s is not shown at 2 s; at 3 s, the newest scan is that at 2.9 s.
        assert_eq!(swapped, [Some(1), Some(1), Some(3), Some(4)]);
        assert_eq!((track_of.from_ms, track_of.step_ms), (0, 1_000));
        let pause = [0, 1_000, 2_000, 100_000].map(|ms| report(ms, 1, 0));
        let track_of = track(&pause).expect("four reports");
        let has = track_of.columns.iter().map(Option::is_some);
        assert_eq!(has.collect::<Vec<_>>(), [true, true, true]);
        let mut long: Vec<Report> = (0..50).map(|s| report(s * 1_000, 1, 0)).collect();
        long.push(report(1_000_000, 1, 0));
        let track_of = track(&long).expect("many reports");
        let gone = track_of.columns.iter().filter(|one| one.is_none());
        assert!(gone.count() > 40, "nobody looked");
    }

    #[test]
    fn refaults_are_shown_per_minute() {
        let reports = [(0, 5), (1_000, 5), (2_000, 25)].map(|(ms, back)| report(ms, 0, back));
        let track_of = track(&reports).expect("three reports");
        let back = track_of.columns.iter();
        let back: Vec<_> = back.map(|one| one.and_then(|one| one.back)).collect();
        assert_eq!(back, [Some(0), Some(1_200)]);
        assert!(track(&reports[..2]).is_none(), "one column shows nothing");
        assert!(track(&[]).is_none());
    }
}
