//! How it was measured: source, interval, what it cost, and what a reader should know.

use daemon::options::{Bytes, Millis};
use host::report::Report;

use crate::view::sheet::Sheet;
use crate::view::{clock, count};

/// Notes shown; the rest is in the JSON.
const NOTES: usize = 8;

/// Where ages come from, and what that cost whom.
pub(super) fn costs(report: &Report, sheet: &mut Sheet) {
    let source = super::source(report);
    sheet.heading("How it was measured");
    sheet.row("ages from", &format!("{source}; {}", looks(report)));
    sheet.row("cost", &cost(report));
    if report.overhead.memory_bytes > 0 {
        let memory = Bytes(report.overhead.memory_bytes);
        sheet.row("books", &format!("{memory} of memory of our own"));
    }
}

/// `11 looks, every 1s`.
pub(super) fn looks(report: &Report) -> String {
    let looks = match report.walks {
        1 => "1 look".to_owned(),
        n => format!("{} looks", count(n)),
    };
    match report.interval_ms {
        0 => looks,
        ms => format!("{looks}, every {}", Millis(ms)),
    }
}

/// What it took of us, and the longest that the program may have waited for us.
pub(super) fn cost(report: &Report) -> String {
    let cost = report.overhead;
    let mut text = format!("CPU {}", clock(cost.cpu_ms));
    // Of one look there is no time to compare with.
    if report.walks > 1
        && let Some(per_mille) = cost.cpu_ms.saturating_mul(1000).checked_div(report.wall_ms)
    {
        text += &format!(" ({}.{}%)", count(per_mille / 10), per_mille % 10);
    }
    text += &format!(
        ", reads {}, clears {}, longest {}",
        fine(cost.walk_ms),
        fine(cost.clear_ms),
        micros(cost.clear_longest_us)
    );
    text
}

/// Milliseconds as such while they are few.
fn fine(ms: u64) -> String {
    match ms {
        0..10_000 => format!("{ms} ms"),
        _ => clock(ms),
    }
}

fn micros(us: u64) -> String {
    match us {
        0..1000 => format!("{us} us"),
        1000..10_000_000 => format!("{}.{} ms", us / 1000, us % 1000 / 100),
        _ => clock(us / 1000),
    }
}

/// Things a reader should know.
pub(super) fn notes(report: &Report, sheet: &mut Sheet) {
    if report.notes.is_empty() {
        return;
    }
    sheet.heading("Notes");
    for note in report.notes.iter().take(NOTES) {
        sheet.hanging("  - ", note);
    }
    if let Some(more @ 1..) = report.notes.len().checked_sub(NOTES) {
        sheet.dim(&format!("  and {more} more (--json has all)"));
    }
}
