//! What this kernel and user can do, and how to get the rest: the matter of `pagetide doctor`.
//!
//! Invariant: [`Facts`] is gathered once and judged by pure functions; every line that is not ok
//! carries a remedy that can be typed, or says that there is none.

use std::io;

use serde::Serialize;

mod facts;
mod judge;

pub use facts::{Device, Errno, Facts, Tried};
pub use judge::judge;

/// Tries for real what reading /proc cannot tell. `uffd` implements it; every probe works on this
/// process alone and leaves nothing behind.
pub trait Probe {
    /// The feature bits of a userfaultfd that takes faults of the kernel too (`UFFDIO_API`,
    /// linux/userfaultfd.h), opened by system call or, failing that, by the device.
    ///
    /// # Errors
    /// The kernel's: ENOSYS without CONFIG_USERFAULTFD, EPERM without privilege.
    fn userfaultfd_features(&self) -> io::Result<u64>;

    /// The handshake with UFFD_FEATURE_EVENT_FORK.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_PTRACE.
    fn event_fork(&self) -> io::Result<()>;

    /// Moves a page aside and back by UFFDIO_MOVE and compares its bytes.
    ///
    /// # Errors
    /// EINVAL before Linux 6.8; those of opening a userfaultfd.
    fn move_page(&self) -> io::Result<()>;

    /// Scans a range of its own by PAGEMAP_SCAN.
    ///
    /// # Errors
    /// ENOTTY before Linux 6.7.
    fn pagemap_scan(&self) -> io::Result<()>;

    /// Compares two descriptors by kcmp(2).
    ///
    /// # Errors
    /// ENOSYS without CONFIG_KCMP.
    fn kcmp(&self) -> io::Result<()>;
}

/// How well a thing is there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// As it should be.
    Ok,
    /// pagetide works, with less.
    Limited,
    /// pagetide does not work.
    Missing,
}

/// One line of the doctor's report.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub topic: &'static str,
    /// How it is.
    pub state: State,
    /// What was found.
    pub detail: String,
    /// What to type or to ask for, unless all is well.
    pub remedy: Option<String>,
}

/// Whether pagetide can work here.
#[must_use]
pub fn ready(findings: &[Finding]) -> bool {
    findings
        .iter()
        .all(|finding| finding.state != State::Missing)
}

#[cfg(test)]
mod tests;
