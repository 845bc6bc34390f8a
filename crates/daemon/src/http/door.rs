//! The thread that decides which processes may send requests over a unix socket.
//!
//! Invariant: this thread reads nothing that a peer wrote, only what the kernel says about the
//! peer. It keeps capabilities that the thread serving requests drops: the kernel shows the user
//! namespace of another process only to a thread with CAP_SYS_PTRACE.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use crate::control::Peer;

/// Longest wait for a decision; without one the peer is refused.
const LIMIT: Duration = Duration::from_secs(1);

/// A handle to the deciding thread. The thread ends when the handle is dropped.
#[derive(Debug)]
pub(super) struct PeerChecker {
    requests: Sender<ServedRequest>,
}

struct ServedRequest {
    stream: UnixStream,
    reply: SyncSender<bool>,
}

impl PeerChecker {
    /// Starts the thread. It allows the user `owner`, and root under the condition of
    /// [`Peer::may_ask`].
    pub(super) fn open(owner: u32) -> io::Result<PeerChecker> {
        let (requests, received) = channel();
        let thread = std::thread::Builder::new().name("door".to_owned());
        thread.spawn(move || decide(owner, &received))?;
        Ok(PeerChecker { requests })
    }

    /// Whether the peer of a connection may send requests.
    ///
    /// # Errors
    /// No free descriptor.
    pub(super) fn allows(&self, stream: &UnixStream) -> io::Result<bool> {
        let (reply, replied) = sync_channel(1);
        let stream = stream.try_clone()?;
        // If the thread has ended, no client is allowed.
        let _ = self.requests.send(ServedRequest { stream, reply });
        Ok(replied.recv_timeout(LIMIT).unwrap_or(false))
    }
}

/// Decides about each connection that arrives, until the channel is closed.
fn decide(owner: u32, received: &Receiver<ServedRequest>) {
    for ServedRequest { stream, reply } in received {
        let may_ask = Peer::of(&stream).is_ok_and(|peer| peer.may_ask(owner));
        // This thread's descriptor must be closed before the reply is sent. Otherwise the peer
        // would not see the end of the connection when the requesting thread closes its own
        // descriptor.
        drop(stream);
        let _ = reply.send(may_ask);
    }
}
