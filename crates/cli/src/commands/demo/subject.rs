//! The demo's program from the demo's side: a separate process, which the demo controls through a
//! socket.
//!
//! Invariant: the process does not outlive the demo: `Drop` kills it, and if the demo is killed,
//! the program ends at the end of its input. It is in a process group of its own, so that ^C
//! reaches only the demo. Every wait has a timeout.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::WORKLOAD;
use super::workload::{Answer, Order};
use crate::failure::Failure;

/// Timeout of every request to the program; each request takes far less than a second.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);
/// Command line of a `run` that only scans, as the demo itself requests what to page out.
/// `--max-wait` is long: on a busy machine, a short delay of the program is better than unknown
/// ages.
const MANAGED: [&str; 6] = ["run", "--age-every", "500ms", "--max-wait", "100ms", "--"];

/// A running workload.
pub(super) struct Workload {
    child: Child,
    channel: UnixStream,
    /// Address of the first block of the program's memory.
    pub(super) address: usize,
}

impl Workload {
    /// Starts the program, managed or alone, and waits until it has filled its memory.
    pub(super) fn start(managed: bool) -> Result<Workload, Failure> {
        let broken = |error: std::io::Error| {
            let what = format!("cannot start the demo's program: {error}");
            Failure::new(what, "is /proc mounted, and `ulimit -u` high enough?")
        };
        let exe = std::env::current_exe().map_err(broken)?;
        let (ours, theirs) = UnixStream::pair().map_err(broken)?;
        ours.set_read_timeout(Some(RESPONSE_TIMEOUT))
            .map_err(broken)?;
        let mut command = Command::new(&exe);
        if managed {
            command.args(MANAGED).arg(&exe);
        }
        let child = command
            .arg(WORKLOAD)
            .process_group(0)
            .stdin(OwnedFd::from(theirs.try_clone().map_err(broken)?))
            .stdout(OwnedFd::from(theirs))
            .stderr(Stdio::piped())
            .spawn()
            .map_err(broken)?;
        // The command owns copies of the other end of the socket. We see the end of the program's
        // output only after these are closed.
        drop(command);
        let mut subject = Workload {
            child,
            channel: ours,
            address: 0,
        };
        match subject.answer()? {
            Answer::Ready(address) => subject.address = address,
            other => return Err(subject.unexpected_reply(&other)),
        }
        Ok(subject)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Makes the program run `count` passes over its hot memory; returns their time in nanoseconds.
    pub(super) fn passes(&mut self, count: u64) -> Result<u64, Failure> {
        match self.ask(Order::Passes(count))? {
            Answer::Took(time) => Ok(time),
            other => Err(self.unexpected_reply(&other)),
        }
    }

    /// Ends the program's work; returns the checksum over all of its memory.
    pub(super) fn checksum(&mut self) -> Result<String, Failure> {
        match self.ask(Order::End)? {
            Answer::Checksum(sum) => Ok(sum),
            other => Err(self.unexpected_reply(&other)),
        }
    }

    /// Ends the program's input and returns its exit status.
    pub(super) fn end(mut self) -> Result<Option<i32>, Failure> {
        let failed = |error: std::io::Error| {
            let what = format!("cannot wait for the demo's program: {error}");
            Failure::new(what, "this should not happen; please report it")
        };
        self.channel
            .shutdown(std::net::Shutdown::Write)
            .map_err(failed)?;
        self.child
            .wait()
            .map(|status| status.code())
            .map_err(failed)
    }

    fn ask(&mut self, order: Order) -> Result<Answer, Failure> {
        let line = serde_json::to_string(&order).unwrap_or_default() + "\n";
        // If writing fails, the program has ended; reading its reply then reports that.
        let _ = self.channel.write_all(line.as_bytes());
        self.answer()
    }

    fn answer(&mut self) -> Result<Answer, Failure> {
        let mut line = Vec::new();
        let mut byte = [0];
        while !line.ends_with(b"\n") {
            match self.channel.read(&mut byte) {
                Ok(1) => line.push(byte[0]),
                Ok(_) => return Err(self.ended()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    let what = format!("the demo's program does not answer: {error}");
                    return Err(Failure::new(what, "is the machine very busy? try again"));
                }
            }
        }
        serde_json::from_slice(&line).map_err(|error| {
            let what = format!("the demo's program answers in other words: {error}");
            Failure::new(what, "this should not happen; please report it")
        })
    }

    /// Returns the failure for a reply that reports a wrong page, or that does not fit the order
    /// sent.
    fn unexpected_reply(&self, answer: &Answer) -> Failure {
        let what = match answer {
            Answer::Wrong(page) => format!(
                "the program of pid {} lost bytes: page {page} is not what was written",
                self.pid()
            ),
            other => format!("the demo's program sent another kind of response: {other:?}"),
        };
        Failure::new(what, "this is a defect of pagetide: please report it")
    }

    /// Returns the failure for a program that ended early. If it printed a message (`run` could not
    /// start it), the failure has that message and the program's exit code.
    fn ended(&mut self) -> Failure {
        let code = self.child.wait().ok().and_then(|status| status.code());
        let mut reported = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = stderr.read_to_string(&mut reported);
        }
        Failure::of_command(&reported, code).unwrap_or_else(|| {
            let what = match code {
                Some(code) => format!("the demo's program ended early, with {code}"),
                None => "the demo's program was killed".to_owned(),
            };
            Failure::new(what, "was memory short? see `dmesg`, then try again")
        })
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        // Fails if the process has been waited for already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
