//! The re-access histogram (in the kernel's terms, the promotion histogram) as text: the refaults
//! that paging out at some age would have caused.

use daemon::options::{Millis, Pages};
use host::report::Report;
use pictures::CLASS_EDGES_MS;

use crate::view::bars::{age, bar};
use crate::view::sheet::Sheet;
use crate::view::{count, share};

use super::bins::fold_reaccessed;

/// Writes a row for each idle time, the longest last, and a text that explains the rows.
pub(super) fn reaccess(report: &Report, sheet: &mut Sheet) {
    let rows = fold_reaccessed(report, &CLASS_EDGES_MS);
    // The first row is memory in use, which could not be paged out.
    let idle = &rows[1..];
    let Some(last) = idle.iter().rposition(|&pages| pages > 0) else {
        return;
    };
    let most = idle.iter().copied().max().unwrap_or(0);
    let style = sheet.style();
    sheet.heading("Touched again");
    sheet.dim(&format!("  {:<12}{:>18}{:>10}", "after", "pages", "size"));
    let uppers = CLASS_EDGES_MS[2..]
        .iter()
        .map(|&ms| Some(ms))
        .chain(std::iter::once(None));
    for ((&pages, &from), upper) in idle
        .iter()
        .zip(&CLASS_EDGES_MS[1..])
        .zip(uppers)
        .take(last + 1)
    {
        let room = style.width.saturating_sub(44).clamp(4, 60);
        let drawn = bar(share(pages, most), room, style.unicode);
        sheet.line(&format!(
            "  {:<12}{:>18}{:>10}  {}",
            age(from, upper),
            short_count(pages),
            Pages(pages).bytes().to_string(),
            drawn.replace('-', " "),
        ));
    }
    if let Some(text) = meaning(report) {
        sheet.hanging("  ", &text);
    }
}

/// Formats a count with all digits, or in units of 10^9 if it has too many.
fn short_count(pages: u64) -> String {
    if pages < 1_000_000_000_000 {
        return count(pages);
    }
    format!("{}G", count(pages / 1_000_000_000))
}

/// Returns how many pages would have been refaulted if all memory of a certain age had been paged
/// out. The age is the largest for which the watch was at least twice as long; `None` if there is
/// none yet.
pub(super) fn meaning(report: &Report) -> Option<String> {
    let edge = [10_000, 5_000, 1_000]
        .into_iter()
        .find(|ms| report.wall_ms >= 2 * ms)?;
    let back = report
        .reaccessed
        .iter()
        .filter(|bin| bin.older_than_ms >= edge);
    let back = back.fold(0u64, |sum, bin| sum.saturating_add(bin.pages));
    Some(format!(
        "Had pages untouched for {} been paged out, {} pages ({}) would have been refaulted so far.",
        Millis(edge),
        short_count(back),
        Pages(back).bytes(),
    ))
}
