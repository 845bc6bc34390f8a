//! The target of a report and its main figures, in words.

use daemon::options::{Bytes, Millis};
use host::report::{AgeGrain, AgeQuantile, AgeSource, PressureOf, Report};
use pictures::{CLASS_EDGES_MS, per_cent};

use crate::view::{clock, count};

use super::older_than;

/// Returns the name of the target: a command line, or the path of a group. Control characters are
/// not yet removed.
pub(super) fn target_name(report: &Report) -> String {
    if report.command.is_empty() {
        return "(no name)".to_owned();
    }
    report.command.clone()
}

/// Formats facts as `pid 1234 and 3 more, watched for 12s, ended with 0`.
pub(super) fn facts(report: &Report) -> String {
    let now = report.processes.len() as u64;
    let target = match report.pid {
        Some(pid) if now > 1 => format!("pid {pid} and {} more", count(now - 1)),
        Some(pid) => format!("pid {pid}"),
        None => processes(now),
    };
    let ended = match report.exit {
        Some(code) => format!(", ended with {code}"),
        None => String::new(),
    };
    format!("{target}, watched for {}{ended}", clock(report.wall_ms))
}

/// Formats pressure as `processes of the whole host waited for memory in 1.25% of the last 10s`.
pub(crate) fn waited(hundredths: u32, of: PressureOf) -> String {
    format!(
        "{} waited for memory in {}.{:02}% of the last 10s",
        of.name(),
        hundredths / 100,
        hundredths % 100
    )
}

/// Formats a share of the memory and its age: `80% of 1.2 GiB in the last 12s`.
pub(super) fn accessed(quantile: &AgeQuantile) -> String {
    let AgeQuantile { percent, node, .. } = *quantile;
    let place = node.map_or_else(String::new, |node| format!(" of node {node}"));
    let known = Bytes(quantile.known_bytes);
    match quantile.age_ms {
        _ if quantile.known_bytes == 0 => format!("{percent}%{place}: no ages are known yet"),
        Some(age) => format!("{percent}% of {known}{place} in the last {}", Millis(age)),
        None => format!("{percent}% of {known}{place}: longer ago than was watched"),
    }
}

/// Formats a number of processes: `1 process`, `1,234 processes`.
pub(super) fn processes(n: u64) -> String {
    match n {
        1 => "1 process".to_owned(),
        n => format!("{} processes", count(n)),
    }
}

/// Formats cold memory as `62% (1.2 GiB) not touched for 10s, 40% for 1m`, for those ages that the
/// watch is long enough to know.
pub(super) fn cold(report: &Report) -> Option<String> {
    if report.age_source == AgeSource::None || report.resident_bytes == 0 {
        return None;
    }
    let known = CLASS_EDGES_MS[1..].iter().copied();
    let known: Vec<u64> = known.filter(|&ms| ms <= report.wall_ms).collect();
    // Edges below 10 s are shown only if the watch was shorter than that.
    let from = known.iter().position(|&ms| ms >= 10_000);
    let shown = &known[from.unwrap_or(known.len().saturating_sub(1))..];
    let parts = shown.iter().enumerate().map(|(n, &edge)| {
        let bytes = older_than(report, edge);
        let percent = per_cent(bytes, report.resident_bytes);
        match n {
            0 => format!(
                "{percent} ({}) not touched for {}",
                Bytes(bytes),
                Millis(edge)
            ),
            _ => format!("{percent} for {}", Millis(edge)),
        }
    });
    let parts: Vec<_> = parts.collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Returns, in words, where ages come from, and how much memory one age covers.
pub(crate) fn source(report: &Report) -> &'static str {
    source_of(report.age_source, report.age_grain)
}

/// Returns these words for a source and a grain.
pub(crate) fn source_of(source: AgeSource, grain: AgeGrain) -> &'static str {
    match (source, grain) {
        (AgeSource::PageTables, AgeGrain::Mapping) => "page tables, a whole mapping at a time",
        (AgeSource::PageTables, _) => "page tables, each page",
        (AgeSource::IdleBitmap, AgeGrain::Mapping) => "idle page bitmap, a whole mapping at a time",
        (AgeSource::IdleBitmap, _) => "idle page bitmap, each page",
        (AgeSource::Referenced, _) => {
            "smaps (Referenced): a mapping is as young as its youngest page"
        }
        (AgeSource::None, _) => "none, so all ages are unknown (`pagetide doctor` says why)",
    }
}

/// Returns the name of a source in output for scripts.
pub(super) fn source_name(source: AgeSource) -> &'static str {
    match source {
        AgeSource::PageTables => "page-tables",
        AgeSource::IdleBitmap => "idle-bitmap",
        AgeSource::Referenced => "referenced",
        AgeSource::None => "none",
    }
}
