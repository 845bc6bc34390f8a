//! Processes that hold a lock of their memory while a file server does not answer
//! (`tests/programs/locked.c`).
//!
//! Invariant: all of them end when the value is dropped, however the test ends.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::programs;

/// The processes that hold a lock, and the program that started them.
pub struct Locked {
    child: Child,
    stdin: Option<ChildStdin>,
    pids: Vec<u32>,
}

impl Locked {
    /// Starts `count` processes as arguments of the command `wrap`, and returns when all wait for
    /// the file server. `kind` is what they wait in: `mmap`, `munmap` or `exec`.
    ///
    /// # Panics
    /// If they cannot be started.
    #[must_use]
    pub fn start(wrap: &[String], kind: &str, count: usize) -> Locked {
        let own = [programs::c("locked"), kind.to_owned(), "60".to_owned()];
        let words: Vec<String> = wrap.iter().cloned().chain(own).collect();
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .arg(count.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", words[0]));
        let stdin = child.stdin.take();
        let stdout = child.stdout.take();
        let mut locked = Locked {
            child,
            stdin,
            pids: Vec::new(),
        };
        let mut line = String::new();
        let stdout = BufReader::new(stdout.expect("piped"));
        let read = { stdout }.read_line(&mut line);
        read.expect("it says who waits");
        let pids = line.split_whitespace().map(|word| word.parse());
        locked.pids = pids.collect::<Result<_, _>>().expect("numbers");
        assert_eq!(locked.pids.len(), count, "{kind}: {line}");
        locked
    }

    /// Pids of the processes that hold a lock.
    #[must_use]
    pub fn pids(&self) -> &[u32] {
        &self.pids
    }

    /// Ends the file server, so all processes go on.
    ///
    /// # Panics
    /// If the processes have ended.
    pub fn free(&mut self) {
        let stdin = self.stdin.as_mut().expect("they have not ended");
        stdin.write_all(b"\n").expect("it reads");
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // The end of the program's standard input ends all processes.
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}
