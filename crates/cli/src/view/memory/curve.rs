//! What less memory would cost: a plot, a table, and sizes to choose.
//!
//! Invariant: nothing is said of sizes of which nothing is known, and both ends of what is known are named.

mod plot;

pub(super) use plot::{Decades, short};

use daemon::options::{Bytes, Millis};
use host::report::{Curve, CurvePoint, Recommended, Report};

use crate::view::share;
use crate::view::sheet::Sheet;

use super::per_cent;

/// Rows of the table.
const ROWS: usize = 10;

/// The part of a report; nothing without a curve.
pub(super) fn curve(report: &Report, sheet: &mut Sheet) {
    let Some(curve) = &report.curve else {
        return;
    };
    sheet.heading("What less memory would cost");
    plot::plot(curve, sheet);
    table(report, curve, sheet);
    chosen(report, curve, sheet);
    sheet.row("not known", &not_known(report, curve));
}

/// `1,234`, `12.3`, `0.4`: a rate with as many digits as mean something.
pub(super) fn rate(per_minute: f64) -> String {
    match per_minute {
        n if n >= 99.95 => format!("{n:.0}"),
        n => format!("{n:.1}"),
    }
}

fn table(report: &Report, curve: &Curve, sheet: &mut Sheet) {
    sheet.dim(&format!(
        "  {:>10}{:>8}{:>10}{:>15}{:>17}",
        "memory", "of all", "idle for", "back a minute", "of the accesses"
    ));
    for point in rows(&curve.points) {
        sheet.line(&format!(
            "  {:>10}{:>8}{:>10}{:>15}{:>16.3}%",
            Bytes(point.bytes).to_string(),
            per_cent(point.bytes, report.resident_bytes),
            Millis(point.idle_ms).to_string(),
            rate(point.refaults_per_minute),
            100.0 * point.miss_ratio,
        ));
    }
}

/// Some of the points, spread evenly; both ends among them.
pub(super) fn rows(points: &[CurvePoint]) -> impl Iterator<Item = &CurvePoint> {
    let last = points.len().saturating_sub(1);
    let rows = ROWS.min(points.len());
    (0..rows).filter_map(move |row| points.get(row * last / (rows - 1).max(1)))
}

/// Sizes to choose.
fn chosen(report: &Report, curve: &Curve, sheet: &mut Sheet) {
    match &curve.recommended {
        Some(chosen) => sheet.row("limit", &words(report, curve, chosen)),
        None => sheet.row("limit", &too_early(curve)),
    }
    if let Some(knee) = &curve.knee {
        sheet.row("bend", &words(report, curve, knee));
    }
}

/// `76 MiB (29%), looked at each 5s: about 33 pages a minute would come back`.
pub(super) fn words(report: &Report, curve: &Curve, chosen: &Recommended) -> String {
    let part = share(curve.working_set_bytes, 4096);
    let percent = match part > 0.0 {
        true => 100.0 * chosen.refaults_per_minute / part,
        false => 0.0,
    };
    format!(
        "{} ({}), looked at each {}: about {} pages a minute would come back, {percent:.2}% of the working set ({})",
        Bytes(chosen.limit_bytes),
        per_cent(chosen.limit_bytes, report.resident_bytes),
        Millis(chosen.age_every_ms),
        rate(chosen.refaults_per_minute),
        Bytes(curve.working_set_bytes),
    )
}

/// Why no limit is named, and what would change that.
fn too_early(curve: &Curve) -> String {
    let rule = curve.refaults_per_mille;
    let needed = curve.needed_ms(rule);
    let seconds = (needed / 1000.0).ceil();
    match seconds.is_finite() && seconds * 1000.0 > share(curve.watched_ms, 1) {
        true => format!(
            "not yet: that no more than {}% of the working set come back in a minute takes {seconds:.0}s to tell",
            rule / 10.0
        ),
        false => "none: at no size below what was seen in use would so little come back".to_owned(),
    }
}

/// What the curve does not say.
pub(super) fn not_known(report: &Report, curve: &Curve) -> String {
    let mut text = format!(
        "below {}, which is in use between two looks, and above {}: {} of what is resident were not touched in {}",
        Bytes(curve.known_from_bytes),
        Bytes(curve.known_to_bytes),
        Bytes(curve.untouched_bytes),
        Millis(curve.watched_ms),
    );
    if curve.blind_ms > 0 {
        let blind = Millis(curve.blind_ms);
        text += &format!("; and {blind} in which too many ages were unknown");
    }
    if report.unknown_age_bytes > 0 {
        let bytes = Bytes(report.unknown_age_bytes);
        text += &format!("; {bytes} of unknown age are taken to be in use");
    }
    text
}
