//! What `run` and the manager beside it say to each other before the program starts: a line each way.
//!
//! Invariant: neither waits for ever. The end of the channel is the exec (or the end) of the process that
//! is to be managed.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::options::Options;
use crate::record::About;

/// First argument of a manager's process. Not a command for people.
pub const WORD: &str = "__manager";
/// Second argument: start a manager, and end.
pub(crate) const BEGIN: &str = "begin";
/// Our own program, whatever became of its file.
pub(crate) const EXE: &str = "/proc/self/exe";

/// Longest line either way, bytes.
const LINE_MAX: usize = 64 << 10;

/// What the manager is to do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// How to manage.
    pub(crate) options: Options,
    /// Its standard output is the file of the last report.
    pub(crate) has_report: bool,
    /// Nobody else writes to that file, so what an earlier run left is emptied.
    pub(crate) empties_report: bool,
    /// Its standard error is the file of this recording.
    pub(crate) record: Option<About>,
}

/// What the manager says to that.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// The program can start; what is done without.
    Ready(Vec<String>),
    /// It cannot.
    Failed(Error),
}

/// Sends a line.
///
/// # Errors
/// The other side is gone.
pub(crate) fn send(mut channel: &UnixStream, message: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    channel.write_all(&line)
}

/// Receives a line within `time`; `None` if the other side hung up or said nothing that makes sense.
///
/// # Errors
/// The kernel's; [`ErrorKind::TimedOut`].
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
    fn what_is_sent_arrives() {
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
