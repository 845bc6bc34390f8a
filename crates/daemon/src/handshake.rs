//! The messages between `run` and its manager before the program starts: one line in each
//! direction.
//!
//! Invariant: neither side waits for ever. The channel is closed when the process to be managed
//! calls execve(2) or ends.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::options::Options;
use crate::record::About;

/// First argument of the manager's own command line, `pagetide __manager`; not a command for users.
pub const WORD: &str = "__manager";
/// Second argument of the intermediate process, which starts a manager and exits.
pub(crate) const BEGIN: &str = "begin";
/// The program file of this process, also if its path was replaced or removed.
pub(crate) const EXE: &str = "/proc/self/exe";

/// Longest line in either direction, in bytes.
const LINE_MAX: usize = 64 << 10;

/// What `run` sends: how the manager is to work.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// The options of the manager.
    pub(crate) options: Options,
    /// Whether the manager's standard output is the file for the last report.
    pub(crate) has_report: bool,
    /// Whether to empty the report's file first: no other process writes to the file, so its
    /// content is from an earlier run.
    pub(crate) empties_report: bool,
    /// The recording to make; the manager's standard error is its file. `None`: no recording.
    pub(crate) record: Option<About>,
}

/// The manager's reply.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// The program can start. The texts are notes about what the host lacks.
    Ready(Vec<String>),
    /// The program cannot be managed.
    Failed(Error),
}

/// Sends a message as one line.
///
/// # Errors
/// The other side has closed the channel.
pub(crate) fn send(mut channel: &UnixStream, message: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    channel.write_all(&line)
}

/// Receives a line within `time` and decodes it; `None` if the other side hung up or sent no valid
/// message.
///
/// # Errors
/// The kernel's; [`ErrorKind::TimedOut`] after `time`.
pub(crate) fn receive<T: DeserializeOwned>(
    mut channel: &UnixStream,
    time: Duration,
) -> std::io::Result<Option<T>> {
    let end = Instant::now() + time;
    let mut line = Vec::new();
    let mut byte = [0; 1024];
    while line.len() < LINE_MAX {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        channel.set_read_timeout(Some(left))?;
        match channel.read(&mut byte) {
            Ok(0) => return Ok(None),
            Ok(n) => line.extend_from_slice(&byte[..n]),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                _ => return Err(error),
            },
        }
        if line.ends_with(b"\n") {
            return Ok(serde_json::from_slice(&line).ok());
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_arrives_as_it_was_sent() {
        let (one, other) = UnixStream::pair().expect("a pair");
        let setup = Setup {
            options: Options::default(),
            has_report: true,
            empties_report: true,
            record: Some(About::command(&["x".into()], 7)),
        };
        send(&one, &setup).expect("the other side is there");
        let got = receive(&other, Duration::from_secs(5)).expect("no error");
        assert_eq!(got, Some(setup));
        let silence = receive::<Setup>(&other, Duration::from_millis(10));
        assert!(silence.is_err_and(|error| error.kind() == ErrorKind::TimedOut));
        drop(one);
        let end = receive::<Setup>(&other, Duration::from_secs(5));
        assert_eq!(end.expect("no error"), None);
    }
}
