//! The plot: refaults per minute over memory size, with a logarithmic axis.
//!
//! Invariant: exactly [`ROWS`] rows, and as many columns as fit. Only a rate of zero is drawn on
//! the axis.

use daemon::options::Bytes;
use host::report::Curve;
use pictures::{Decades, short_rate};

use crate::view::bars::filled_steps;
use crate::view::share;
use crate::view::sheet::Sheet;

const ROWS: usize = 10;
/// Width of the labels, columns.
const AXIS: usize = 9;

/// Writes the plot; nothing if the curve is a single point.
pub(super) fn plot(curve: &Curve, sheet: &mut Sheet) {
    let [first, .., last] = &curve.points[..] else {
        return;
    };
    let style = sheet.style();
    let columns = style.width.saturating_sub(AXIS + 2).clamp(8, 64);
    let decades = Decades::of(curve.points.iter().map(|point| point.refaults_per_minute));
    let mut cells = vec![vec![' '; columns]; ROWS];
    let mark = if style.unicode { '\u{2022}' } else { '*' };
    for (column, cell) in (0..columns).map(|column| (column, share(column as u64, columns as u64)))
    {
        let span = last.bytes.saturating_sub(first.bytes);
        let bytes = first.bytes.saturating_add(filled_bytes(cell, span));
        let at = curve.points.partition_point(|point| point.bytes < bytes);
        let rate = curve.points[at.min(curve.points.len() - 1)].refaults_per_minute;
        let height = decades.and_then(|decades| decades.height(rate));
        // The lowest row is only for a rate of zero.
        let up = height.map_or(0, |height| 1 + filled_steps(height, ROWS - 2));
        cells[ROWS - 1 - up.min(ROWS - 1)][column] = mark;
    }
    let (low, high) = decades.map_or((0.0, 0.0), Decades::ends);
    sheet.dim("  pages back a minute");
    for (n, line) in cells.iter().enumerate() {
        let label = match n {
            0 if high > 0.0 => short_rate(high),
            n if n == ROWS - 2 && low > 0.0 => short_rate(low),
            n if n == ROWS - 1 => "0".to_owned(),
            _ => String::new(),
        };
        let line: String = line.iter().collect();
        sheet.line(&format!("  {label:>5} |{line}"));
    }
    sheet.line(&format!("  {:>5} +{}", "", "-".repeat(columns)));
    let (from, to) = (
        Bytes(first.bytes).to_string(),
        Bytes(last.bytes).to_string(),
    );
    let room = columns.saturating_sub(from.len());
    sheet.line(&format!("  {:>5}  {from}{to:>room$}", ""));
}

/// Returns this share of a size, in bytes.
fn filled_bytes(part: f64, of: u64) -> u64 {
    const FINE: usize = 10_000;
    let steps = u128::from(filled_steps(part, FINE) as u64);
    u64::try_from(u128::from(of) * steps / FINE as u128).unwrap_or(of)
}
