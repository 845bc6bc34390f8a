//! The table of processes in a report.
//!
//! Invariant: the largest process is first, as in the report; a line says how many are omitted.

use daemon::options::Bytes;
use host::report::Report;

use crate::view::count;
use crate::view::sheet::Sheet;

/// Maximum number of rows shown; the JSON contains all.
const ROWS_MAX: usize = 10;

/// Writes the table; nothing for a single process, whose figures are those of the whole report.
pub(super) fn processes(report: &Report, sheet: &mut Sheet) {
    let all = &report.processes;
    if all.len() < 2 {
        return;
    }
    let unknown = all.iter().any(|process| process.unknown_age_bytes > 0);
    let size = |bytes: u64| format!("{:>10}", Bytes(bytes).to_string());
    sheet.heading("Processes");
    let last = if unknown { "   unknown" } else { "" };
    sheet.dim(&format!(
        "  {:>7}{:>10}{:>10}{:>10}{:>10}{last}  command",
        "pid", "resident", "swapped", "young", ">10s"
    ));
    for process in all.iter().take(ROWS_MAX) {
        let last = match unknown {
            true => size(process.unknown_age_bytes),
            false => String::new(),
        };
        sheet.line(&format!(
            "  {:>7}{}{}{}{}{last}  {}",
            process.pid,
            size(process.resident_bytes),
            size(process.swapped_bytes),
            size(process.young_bytes),
            size(process.older_than_10s_bytes),
            process.command,
        ));
    }
    if let Some(more @ 1..) = all.len().checked_sub(ROWS_MAX) {
        let more = count(more as u64);
        sheet.dim(&format!("  and {more} more (--json has all)"));
    }
}
