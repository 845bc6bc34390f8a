//! What less memory would cost a program, as text: the same text in a report and on the dashboard.
//!
//! Invariant: the text says nothing about sizes that the curve does not cover, and names both ends
//! of the range that it covers.

use std::collections::BTreeSet;
use std::fmt::Write;

use engine::units::PAGE_SIZE;
use engine::{Bytes, Millis};
use host::report::{Curve, CurvePoint, Recommended};
use pictures::{CurveAt, escaped, per_cent};

/// Number of rows of the table.
const ROWS: usize = 10;

/// A refault curve, and the program it belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Cost<'a> {
    /// The curve.
    pub curve: &'a Curve,
    /// Resident bytes.
    pub resident_bytes: u64,
    /// Those of the resident bytes that are of unknown age.
    pub unknown_age_bytes: u64,
}

/// Formats a rate with as many digits as are meaningful: `1234`, `12.3`, `0.4`.
#[must_use]
pub fn rate(per_minute: f64) -> String {
    match per_minute {
        n if n >= 99.95 => format!("{n:.0}"),
        n => format!("{n:.1}"),
    }
}

/// Returns up to `ROWS` of the curve's points, evenly spread: both ends, and the sizes that the
/// text recommends, are among them.
pub fn rows(curve: &Curve) -> impl Iterator<Item = &CurvePoint> {
    let points = &curve.points;
    let last = points.len().saturating_sub(1);
    let rows = ROWS.min(points.len());
    let spread = (0..rows).map(move |row| row * last / (rows - 1).max(1));
    let chosen = [&curve.recommended, &curve.knee].into_iter().flatten();
    let chosen = chosen.filter_map(|one| points.iter().position(|point| point.bytes == one.bytes));
    let all: BTreeSet<usize> = spread.chain(chosen).collect();
    all.into_iter().filter_map(|at| points.get(at))
}

