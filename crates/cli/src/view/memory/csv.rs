//! Reports as comma-separated values: one line of names, one line for each report.
//!
//! Invariant: every line has as many fields as the header, in the same order (RFC 4180), whatever
//! bins the report has. Ages are cumulative sums at fixed edges, so lines of different hours and
//! targets can stand below each other. An unknown value is an empty field. No command line, however
//! hostile, makes a second line.

use host::report::Report;

use crate::view::text::csv_field;

use super::words::source_name;

/// Edges of the age columns, seconds.
const EDGES_S: [u64; 5] = [1, 10, 60, 600, 3600];

/// Returns the line of names.
pub(crate) fn header() -> String {
    let fixed = columns(&Report::default()).into_iter();
    let fixed = fixed.map(|(name, _)| name.to_owned());
    let ages = EDGES_S
        .iter()
        .flat_map(|edge| ["anon", "file"].map(|kind| format!("{kind}_older_than_{edge}s_bytes")));
    let again = EDGES_S
        .iter()
        .map(|edge| format!("reaccessed_older_than_{edge}s_pages"));
    fixed.chain(ages).chain(again).collect::<Vec<_>>().join(",")
}

/// Returns the line of a report.
pub(crate) fn row(report: &Report) -> String {
    let fixed = columns(report).into_iter().map(|(_, value)| value);
    let ages = EDGES_S.iter().flat_map(|edge| {
        let bins = || report.page_age.iter().flat_map(|node| &node.bins);
        let old = || bins().filter(|bin| bin.older_than_ms >= edge * 1000);
        let anon = old().fold(0u64, |sum, bin| sum.saturating_add(bin.anon_bytes));
        let file = old().fold(0u64, |sum, bin| sum.saturating_add(bin.file_bytes));
        [anon.to_string(), file.to_string()]
    });
    let again = EDGES_S.iter().map(|edge| {
        let old = report.reaccessed.iter();
        let old = old.filter(|bin| bin.older_than_ms >= edge * 1000);
        old.fold(0u64, |sum, bin| sum.saturating_add(bin.pages))
            .to_string()
    });
    fixed.chain(ages).chain(again).collect::<Vec<_>>().join(",")
}

/// Returns the columns that every report has, with their values.
fn columns(report: &Report) -> Vec<(&'static str, String)> {
    fn known(value: Option<impl ToString>) -> String {
        value.map(|value| value.to_string()).unwrap_or_default()
    }
    let says = report.kernel_says;
    let cost = report.overhead;
    vec![
        ("pid", known(report.pid)),
        ("command", csv_field(&report.command)),
        ("wall_ms", report.wall_ms.to_string()),
        ("exit", known(report.exit)),
        ("processes", report.processes.len().to_string()),
        ("ended_processes", report.ended.processes.to_string()),
        ("resident_bytes", report.resident_bytes.to_string()),
        (
            "resident_peak_bytes",
            report.resident_peak_bytes.to_string(),
        ),
        ("charged_bytes", known(report.charged_bytes)),
        ("charged_peak_bytes", known(report.charged_peak_bytes)),
        ("swapped_bytes", report.swapped_bytes.to_string()),
        ("evicted_pages", report.evicted_pages.to_string()),
        ("refaulted_pages", report.refaulted_pages.to_string()),
        ("unknown_age_bytes", report.unknown_age_bytes.to_string()),
        ("hugetlb_bytes", report.hugetlb_bytes.to_string()),
        ("unmapped_cache_bytes", known(report.unmapped_cache_bytes)),
        ("kernel_bytes", known(report.kernel_bytes)),
        ("pss_bytes", known(says.pss_bytes)),
        ("swap_pss_bytes", known(says.swap_pss_bytes)),
        ("pressure_some_avg10", known(says.pressure_some_avg10)),
        (
            "pressure_of",
            says.pressure_of
                .map_or_else(String::new, |of| of.id().to_owned()),
        ),
        ("age_source", source_name(report.age_source).to_owned()),
        ("interval_ms", report.interval_ms.to_string()),
        ("walks", report.walks.to_string()),
        ("overhead_cpu_ms", cost.cpu_ms.to_string()),
        ("overhead_walk_ms", cost.walk_ms.to_string()),
        ("overhead_clear_ms", cost.clear_ms.to_string()),
        ("clear_longest_us", cost.clear_longest_us.to_string()),
    ]
}
