//! Working-set reports: the histogram of page ages, its files, and the balloon protocol by which
//! hosts request reports from guests (virtual machines).
//! spec: workingset-report.md.

mod balloon;
pub mod files;
mod page_age;

mod host;
mod report;

pub use balloon::{Balloon, BalloonError};
pub use files::kstrtoull;
pub use host::{
    AgeLine, GuestReport, REPORT_LEN, ReportError, config_message, read_report, request_message,
};
pub use page_age::{AgeBin, Aggregation, Bins, BinsError, MAX_NR_BINS, PageAge};
pub use report::{Report, ReportState};
