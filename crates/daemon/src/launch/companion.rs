//! Starts the manager that runs beside this process.
//!
//! Invariant: the manager is not a child of this process: an intermediate process starts the
//! manager and ends, and this process waits for that before it becomes the program. The manager has
//! none of the program's descriptors, terminal or session.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use host::system::start::NAME;

use crate::error::Error;
use crate::handshake::{BEGIN, EXE, Reply, Setup, WORD, receive, send};
use crate::options::Options;
use crate::record::About;

use super::report::ReportFile;

/// Longest wait for the manager's reply.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a manager of this process and waits until it is ready. Returns notes about what the host
/// lacks.
///
/// # Errors
/// Why no manager could be started.
pub(super) fn start(
    options: &Options,
    report: Option<ReportFile>,
    record: Option<(File, About)>,
) -> Result<Vec<String>, Error> {
    let broken = |what: &str, error: &dyn std::fmt::Display| {
        let hint = "is /proc mounted, and the limit of processes (ulimit -u) high enough?";
        Error::failed(format!("{what}: {error}"), hint)
    };
    let unstarted = |error| broken("the manager cannot be started", &error);
    let (ours, theirs) = UnixStream::pair().map_err(unstarted)?;
    let setup = Setup {
        options: options.clone(),
        has_report: report.is_some(),
        empties_report: report.as_ref().is_some_and(|report| report.is_own),
        record: record.as_ref().map(|(_, about)| about.clone()),
    };
    let mut between = Command::new(EXE)
        .arg0(NAME)
        .args([WORD, BEGIN, &std::process::id().to_string()])
        .stdin(OwnedFd::from(theirs))
        .stdout(report.map_or_else(Stdio::null, |report| Stdio::from(report.file)))
        .stderr(record.map_or_else(Stdio::null, |(file, _)| Stdio::from(file)))
        .spawn()
        .map_err(unstarted)?;
    // If SIGCHLD is ignored, waiting fails and is not needed.
    let _ = between.wait();
    let silent = |error| broken("the manager does not answer", &error);
    send(&ours, &setup).map_err(silent)?;
    match receive(&ours, PATIENCE).map_err(silent)? {
        Some(Reply::Ready(notes)) => {
            // Our end stays open until execve(2) closes it: that is how the manager notices that
            // this process has become the program. If it were closed earlier, the manager's first
            // scan could still find pagetide in this process.
            std::mem::forget(ours);
            Ok(notes)
        }
        Some(Reply::Failed(error)) => Err(error),
        None => Err(broken("the manager does not answer", &"it ended")),
    }
}