impl Cost<'_> {
    /// Returns a sentence with the recommended size, or with the reason why none is recommended
    /// (yet).
    #[must_use]
    pub fn limit(&self) -> String {
        match &self.curve.recommended {
            Some(chosen) => self.chosen(chosen),
            None => self.too_early(),
        }
    }

    /// Returns a sentence about the size at the curve's bend; `None` if the curve has no bend.
    #[must_use]
    pub fn bend(&self) -> Option<String> {
        self.curve.knee.as_ref().map(|knee| self.chosen(knee))
    }

    /// Formats a recommended size and its refaults: `75 MiB (29%; as a limit 76 MiB, with
    /// --age-every 5s): about 33 pages a minute would come back`.
    fn chosen(&self, chosen: &Recommended) -> String {
        #[expect(clippy::cast_precision_loss, reason = "a share that is rounded")]
        let pages = self.curve.working_set_bytes as f64 / PAGE_SIZE as f64;
        let percent = match pages > 0.0 {
            true => 100.0 * chosen.refaults_per_minute / pages,
            false => 0.0,
        };
        format!(
            "{} ({}; as a limit {}, with --age-every {}): about {} pages a minute would come back, {percent:.2}% of the working set ({})",
            Bytes(chosen.bytes),
            per_cent(chosen.bytes, self.resident_bytes),
            Bytes(chosen.limit_bytes),
            Millis(chosen.age_every_ms),
            rate(chosen.refaults_per_minute),
            Bytes(self.curve.working_set_bytes),
        )
    }

    /// Returns a text that says why no limit is recommended yet, and what the user can do.
    fn too_early(&self) -> String {
        let rule = self.curve.refaults_per_mille;
        let share = format!("{}% of the working set", (rule * 100.0).round() / 1000.0);
        let seconds = (self.curve.needed_ms(rule) / 1000.0).ceil();
        let needed = self.curve.needed_ms(rule);
        #[expect(clippy::cast_precision_loss, reason = "a time that is compared")]
        let is_reported = |watched_ms: u64| watched_ms as f64 >= needed;
        let points = &self.curve.points;
        // A larger size was watched for less time, because the program had to grow to that size
        // first.
        let largest = points
            .iter()
            .rev()
            .find(|point| is_reported(point.watched_ms));
        let is_early = needed.is_finite() && !is_reported(self.curve.watched_ms);
        match largest {
            _ if is_early || (largest.is_none() && !points.is_empty()) => format!(
                "not yet: it takes {seconds:.0}s to tell that no more than {share} comes back in a minute (--refaults)",
            ),
            Some(point) if points.last().is_some_and(|last| last.bytes > point.bytes) => format!(
                "none: at sizes up to {} more than {share} would come back in a minute (--refaults), and larger ones were not watched for long enough",
                Bytes(point.bytes)
            ),
            _ => format!(
                "none: at all sizes below what was seen in use more than {share} would come back in a minute (--refaults)"
            ),
        }
    }

    /// Returns a sentence about the memory that the curve does not cover.
    #[must_use]
    pub fn not_known(&self) -> String {
        let curve = self.curve;
        let mut text = format!(
            "sizes below {}, which is in use between two scans, and above {}: {} of what is resident were not touched in {}",
            Bytes(curve.known_from_bytes),
            Bytes(curve.known_to_bytes),
            Bytes(curve.untouched_bytes),
            Millis(curve.watched_ms),
        );
        if curve.blind_ms > 0 {
            let blind = Millis(curve.blind_ms);
            text += &format!("; and {blind} in which too many ages were unknown");
        }
        if self.unknown_age_bytes > 0 {
            let bytes = Bytes(self.unknown_age_bytes);
            text += &format!("; {bytes} of unknown age are taken to be in use");
        }
        text
    }

    /// Returns the curve's picture, sentences and table as HTML.
    #[must_use]
    pub fn html(&self) -> String {
        let mut text = pictures::curve(&self.picture());
        text += "<dl class=\"cost\">\n";
        let words = [
            ("limit", Some(self.limit())),
            ("bend", self.bend()),
            ("not known", Some(self.not_known())),
        ];
        for (name, words) in words {
            if let Some(words) = words {
                let _ = writeln!(text, "<dt>{name}</dt><dd>{}</dd>", escaped(&words));
            }
        }
        text + "</dl>\n" + &self.table()
    }

    fn picture(&self) -> pictures::Curve {
        let at = |bytes, per_minute| CurveAt { bytes, per_minute };
        let points = self.curve.points.iter();
        let chosen = [
            ("limit", &self.curve.recommended),
            ("bend", &self.curve.knee),
        ];
        let chosen = chosen.into_iter().filter_map(|(class, one)| {
            let one = one.as_ref()?;
            let name = format!("{class}: {}", Bytes(one.limit_bytes));
            Some((class, name, at(one.bytes, one.refaults_per_minute)))
        });
        pictures::Curve {
            points: points
                .map(|point| at(point.bytes, point.refaults_per_minute))
                .collect(),
            chosen: chosen.collect(),
        }
    }

    fn table(&self) -> String {
        if self.curve.points.is_empty() {
            return String::new();
        }
        let mut text = "<details><summary>The curve in numbers</summary>\
            <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"the curve in numbers\"><table>\
            <tr><th>memory</th><th>of all</th><th>idle for</th><th>back a minute</th><th>of the accesses</th></tr>\n"
            .to_owned();
        for point in rows(self.curve) {
            let _ = writeln!(
                text,
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.3}%</td></tr>",
                Bytes(point.bytes),
                escaped(&per_cent(point.bytes, self.resident_bytes)),
                Millis(point.idle_ms),
                rate(point.refaults_per_minute),
                100.0 * point.miss_ratio,
            );
        }
        text + "</table></div></details>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that uses 40 of its 100 MiB all the time, and the other 60 MiB again after more
    /// than a minute.
    fn curve() -> Curve {
        let point = |mib: u64, idle_ms, refaults| {
            CurvePoint::new(mib << 20, idle_ms, (refaults, 1_000_000), 60_000)
        };
        let curve = Curve {
            watched_ms: 60_000,
            working_set_bytes: 44 << 20,
            known_from_bytes: 24 << 20,
            known_to_bytes: 48 << 20,
            untouched_bytes: 52 << 20,
            points: vec![
                point(24, 1_000, 180_000),
                point(36, 5_000, 4_000),
                point(42, 20_000, 21),
                point(48, 50_000, 0),
            ],
            ..Curve::default()
        };
        curve.recommend(2.0)
    }

    fn cost(curve: &Curve) -> Cost<'_> {
        Cost {
            curve,
            resident_bytes: 100 << 20,
            unknown_age_bytes: 0,
        }
    }

    #[test]
    fn a_page_names_sizes_to_choose_and_what_is_unknown() {
        let curve = curve();
        let html = cost(&curve).html();
        for part in [
            "<path class=\"curve\" d=\"M0 ",
            "<path class=\"dot limit\" d=\"M750 ",
            "<i class=\"limit\"></i>limit: 42.2 MiB",
            "<dt>limit</dt><dd>42 MiB (42%; as a limit 42.2 MiB, with --age-every 6s): about 21.0 pages a minute",
            "<dt>bend</dt><dd>36 MiB (36%; as a limit 36.2 MiB",
            "<dt>not known</dt><dd>sizes below 24 MiB",
            "<td>24 MiB</td><td>24%</td><td>1s</td><td>180000</td><td>18.000%</td>",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
    }

    #[test]
    fn no_size_is_named_before_enough_is_known() {
        let mut young = curve();
        young.watched_ms = 5_000;
        let points = young.points.iter_mut();
        points.for_each(|point| point.watched_ms = 5_000);
        let young = young.recommend(2.0);
        let html = cost(&young).html();
        assert!(
            html.contains("to tell that no more than 0.2% of the working set"),
            "{html}"
        );
        assert!(!html.contains("class=\"dot limit\""), "{html}");
        // The program used all of its memory since watching began, but none of it in the last two
        // minutes. Even then the limit may cause one refault a second.
        let idle = Curve {
            working_set_bytes: 0,
            ..curve()
        }
        .recommend(2.0);
        let limit = cost(&idle).limit();
        assert!(
            limit.starts_with("42 MiB") && !limit.contains("inf"),
            "{limit}"
        );
        // A program that has grown: the known costs of its smaller sizes are too high, and its
        // larger sizes were watched for too short a time.
        let mut grown = curve();
        for point in &mut grown.points {
            (point.refaults_per_minute, point.watched_ms) = (1e6, 1 << 40);
        }
        let last = grown.points.last_mut().expect("four");
        (last.refaults_per_minute, last.watched_ms) = (0.0, 1);
        grown.watched_ms = 1 << 40;
        let html = cost(&grown.recommend(2.0)).html();
        assert!(html.contains("none: at sizes up to 42 MiB"), "{html}");
        let never = Curve {
            working_set_bytes: 1 << 40,
            points: Vec::new(),
            ..curve()
        }
        .recommend(2.0);
        let html = cost(&never).html();
        assert!(
            html.contains("none: at all sizes") && !html.contains("<svg"),
            "{html}"
        );
    }
}
