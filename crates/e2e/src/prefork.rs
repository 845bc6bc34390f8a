//! `prefork.py`: a server whose workers inherit a table in memory by fork(2). Any free worker
//! answers a request.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::guard::{Run, Running};
use crate::{programs, wait};

/// Time limit for each answer.
const LIMIT: Duration = Duration::from_secs(60);

/// The running server; when this is dropped, it is killed with its workers.
#[derive(Debug)]
pub struct Prefork {
    /// The server and its workers.
    pub running: Running,
    /// The pid of the server itself, which only waits.
    pub parent: u32,
    /// The pids of the workers.
    pub workers: Vec<u32>,
    port: u16,
}

impl Prefork {
    /// Starts a server with `workers` workers and a table of `mib` MiB; the command that `wrap`
    /// makes runs it.
    ///
    /// # Panics
    /// If it does not get ready.
    #[must_use]
    pub fn start(mib: u64, workers: u64, wrap: &dyn Fn(&Run) -> Run) -> Prefork {
        let words = [
            "/usr/bin/python3".to_owned(),
            programs::source("prefork.py"),
            mib.to_string(),
            workers.to_string(),
        ];
        let running = wrap(&Run::new(words)).start();
        let ready = wait::poll(LIMIT, || {
            let said = running.stdout();
            said.ends_with('\n').then_some(said)
        });
        let ready = ready.unwrap_or_else(|| panic!("no server\n{}", running.state()));
        let mut numbers = ready.split_whitespace().skip(1).map(str::parse::<u32>);
        let mut next = || numbers.next().and_then(Result::ok);
        let (port, parent) = (next().expect("a port"), next().expect("its own id"));
        let workers = std::iter::from_fn(next).collect();
        Prefork {
            running,
            parent,
            workers,
            port: u16::try_from(port).expect("a port"),
        }
    }

    /// Sends a line to any free worker; returns the worker's pid and its answer.
    ///
    /// # Panics
    /// If no worker answers.
    #[must_use]
    pub fn request(&self, line: &str) -> (u32, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a time");
        writeln!(stream, "{line}").expect("it reads");
        let mut said = String::new();
        let read = BufReader::new(stream).read_line(&mut said);
        read.unwrap_or_else(|error| panic!("{error}\n{}", self.running.state()));
        let (pid, answer) = said.trim().split_once(' ').expect("an answer");
        (pid.parse().expect("who it was"), answer.to_owned())
    }

    /// Makes every worker check the whole table.
    ///
    /// # Panics
    /// If a worker finds a wrong byte, or does not answer.
    pub fn check(&self) {
        let mut requested = BTreeSet::new();
        wait::until("every worker has answered", LIMIT, || {
            std::thread::scope(|scope| {
                let one = || self.request("check");
                let all: Vec<_> = self.workers.iter().map(|_| scope.spawn(one)).collect();
                for answer in all {
                    let (pid, said) = answer.join().expect("it answers");
                    assert_eq!(said, "right", "worker {pid}");
                    requested.insert(pid);
                }
            });
            requested.len() == self.workers.len()
        });
    }
}
