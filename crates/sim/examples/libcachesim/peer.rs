//! Runs libCacheSim in a Python process (peer.py), which gets one request per line and writes one
//! result per line.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// The Python process; it lives for the whole measurement.
pub(super) struct Peer {
    child: Child,
    results: BufReader<ChildStdout>,
}

impl Peer {
    pub(super) fn start(python: &str) -> Result<Self, Box<dyn std::error::Error>> {
        let mut child = Command::new(python)
            .args(["-c", include_str!("peer.py")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let results = BufReader::new(child.stdout.take().ok_or("no pipe")?);
        Ok(Self { child, results })
    }

    pub(super) fn run(
        &mut self,
        (policy, size): (&str, u64),
        table: u32,
        file: &Path,
    ) -> Result<(f64, u64), Box<dyn std::error::Error>> {
        let requests = self.child.stdin.as_mut().ok_or("no pipe")?;
        writeln!(requests, "{policy} {size} {table} {}", file.display())?;
        requests.flush()?;
        let mut line = String::new();
        self.results.read_line(&mut line)?;
        let (seconds, misses) = line.trim().split_once(' ').ok_or("libCacheSim gave up")?;
        Ok((seconds.parse()?, misses.parse()?))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // The process ends when its standard input is closed.
        let _ = self.child.wait();
    }
}
