//! Reports as comma-separated values: one line of names, one line a report.
//!
//! Invariant: every line has as many fields as the header, in the same order (RFC 4180 for quoting),
//! whatever the report's bins: ages are given at fixed edges, cumulatively, so that lines of hours
//! and of different targets can be put below each other.

use pager::options::{Bytes, Limit};
use pager::report::Report;

use super::text::csv_field;

/// Edges of the age columns, seconds.
const EDGES_S: [u64; 5] = [1, 10, 60, 600, 3600];

/// The line of names.
pub(crate) fn header() -> String {
    let fixed = columns(&Report::default()).map(|(name, _)| name.to_owned());
    let ages = EDGES_S.iter().flat_map(|edge| {
        let name = |kind| format!("{kind}_older_than_{edge}s_bytes");
        [name("anon"), name("file")]
    });
    fixed.into_iter().chain(ages).collect::<Vec<_>>().join(",")
}

/// The line of a report.
pub(crate) fn row(report: &Report) -> String {
    let fixed = columns(report).map(|(_, value)| value);
    let bins = report.age_bins();
    let ages = EDGES_S.iter().flat_map(|edge| {
        let old = || bins.iter().filter(|bin| bin.older_than_ms >= edge * 1000);
        let anon = old().fold(0u64, |sum, bin| sum.saturating_add(bin.anon_bytes));
        let file = old().fold(0u64, |sum, bin| sum.saturating_add(bin.file_bytes));
        [anon.to_string(), file.to_string()]
    });
    fixed.into_iter().chain(ages).collect::<Vec<_>>().join(",")
}

/// The columns that every report has, with their values.
fn columns(report: &Report) -> [(&'static str, String); 19] {
    let exit = report.exit.map(|code| code.to_string()).unwrap_or_default();
    let limit = |limit: Limit| match limit {
        Limit::Bytes(Bytes(bytes)) => bytes.to_string(),
        other => other.to_string(),
    };
    [
        ("pid", report.pid.to_string()),
        ("command", csv_field(&report.command.join(" "))),
        ("wall_ms", report.wall_ms.to_string()),
        ("exit", exit),
        ("resident_bytes", report.resident_bytes.to_string()),
        (
            "resident_peak_bytes",
            report.resident_peak_bytes.to_string(),
        ),
        ("stored_bytes", report.stored_bytes.to_string()),
        ("store_used_bytes", report.store_used_bytes.to_string()),
        ("evicted_pages", report.evicted_pages.to_string()),
        ("refaulted_pages", report.refaulted_pages.to_string()),
        ("limbo_returns", report.limbo_returns.to_string()),
        ("zero_pages", report.zero_pages.to_string()),
        ("faults_count", report.faults.count.to_string()),
        ("faults_p50_us", report.faults.p50_us.to_string()),
        ("faults_p99_us", report.faults.p99_us.to_string()),
        ("memory_high", limit(report.limits.high)),
        ("memory_max", limit(report.limits.max)),
        ("overhead_cpu_ms", report.overhead.cpu_ms.to_string()),
        ("children", report.children.len().to_string()),
    ]
}
