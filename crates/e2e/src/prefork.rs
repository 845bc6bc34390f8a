//! `prefork.py`: a server whose workers inherited a table when they were forked, and whom it asks in turn.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::guard::{Run, Running};
use crate::{programs, wait};

const LIMIT: Duration = Duration::from_secs(60);

/// One that runs; killed with its workers when dropped.
#[derive(Debug)]
pub struct Prefork {
    /// All of it.
    pub running: Running,
    /// The server itself, which does nothing but wait.
    pub parent: u32,
    /// Who answers.
    pub workers: Vec<u32>,
    port: u16,
}

impl Prefork {
    /// One with a table of so many MiB, as the argument of what `wrap` makes of it.
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

    /// Whoever of them is free gets this line; who it was, and what it said.
    ///
    /// # Panics
    /// If nobody answers.
    #[must_use]
    pub fn ask(&self, line: &str) -> (u32, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a time");
        writeln!(stream, "{line}").expect("it reads");
        let mut said = String::new();
        let read = BufReader::new(stream).read_line(&mut said);
        read.unwrap_or_else(|error| panic!("{error}\n{}", self.running.state()));
        let (pid, answer) = said.trim().split_once(' ').expect("an answer");
        (pid.parse().expect("who it was"), answer.to_owned())
    }

    /// Every worker has checked all of the table, and found it as it was read.
    ///
    /// # Panics
    /// If one finds something else, or does not answer.
    pub fn check(&self) {
        let mut asked = BTreeSet::new();
        wait::until("every worker has answered", LIMIT, || {
            std::thread::scope(|scope| {
                let one = || self.ask("check");
                let all: Vec<_> = self.workers.iter().map(|_| scope.spawn(one)).collect();
                for answer in all {
                    let (pid, said) = answer.join().expect("it answers");
                    assert_eq!(said, "right", "worker {pid}");
                    asked.insert(pid);
                }
            });
            asked.len() == self.workers.len()
        });
    }
}
