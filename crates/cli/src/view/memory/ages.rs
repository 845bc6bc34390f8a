//! The page-age histogram as bars, and memory of unknown age.

use daemon::options::Bytes;
use host::report::{AgeBin, AgeSource, Report};

use crate::view::bars::{ROWS_S, age, filled_steps};
use crate::view::share;
use crate::view::sheet::Sheet;

use super::bins::fold;
use super::per_cent;

/// Columns of a row before its bar.
const COLUMNS_BEFORE_BAR: usize = 2 + 12 + 9 + 9 + 10 + 2;
/// Maximum number of reasons shown; the JSON contains all.
const REASONS: usize = 6;

/// Writes a row for each age: anonymous memory, file memory, the share of memory of that age or
/// older, and a bar.
pub(super) fn ages(report: &Report, sheet: &mut Sheet) {
    let rows = fold(report, ROWS_S.iter().map(|s| s * 1000));
    let most = rows.iter().map(AgeBin::bytes).max().unwrap_or(0);
    if most == 0 {
        return;
    }
    let used = rows
        .iter()
        .rposition(|row| row.bytes() > 0)
        .map_or(0, |last| last + 1);
    let style = sheet.style();
    let room = style.width.saturating_sub(COLUMNS_BEFORE_BAR).clamp(4, 60);
    let marks = Marks::of(style.unicode);
    sheet.heading("Page age");
    sheet.dim(&format!(
        "  {:<12}{:>9}{:>9}{:>10}  {} anon, {} file",
        "untouched", "anon", "file", "and older", marks.anon, marks.file
    ));
    let uppers = ROWS_S.iter().skip(1).map(|s| Some(s * 1000));
    let uppers = uppers.chain(std::iter::once(None));
    for (n, (row, upper)) in rows.iter().zip(uppers).take(used).enumerate() {
        let older = rows[n..]
            .iter()
            .fold(0u64, |sum, row| sum.saturating_add(row.bytes()));
        sheet.line(&format!(
            "  {:<12}{:>9}{:>9}{:>10}  {}",
            age(row.older_than_ms, upper),
            Bytes(row.anon_bytes).to_string(),
            Bytes(row.file_bytes).to_string(),
            per_cent(older, report.resident_bytes),
            marks.bar(row, most, room),
        ));
    }
}

/// The characters of which bars are drawn.
struct Marks {
    anon: &'static str,
    file: &'static str,
}

impl Marks {
    fn of(unicode: bool) -> Marks {
        if unicode {
            Marks {
                anon: "\u{2588}",
                file: "\u{2592}",
            }
        } else {
            Marks {
                anon: "#",
                file: "=",
            }
        }
    }

    /// Draws a row's bar: anonymous memory first, then file memory. If the row has both and the bar
    /// has at least two columns, both are visible.
    fn bar(&self, row: &AgeBin, most: u64, room: usize) -> String {
        let whole = filled_steps(share(row.bytes(), most), room);
        let mut file = filled_steps(share(row.file_bytes, row.bytes()), whole);
        if row.anon_bytes > 0 && file == whole && whole > 1 {
            file -= 1;
        }
        if row.anon_bytes > row.file_bytes && whole == 1 {
            file = 0;
        }
        self.anon.repeat(whole - file) + &self.file.repeat(file)
    }
}

/// Writes how much memory has an unknown age, and why.
pub(super) fn unknown(report: &Report, sheet: &mut Sheet) {
    if report.unknown_age_bytes == 0 {
        return;
    }
    let percent = per_cent(report.unknown_age_bytes, report.resident_bytes);
    let bytes = Bytes(report.unknown_age_bytes);
    sheet.heading(&format!(
        "Age unknown: {bytes}, {percent} of what is resident"
    ));
    for unknown in report.unknown_because.iter().take(REASONS) {
        let first = format!("  {:>9}  ", Bytes(unknown.bytes).to_string());
        sheet.hanging(&first, &unknown.reason);
    }
    if let Some(more @ 1..) = report.unknown_because.len().checked_sub(REASONS) {
        sheet.dim(&format!("  and {more} more reasons (--json has all)"));
    }
    if report.unknown_because.is_empty() && report.age_source == AgeSource::None {
        sheet.hanging("  ", "no source of ages works here: see `pagetide doctor`");
    }
}
