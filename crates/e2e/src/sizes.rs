//! Sizes of a report beside those that the kernel tells of the same processes.

use serde_json::Value;

use crate::aged::{self, is_near, number, rollup};
use crate::frames::pss_alone;

/// What the kernel says of the same processes, read by us, is within 1% of the report; what it says of files
/// is corrected for others that map them as well (libraries). What the report quotes is the kernel's own.
///
/// # Panics
/// Where it is not so.
pub fn is_what_the_kernel_says(what: &str, report: &Value) {
    let pss = rollup(&aged::pids(report), "Pss");
    is_what_the_kernel_said(what, report, &[pss]);
}

/// The same, where sizes change: what is quoted is one of those that the kernel told. (The story: on a busy machine it is
/// asked rarely, and what it had said 11 s ago was held against what is there now.)
///
/// # Panics
/// Where it is not so.
pub fn is_what_the_kernel_said(what: &str, report: &Value, told: &[u64]) {
    let pids = aged::pids(report);
    let alone = pss_alone(&pids);
    let resident = number(report, "resident_bytes");
    let said = report["kernel_says"]["pss_bytes"].as_u64();
    let pss = told.last();
    let sizes = format!("{what}: resident {resident}, Pss {pss:?}, alone {alone}, {said:?} quoted");
    eprintln!("{sizes}");
    assert!(is_near(resident, alone, 1), "{sizes}: {report}");
    if let Some(said) = said {
        let is_told = told.iter().any(|pss| is_near(said, *pss, 1));
        assert!(is_told, "{sizes}: {told:?}: {report}");
    }
}
