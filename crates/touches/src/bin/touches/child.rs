//! Starts and controls the process of a tenant.
//!
//! Invariant: when a [`Worker`] is dropped, its process is killed and waited for.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use touches::case::Case;

use crate::worker;

/// The process of a tenant. The program writes *orders* to it: each is the number of touches to do
/// next ([`worker`]).
pub(crate) struct Worker {
    child: Child,
    orders: ChildStdin,
    reports: ChildStdout,
    /// Checksum of all touches that the process has done so far.
    pub(crate) checksum: u64,
}

impl Worker {
    /// Starts the process of tenant number `tenant`, and waits until it is in its control group.
    pub(crate) fn start(
        case: &Case,
        (tenant, seed): (usize, u64),
        group: &Path,
    ) -> Result<Worker, String> {
        let mut child = Command::new("/proc/self/exe")
            .args([
                worker::ARGUMENT,
                case.name,
                &tenant.to_string(),
                &seed.to_string(),
            ])
            .arg(group)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start a worker: {error}"))?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (orders, reports) = pipes.ok_or("a worker without pipes")?;
        let mut worker = Worker {
            child,
            orders,
            reports,
            checksum: 0,
        };
        worker.wait()?;
        Ok(worker)
    }

    /// Makes the process do its next `nr` touches, and waits until it has done them.
    pub(crate) fn order(&mut self, nr: u64) -> Result<(), String> {
        self.orders
            .write_all(&nr.to_le_bytes())
            .map_err(|error| format!("a worker is gone: {error}"))?;
        self.wait()
    }

    /// Returns the process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the process to report; the report is the checksum of its touches.
    fn wait(&mut self) -> Result<(), String> {
        let mut word = [0; worker::WORD];
        self.reports
            .read_exact(&mut word)
            .map_err(|error| format!("a worker has ended early: {error}"))?;
        self.checksum = u64::from_le_bytes(word);
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
