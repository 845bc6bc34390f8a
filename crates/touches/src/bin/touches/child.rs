//! A worker as the one sees it who orders it about.
//!
//! Invariant: a worker is killed and waited for when this is dropped.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use touches::case::Case;

use crate::worker;

/// A tenant's process.
pub(crate) struct Worker {
    child: Child,
    orders: ChildStdin,
    answers: ChildStdout,
    /// Of its touches so far.
    pub(crate) checksum: u64,
}

impl Worker {
    /// Starts a worker and waits until it is in its group.
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
        let (orders, answers) = pipes.ok_or("a worker without pipes")?;
        let mut worker = Worker {
            child,
            orders,
            answers,
            checksum: 0,
        };
        worker.wait()?;
        Ok(worker)
    }

    /// Lets it touch `nr` pages.
    pub(crate) fn order(&mut self, nr: u64) -> Result<(), String> {
        self.orders
            .write_all(&nr.to_le_bytes())
            .map_err(|error| format!("a worker is gone: {error}"))?;
        self.wait()
    }

    /// The process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn wait(&mut self) -> Result<(), String> {
        let mut word = [0; worker::WORD];
        self.answers
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
