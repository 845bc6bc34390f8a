//! The other side: peer.py, which answers one line at a time.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// libCacheSim, in a process of its own that lives for the whole run.
pub(super) struct Peer {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    pub(super) fn start(python: &str) -> Result<Self, Box<dyn std::error::Error>> {
        let mut child = Command::new(python)
            .args(["-c", include_str!("peer.py")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let answers = BufReader::new(child.stdout.take().ok_or("no pipe")?);
        Ok(Self { child, answers })
    }

    pub(super) fn run(
        &mut self,
        (policy, size): (&str, u64),
        table: u32,
        file: &Path,
    ) -> Result<(f64, u64), Box<dyn std::error::Error>> {
        let questions = self.child.stdin.as_mut().ok_or("no pipe")?;
        writeln!(questions, "{policy} {size} {table} {}", file.display())?;
        questions.flush()?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let (seconds, misses) = line.trim().split_once(' ').ok_or("libCacheSim gave up")?;
        Ok((seconds.parse()?, misses.parse()?))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // It ends when its input ends.
        let _ = self.child.wait();
    }
}
