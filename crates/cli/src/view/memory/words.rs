//! What a report is about, in words.

use daemon::options::{Bytes, Millis};
use host::report::{AgeGrain, AgeSource, Report};
use pictures::per_cent;

use crate::view::{clock, count};

use super::older_than;

/// Whose memory it is: a command line, or the path of a group. Not cleaned yet.
pub(super) fn about(report: &Report) -> String {
    if report.command.is_empty() {
        return "(no name)".to_owned();
    }
    report.command.clone()
}

/// `pid 1234 and 3 more, watched for 12s, ended with 0`.
pub(super) fn facts(report: &Report) -> String {
    let now = report.processes.len() as u64;
    let who = match report.pid {
        Some(pid) if now > 1 => format!("pid {pid} and {} more", count(now - 1)),
        Some(pid) => format!("pid {pid}"),
        None => processes(now),
    };
    let ended = match report.exit {
        Some(code) => format!(", ended with {code}"),
        None => String::new(),
    };
    format!("{who}, watched for {}{ended}", clock(report.wall_ms))
}

/// `1 process`, `1,234 processes`.
pub(super) fn processes(n: u64) -> String {
    match n {
        1 => "1 process".to_owned(),
        n => format!("{} processes", count(n)),
    }
}

/// `62% (1.2 GiB) not touched for 10s, 40% for 1m`: of the ages that can be known by now.
pub(super) fn cold(report: &Report) -> Option<String> {
    const EDGES_S: [u64; 6] = [1, 5, 10, 60, 600, 3600];
    if report.age_source == AgeSource::None || report.resident_bytes == 0 {
        return None;
    }
    let known = EDGES_S.iter().map(|s| s * 1000);
    let known: Vec<u64> = known.filter(|&ms| ms <= report.wall_ms).collect();
    // Edges below 10 s are for those who watched no longer.
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

/// Where ages come from, and what one age stands for.
pub(crate) fn source(report: &Report) -> &'static str {
    source_of(report.age_source, report.age_grain)
}

/// The same of a source that is told by itself.
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

/// The name that scripts know it by.
pub(super) fn source_name(source: AgeSource) -> &'static str {
    match source {
        AgeSource::PageTables => "page-tables",
        AgeSource::IdleBitmap => "idle-bitmap",
        AgeSource::Referenced => "referenced",
        AgeSource::None => "none",
    }
}
