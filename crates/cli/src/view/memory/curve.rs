//! The part of a report about less memory: a plot, a table, and sizes to choose.
//!
//! Invariant: the output contains no size about which nothing is known, and shows both ends of the
//! known range.

mod plot;

use daemon::curves::{Cost, rate, rows};
use daemon::options::{Bytes, Millis};
use host::report::{Curve, Report};

use crate::view::sheet::Sheet;

use super::per_cent;

/// Writes the part of a report about its refault curve; nothing if there is no curve.
pub(super) fn curve(report: &Report, sheet: &mut Sheet) {
    let Some(curve) = &report.curve else {
        return;
    };
    sheet.heading("What less memory would cost");
    plot::plot(curve, sheet);
    table(report, curve, sheet);
    let cost = cost(report, curve);
    sheet.row("limit", &cost.limit());
    if let Some(bend) = cost.bend() {
        sheet.row("bend", &bend);
    }
    sheet.row("not known", &cost.not_known());
}

/// Returns the curve, with the fields of the report that belong to it.
pub(super) fn cost<'a>(report: &Report, curve: &'a Curve) -> Cost<'a> {
    Cost {
        curve,
        resident_bytes: report.resident_bytes,
        unknown_age_bytes: report.unknown_age_bytes,
    }
}

fn table(report: &Report, curve: &Curve, sheet: &mut Sheet) {
    sheet.dim(&format!(
        "  {:>10}{:>8}{:>10}{:>15}{:>17}",
        "memory", "of all", "idle for", "back a minute", "of the accesses"
    ));
    for point in rows(curve) {
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
