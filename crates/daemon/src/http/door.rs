//! The thread that tells which peers of a unix socket may ask.
//!
//! Invariant: it reads nothing that a peer wrote, only what the kernel says of the peer. It keeps the rights that the thread of
//! requests gives up: the kernel tells the user namespace of a process to CAP_SYS_PTRACE alone.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use crate::control::Peer;

/// A peer that is not judged after this is refused.
const LIMIT: Duration = Duration::from_secs(1);

/// See the module. The thread ends once this is dropped.
#[derive(Debug)]
pub(super) struct Door {
    questions: Sender<Question>,
}

struct Question {
    stream: UnixStream,
    reply: SyncSender<bool>,
}

impl Door {
    /// Starts the thread, which lets in the user `owner`, and root as [`Peer::may_ask`] says.
    pub(super) fn open(owner: u32) -> io::Result<Door> {
        let (questions, asked) = channel();
        let thread = std::thread::Builder::new().name("door".to_owned());
        thread.spawn(move || judge(owner, &asked))?;
        Ok(Door { questions })
    }

    /// Whether the peer of a connection may ask.
    ///
    /// # Errors
    /// No descriptor is to be had.
    pub(super) fn lets(&self, stream: &UnixStream) -> io::Result<bool> {
        let (reply, replied) = sync_channel(1);
        let stream = stream.try_clone()?;
        // Without the thread nobody is let in.
        let _ = self.questions.send(Question { stream, reply });
        Ok(replied.recv_timeout(LIMIT).unwrap_or(false))
    }
}

fn judge(owner: u32, asked: &Receiver<Question>) {
    for Question { stream, reply } in asked {
        let may_ask = Peer::of(&stream).is_ok_and(|peer| peer.may_ask(owner));
        // Closed before the thread of requests goes on: it counts on a peer that sees the end of its connection.
        drop(stream);
        let _ = reply.send(may_ask);
    }
}
