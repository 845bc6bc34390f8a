//! How a report was measured: source, interval, costs, and notes for the user.

use daemon::options::{Bytes, Millis};
use host::report::Report;

use crate::view::sheet::Sheet;
use crate::view::{clock, count};

/// Maximum number of notes shown; the JSON contains all.
const NOTES: usize = 8;

/// Writes where ages come from, and what the scans cost pagetide and the watched processes.
pub(super) fn costs(report: &Report, sheet: &mut Sheet) {
    let source = super::source(report);
    sheet.heading("How it was measured");
    sheet.row("ages from", &format!("{source}; {}", scans(report)));
    sheet.row("cost", &cost(report));
    if report.overhead.memory_bytes > 0 {
        let memory = Bytes(report.overhead.memory_bytes);
        sheet.row("memory", &format!("{memory} of pagetide's own"));
    }
}

/// Formats the number of scans as `11 scans, every 1s`.
pub(super) fn scans(report: &Report) -> String {
    let scans = match report.walks {
        1 => "1 scan".to_owned(),
        n => format!("{} scans", count(n)),
    };
    match report.interval_ms {
        0 => scans,
        ms => format!("{scans}, every {}", Millis(ms)),
    }
}

/// Returns what watching cost this process, and the longest time for which clearing bits may have
/// delayed the program.
pub(super) fn cost(report: &Report) -> String {
    let cost = report.overhead;
    let mut text = format!("CPU {}", clock(cost.cpu_ms));
    // After a single scan there is no time to which the cost could be compared.
    if report.walks > 1
        && let Some(per_mille) = cost.cpu_ms.saturating_mul(1000).checked_div(report.wall_ms)
    {
        text += &format!(" ({}.{}%)", count(per_mille / 10), per_mille % 10);
    }
    text += &format!(
        ", reads {}, clears {}, longest {}",
        short_time(cost.walk_ms),
        short_time(cost.clear_ms),
        micros(cost.clear_longest_us)
    );
    text
}

/// Formats a short time in milliseconds.
fn short_time(ms: u64) -> String {
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

/// Writes the notes for the user.
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
