//! One client of the HTTP server: its request, the response, and the end of the connection.
//!
//! Invariant: no call waits. A client has [`HEAD_TIME`] to send its one request and [`ANSWER_TIME`]
//! to read the response. If the client sends more, the response is not lost: for [`LINGER_TIME`]
//! the server reads and drops what the client sends.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::answer::{Answer, Status};
use super::gate::Gate;
use super::head::{self, HEAD_MAX, Head, Refusal};
use super::stream::Stream;

/// Time for a client to send its request; a browser sends it at once.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// Time for a client to read the response: enough for some megabytes over a slow line.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// Time for which the server reads a client's further bytes after the response. Closing a
/// connection with unread bytes would reset the connection and lose the response.
const LINGER_TIME: Duration = Duration::from_secs(1);
/// Most bytes that are dropped in [`LINGER_TIME`]: the rest of a head that was too long.
const LINGER_MAX: usize = 1 << 20;

/// One client, from its connection to its end.
#[derive(Debug)]
pub(super) struct Client {
    stream: Stream,
    gate: Arc<Gate>,
    phase: Phase,
    /// Deadline of the current phase; after it the client is dropped.
    until: Instant,
}

#[derive(Debug)]
enum Phase {
    Reading(Vec<u8>),
    Writing {
        head: Vec<u8>,
        body: Option<Arc<[u8]>>,
        written: usize,
    },
    Lingering {
        dropped: usize,
    },
    Done,
}

impl Client {
    pub(super) fn new(stream: Stream, gate: Arc<Gate>, now: Instant) -> Client {
        Client {
            stream,
            gate,
            phase: Phase::Reading(Vec::new()),
            until: now + HEAD_TIME,
        }
    }

    /// Returns a client that gets `answer` before it has sent a request.
    pub(super) fn refused(
        stream: Stream,
        gate: Arc<Gate>,
        answer: &Answer,
        now: Instant,
    ) -> Client {
        let mut client = Client::new(stream, gate, now);
        client.begin_response(answer, false, now);
        client
    }

    /// Whether the client is not finished and its deadline has not passed.
    pub(super) fn is_alive(&self, now: Instant) -> bool {
        !matches!(self.phase, Phase::Done) && now < self.until
    }

    /// Whether the client may be dropped to make space for another: it is not reading a response,
    /// but has not sent its request yet, or has its response and does not close.
    pub(super) fn may_be_dropped(&self) -> bool {
        !matches!(self.phase, Phase::Writing { .. })
    }

    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// Returns the descriptor of the connection, and the events to wait for.
    pub(super) fn waits_for(&self) -> (BorrowedFd<'_>, PollFlags) {
        let flags = match self.phase {
            Phase::Writing { .. } => PollFlags::OUT,
            _ => PollFlags::IN,
        };
        (self.stream.as_fd(), flags)
    }

    /// Serves the client as far as possible without waiting. Calls `site` at most once, for the
    /// response.
    pub(super) fn step(&mut self, now: Instant, site: &mut dyn FnMut(&Head) -> Answer) {
        if matches!(self.phase, Phase::Reading(_)) {
            self.read(now, site);
        }
        if matches!(self.phase, Phase::Writing { .. }) {
            self.write(now);
        }
        if let Phase::Lingering { dropped } = &mut self.phase {
            let mut chunk = [0; 4096];
            // Further bytes are dropped as they arrive, one chunk at each call.
            match self.stream.read(&mut chunk) {
                Ok(0) => self.phase = Phase::Done,
                Ok(n) => {
                    *dropped += n;
                    if *dropped > LINGER_MAX {
                        self.phase = Phase::Done;
                    }
                }
                Err(error) if is_for_later(&error) => {}
                Err(_) => self.phase = Phase::Done,
            }
        }
    }

    fn read(&mut self, now: Instant, site: &mut dyn FnMut(&Head) -> Answer) {
        let Phase::Reading(bytes) = &mut self.phase else {
            return;
        };
        let mut chunk = [0; 4096];
        while bytes.len() < HEAD_MAX {
            match self.stream.read(&mut chunk) {
                Ok(0) => {
                    self.phase = Phase::Done;
                    return;
                }
                Ok(n) => bytes.extend_from_slice(&chunk[..n]),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if is_for_later(&error) => break,
                Err(_) => {
                    self.phase = Phase::Done;
                    return;
                }
            }
            // A complete head gets its response at once; no bytes behind the head are waited for.
            if !matches!(head::read(bytes), head::Read::More) {
                break;
            }
        }
        let (answer, is_head) = match head::read(bytes) {
            head::Read::More => return,
            head::Read::Refused(refusal) => (refused(refusal), false),
            head::Read::Whole(head) => match self.gate.admit(&head) {
                Err(answer) => (*answer, head.is_head),
                Ok(()) => (site(&head), head.is_head),
            },
        };
        self.begin_response(&answer, is_head, now);
    }

    /// Begins to send a response.
    fn begin_response(&mut self, answer: &Answer, is_head: bool, now: Instant) {
        let (head, body) = answer.parts(is_head);
        self.phase = Phase::Writing {
            head,
            body,
            written: 0,
        };
        self.until = now + ANSWER_TIME;
    }

    fn write(&mut self, now: Instant) {
        let Phase::Writing {
            head,
            body,
            written,
        } = &mut self.phase
        else {
            return;
        };
        loop {
            let rest = match written.checked_sub(head.len()) {
                None => &head[*written..],
                Some(of_body) => body.as_deref().map_or(&[][..], |body| &body[of_body..]),
            };
            if rest.is_empty() {
                break;
            }
            match self.stream.write(rest) {
                Ok(n) if n > 0 => *written += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_for_later(&error) => return,
                _ => {
                    self.phase = Phase::Done;
                    return;
                }
            }
        }
        self.stream.end();
        self.phase = Phase::Lingering { dropped: 0 };
        self.until = now + LINGER_TIME;
    }
}

fn refused(refusal: Refusal) -> Answer {
    let answer = Answer::line(refusal.status, refusal.why);
    match refusal.status {
        Status::Method => answer.with("Allow", "GET, HEAD"),
        _ => answer,
    }
}

fn is_for_later(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
