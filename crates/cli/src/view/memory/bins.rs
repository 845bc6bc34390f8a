//! A report's ages at edges of our choice.
//!
//! Invariant: a bin that straddles an edge counts as the younger row, so what a row says is old is
//! surely old; the rows together are all of the bins (as far as 64 bits go).

use host::report::{AgeBin, Report};

/// The bins of all nodes, folded into rows that begin at `edges` (increasing, the first is 0).
pub(super) fn fold(report: &Report, edges: impl Iterator<Item = u64>) -> Vec<AgeBin> {
    let row = |older_than_ms| AgeBin {
        older_than_ms,
        ..AgeBin::default()
    };
    let mut rows: Vec<AgeBin> = edges.map(row).collect();
    for bin in bins(report) {
        let at = rows.partition_point(|row| row.older_than_ms <= bin.older_than_ms);
        if let Some(row) = at.checked_sub(1).and_then(|at| rows.get_mut(at)) {
            row.anon_bytes = row.anon_bytes.saturating_add(bin.anon_bytes);
            row.file_bytes = row.file_bytes.saturating_add(bin.file_bytes);
        }
    }
    rows
}

/// Pages touched again, in rows that begin at `edges`.
pub(super) fn fold_reaccessed(report: &Report, edges: &[u64]) -> Vec<u64> {
    let mut rows = vec![0u64; edges.len()];
    for bin in &report.reaccessed {
        let at = edges.partition_point(|&edge| edge <= bin.older_than_ms);
        if let Some(row) = at.checked_sub(1).and_then(|at| rows.get_mut(at)) {
            *row = row.saturating_add(bin.pages);
        }
    }
    rows
}

fn bins(report: &Report) -> impl Iterator<Item = &AgeBin> {
    report.page_age.iter().flat_map(|node| &node.bins)
}

/// Bytes of both kinds.
pub(super) fn total(bin: &AgeBin) -> u64 {
    bin.anon_bytes.saturating_add(bin.file_bytes)
}

/// Bytes that were surely not touched for so long.
pub(crate) fn older_than(report: &Report, ms: u64) -> u64 {
    let old = bins(report).filter(|bin| bin.older_than_ms >= ms);
    old.fold(0, |sum, bin| sum.saturating_add(total(bin)))
}
