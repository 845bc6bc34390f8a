//! One client: its question, the answer, and its end.
//!
//! Invariant: no call waits. A client has [`HEAD_TIME`] to ask and [`ANSWER_TIME`] to take what it asked for; it asks once.
//! An answer is not lost because its client goes on to talk: what it says is read and dropped for [`LINGER_TIME`].

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::answer::{Answer, Status};
use super::gate::Gate;
use super::head::{self, HEAD_MAX, Head, Refusal};
use super::stream::Stream;

/// A browser sends its question at once.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// Some megabytes over a slow line.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// A connection that is closed with something unread tears down what was answered.
const LINGER_TIME: Duration = Duration::from_secs(1);
/// Bytes that are dropped in that time: a head that was too long, and what was on its way.
const LINGER_MAX: usize = 1 << 20;

/// See the module.
#[derive(Debug)]
pub(super) struct Client {
    stream: Stream,
    gate: Arc<Gate>,
    phase: Phase,
    /// When this phase ends, whatever the client does.
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

    /// One that is answered without having asked.
    pub(super) fn refused(
        stream: Stream,
        gate: Arc<Gate>,
        answer: &Answer,
        now: Instant,
    ) -> Client {
        let mut client = Client::new(stream, gate, now);
        client.say(answer, false, now);
        client
    }

    /// Whether it has more time.
    pub(super) fn is_alive(&self, now: Instant) -> bool {
        !matches!(self.phase, Phase::Done) && now < self.until
    }

    /// Whether it has not been answered yet, or has been and does not go: whoever must make room.
    pub(super) fn may_be_dropped(&self) -> bool {
        !matches!(self.phase, Phase::Writing { .. })
    }

    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// What to wait for.
    pub(super) fn waits_for(&self) -> (BorrowedFd<'_>, PollFlags) {
        let flags = match self.phase {
            Phase::Writing { .. } => PollFlags::OUT,
            _ => PollFlags::IN,
        };
        (self.stream.as_fd(), flags)
    }

    /// Does what can be done now. `site` is asked at most once.
    pub(super) fn step(&mut self, now: Instant, site: &mut dyn FnMut(&Head) -> Answer) {
        if matches!(self.phase, Phase::Reading(_)) {
            self.read(now, site);
        }
        if matches!(self.phase, Phase::Writing { .. }) {
            self.write(now);
        }
        if let Phase::Lingering { dropped } = &mut self.phase {
            let mut chunk = [0; 4096];
            // The rest is dropped when it comes, a chunk a time.
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
            // A head that is whole is answered; what comes behind it is not waited for.
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
        self.say(&answer, is_head, now);
    }

    fn say(&mut self, answer: &Answer, is_head: bool, now: Instant) {
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
