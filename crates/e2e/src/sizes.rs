//! Compares the sizes in a report with those that the kernel reports for the same processes.

use serde_json::Value;

use crate::aged::{self, is_near, number, rollup};
use crate::frames::pss_alone;

/// Checks that the sizes in a report are within 1% of the kernel's for the same processes, which
/// are read here. The resident size is compared with the kernel's as if no other process mapped the
/// same files (libraries). The sizes that the report quotes must be those of the kernel.
///
/// # Panics
/// If they differ.
pub fn check_sizes_by_kernel(what: &str, report: &Value) {
    let pss = rollup(&aged::pids(report), "Pss");
    check_sizes_by_recent_kernel(what, report, &[pss]);
}

/// Like [`check_sizes_by_kernel`], for processes whose sizes change. The quoted size must be near
/// one of the sizes `reported`, which the kernel has reported meanwhile, newest last.
///
/// Regression: on a busy machine the manager reads the kernel's sizes rarely. A quoted size that
/// was 11 s old was compared with the current one.
///
/// # Panics
/// If they differ.
pub fn check_sizes_by_recent_kernel(what: &str, report: &Value, reported: &[u64]) {
    let pids = aged::pids(report);
    let alone = pss_alone(&pids);
    let resident = number(report, "resident_bytes");
    let said = report["kernel_says"]["pss_bytes"].as_u64();
    let pss = reported.last();
    let sizes = format!("{what}: resident {resident}, Pss {pss:?}, alone {alone}, {said:?} quoted");
    eprintln!("{sizes}");
    assert!(is_near(resident, alone, 1), "{sizes}: {report}");
    if let Some(said) = said {
        let is_reported = reported.iter().any(|pss| is_near(said, *pss, 1));
        assert!(is_reported, "{sizes}: {reported:?}: {report}");
    }
}
