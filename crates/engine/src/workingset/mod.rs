//! Workingset detection and working-set reports. spec: workingset.md, workingset-report.md.
//!
//! What the multi-gen LRU writes into its shadows is in `lru_gen/refault.rs`; the clock and the
//! packing of the classic LRU are here, and the page-age histogram.

mod balloon;
pub mod files;
mod host;
mod page_age;
mod report;
mod shadow;
mod shadow_nodes;

pub use balloon::{Balloon, BalloonError};
pub use files::AgeLine;
pub use host::{
    GuestReport, REPORT_LEN, ReportError, config_message, read_report, request_message,
};
pub use page_age::{AgeBin, Aggregation, Bins, BinsError, MAX_NR_BINS, PageAge};
pub use report::{Report, ReportState};
pub use shadow::EvictionClock;
pub use shadow_nodes::{CHUNK_SLOTS, ShadowNodes, excess_nodes};
