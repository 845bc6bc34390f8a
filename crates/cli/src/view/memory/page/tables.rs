//! The tables of the HTML page.

use std::fmt::Write;

use daemon::options::Bytes;
use host::report::Report;

use crate::view::bars::{ROWS_S, age};
use crate::view::count;
use crate::view::text::{cut, escaped};

use super::super::bins::fold;
use super::{boxed, per_cent};

/// Maximum number of rows of processes; the JSON contains all.
const PROCESSES: usize = 200;

/// Width of a command line in columns. A longer one is cut, and shown in full under the pointer.
const COMMAND: usize = 120;

/// Returns the table of ages, with the figures that the pictures show.
pub(super) fn ages(report: &Report) -> String {
    let rows = fold(report, ROWS_S.iter().map(|s| s * 1000));
    let Some(last) = rows.iter().rposition(|row| row.bytes() > 0) else {
        return String::new();
    };
    let mut text = "<table><tr><th class=\"name\">untouched for</th>\
        <th>anonymous</th><th>file</th><th>this and older</th></tr>\n"
        .to_owned();
    let uppers = ROWS_S.iter().skip(1).map(|s| Some(s * 1000));
    let uppers = uppers.chain(std::iter::once(None));
    for (n, (row, upper)) in rows.iter().zip(uppers).take(last + 1).enumerate() {
        let older = rows[n..]
            .iter()
            .fold(0u64, |sum, row| sum.saturating_add(row.bytes()));
        let _ = writeln!(
            text,
            "<tr><td class=\"name\">{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            age(row.older_than_ms, upper),
            Bytes(row.anon_bytes),
            Bytes(row.file_bytes),
            escaped(&per_cent(older, report.resident_bytes)),
        );
    }
    boxed("ages", &(text + "</table>"))
}

/// Returns the table of reasons for unknown ages.
pub(super) fn unknown(report: &Report) -> String {
    if report.unknown_because.is_empty() {
        return String::new();
    }
    let mut text = "<table><tr><th>size</th>\
        <th class=\"name\">why</th></tr>\n"
        .to_owned();
    for unknown in &report.unknown_because {
        let _ = writeln!(
            text,
            "<tr><td>{}</td><td class=\"name\">{}</td></tr>",
            Bytes(unknown.bytes),
            escaped(&unknown.reason),
        );
    }
    boxed("unknown ages", &(text + "</table>"))
}

/// Returns the table of processes, the largest first.
pub(super) fn processes(report: &Report) -> String {
    if report.processes.is_empty() {
        return String::new();
    }
    let mut text = "<table><tr><th>pid</th><th>resident</th>\
        <th>swapped</th><th>young</th><th>&gt;10s</th><th>&gt;1m</th><th>&gt;10m</th>\
        <th>unknown</th><th class=\"name command\">command</th></tr>\n"
        .to_owned();
    for process in report.processes.iter().take(PROCESSES) {
        let _ = write!(text, "<tr><td>{}</td>", process.pid);
        for bytes in [
            process.resident_bytes,
            process.swapped_bytes,
            process.young_bytes,
            process.older_than_10s_bytes,
            process.older_than_1m_bytes,
            process.older_than_10m_bytes,
            process.unknown_age_bytes,
        ] {
            let _ = write!(text, "<td>{}</td>", Bytes(bytes));
        }
        let whole = escaped(&process.command);
        let shown = escaped(&cut(&process.command, COMMAND, true));
        let _ = writeln!(
            text,
            "<td class=\"name command\" title=\"{whole}\">{shown}</td></tr>"
        );
    }
    let mut text = boxed("processes", &(text + "</table>"));
    if let Some(more @ 1..) = report.processes.len().checked_sub(PROCESSES) {
        let _ = write!(text, "<p>and {} more</p>", count(more as u64));
    }
    text
}
