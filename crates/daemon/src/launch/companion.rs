//! Starting the manager beside this process.
//!
//! Invariant: the manager is a child of nobody here: a process between starts it and ends, and is waited for
//! before this one becomes the program. It has none of the program's descriptors, terminal or session.

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

/// A manager that has not answered by then will not.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a manager of this process and waits until it is ready; what it does without.
///
/// # Errors
/// There is no manager, and why.
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
    // Where SIGCHLD is ignored nobody can be waited for, and nobody needs to be.
    let _ = between.wait();
    let silent = |error| broken("the manager does not answer", &error);
    send(&ours, &setup).map_err(silent)?;
    match receive(&ours, PATIENCE).map_err(silent)? {
        Some(Reply::Ready(notes)) => {
            // The exec closes it, which tells the manager that this is the program from now on. (It was closed here, and on a busy
            // machine the first look at the program was one at pagetide.)
            std::mem::forget(ours);
            Ok(notes)
        }
        Some(Reply::Failed(error)) => Err(error),
        None => Err(broken("the manager does not answer", &"it ended")),
    }
}
