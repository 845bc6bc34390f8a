//! Horizontal bars, and the page-age histogram drawn with them.
//!
//! Invariant: a bar is exactly as wide as asked; something never looks like nothing, and less than
//! all never looks like all.

use pager::options::{Bytes, Millis};
use pager::report::{AgeBin, Report};

use crate::terminal::Style;

use super::share;

/// `share` (0 to 1, more is all) of `width` columns: eighths in Unicode, whole columns in ASCII.
pub(crate) fn bar(fraction: f64, width: usize, unicode: bool) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let steps = if unicode { width * 8 } else { width };
    let filled = filled_steps(fraction, steps);
    if !unicode {
        return "#".repeat(filled) + &"-".repeat(width - filled);
    }
    let mut text = "█".repeat(filled / 8);
    if !filled.is_multiple_of(8) {
        text.push(EIGHTHS[filled % 8]);
    }
    let used = filled.div_ceil(8);
    text + &" ".repeat(width - used)
}

/// How many of `steps` a fraction fills.
pub(super) fn filled_steps(fraction: f64, steps: usize) -> usize {
    if steps == 0 || fraction.is_nan() || fraction <= 0.0 {
        return 0;
    }
    if fraction >= 1.0 {
        return steps;
    }
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a fraction below 1 of a terminal's width"
    )]
    let filled = (fraction * steps as f64).round() as usize;
    filled.clamp(1, steps.saturating_sub(1).max(1))
}

/// Lower edges of the rows, seconds. Fixed, so that rows stay where they are while one watches;
/// the bins of a report begin where its generations were born.
pub(super) const ROWS_S: [u64; 13] = [0, 1, 2, 5, 10, 20, 40, 60, 120, 300, 600, 1800, 3600];

/// The bins of a report in rows. A bin that straddles an edge counts as the younger row: what a row
/// says is old is surely old. Rows older than the oldest page are left out.
fn rows(report: &Report) -> Vec<AgeBin> {
    let mut rows = ROWS_S.map(|s| AgeBin {
        older_than_ms: s * 1000,
        ..AgeBin::default()
    });
    for bin in report.age_bins() {
        let row = rows
            .iter_mut()
            .rev()
            .find(|row| row.older_than_ms <= bin.older_than_ms);
        if let Some(row) = row {
            row.anon_bytes = row.anon_bytes.saturating_add(bin.anon_bytes);
            row.file_bytes = row.file_bytes.saturating_add(bin.file_bytes);
        }
    }
    let used = rows
        .iter()
        .rposition(|row| total(row) > 0)
        .map_or(0, |last| last + 1);
    rows[..used].to_vec()
}

/// The page-age histogram, one row an age: anon, file, bar. Empty if nothing is known yet.
pub(crate) fn age_rows(report: &Report, style: Style) -> Vec<String> {
    let bins = rows(report);
    let most = bins.iter().map(total).max().unwrap_or(0);
    if most == 0 {
        return Vec::new();
    }
    let room = style.width.saturating_sub(FIXED).clamp(4, 60);
    let edges = ROWS_S.iter().skip(1).map(|s| Some(s * 1000));
    let uppers = edges.chain(std::iter::once(None));
    let row = |(bin, upper): (&AgeBin, Option<u64>)| {
        let mut drawn = bar(share(total(bin), most), room, style.unicode);
        if !style.unicode {
            drawn = drawn.replace('-', " ");
        }
        let text = format!(
            "  {:<13} {:>9} {:>9}  {drawn}",
            age(bin.older_than_ms, upper),
            Bytes(bin.anon_bytes).to_string(),
            Bytes(bin.file_bytes).to_string(),
        );
        text.trim_end().to_owned()
    };
    let heading = format!("  {:<13} {:>9} {:>9}", "untouched for", "anon", "file");
    let rows = bins.iter().zip(uppers).map(row);
    std::iter::once(style.dim(&heading)).chain(rows).collect()
}

/// Columns of a row before its bar.
const FIXED: usize = 2 + 13 + 1 + 9 + 1 + 9 + 2;

fn total(bin: &AgeBin) -> u64 {
    bin.anon_bytes.saturating_add(bin.file_bytes)
}

/// `up to 1s`, `10s - 20s`, `over 1h`.
pub(super) fn age(from: u64, to: Option<u64>) -> String {
    match to {
        Some(to) if from == 0 => format!("up to {}", Millis(to)),
        Some(to) => format!("{} - {}", Millis(from), Millis(to)),
        None => format!("over {}", Millis(from)),
    }
}
