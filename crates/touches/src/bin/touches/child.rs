//! A worker as the one sees it who orders it about.
//!
//! Invariant: a worker is killed and waited for when this is dropped.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use touches::case::Case;

use crate::worker;

/// More than the three numbers of schedstat.
const LINE: usize = 128;

/// A tenant's process.
pub(crate) struct Worker {
    child: Child,
    orders: ChildStdin,
    answers: ChildStdout,
    /// Of its touches so far.
    pub(crate) checksum: u64,
    schedstat: File,
    /// How often it had been switched to when that was read last.
    switched_to: u64,
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
        let path = format!("/proc/{}/schedstat", child.id());
        let schedstat = File::open(&path).map_err(|error| format!("no {path}: {error}"))?;
        let mut worker = Worker {
            child,
            orders,
            answers,
            checksum: 0,
            schedstat,
            switched_to: 0,
        };
        worker.wait()?;
        worker.switches()?;
        Ok(worker)
    }

    /// Lets it touch `nr` pages.
    pub(crate) fn order(&mut self, nr: u64) -> Result<(), String> {
        self.orders
            .write_all(&nr.to_le_bytes())
            .map_err(|error| format!("a worker is gone: {error}"))?;
        self.wait()
    }

    /// How often it was switched to since this was last asked.
    pub(crate) fn switches(&mut self) -> Result<u64, String> {
        let mut line = [0; LINE];
        let length = self.schedstat.read_at(&mut line, 0);
        let line = &line[..length.map_err(|error| format!("no schedstat: {error}"))?];
        let now = std::str::from_utf8(line).ok().and_then(times);
        let now = now.ok_or("schedstat does not say how often")?;
        let before = std::mem::replace(&mut self.switched_to, now);
        Ok(now.saturating_sub(before))
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

/// The third number of schedstat.
fn times(line: &str) -> Option<u64> {
    line.split_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_often_a_task_was_switched_to() {
        assert_eq!(times("123 45 6\n"), Some(6));
        assert_eq!(times("123 45\n"), None);
    }
}
