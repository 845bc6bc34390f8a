//! A report's ages, summed into rows whose edges we choose.
//!
//! Invariant: a bin that contains an edge belongs to the younger row, so memory in a row is
//! certainly that old. The rows together have the bytes of all bins (saturating at 64 bits).

use host::report::{AgeBin, Report};

/// Sums the bins of all nodes into rows that begin at `edges` (increasing, the first is 0).
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

/// Sums the pages that were accessed again into rows that begin at `edges`.
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

/// Returns the bytes that were certainly not accessed for `ms` milliseconds.
pub(crate) fn older_than(report: &Report, ms: u64) -> u64 {
    let old = bins(report).filter(|bin| bin.older_than_ms >= ms);
    old.fold(0, |sum, bin| sum.saturating_add(bin.bytes()))
}
