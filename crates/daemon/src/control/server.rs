//! The manager's end: a socket that the manager's loop polls between two looks.
//!
//! Invariant: every call returns without waiting, but for [`ControlServer::finish`], whose wait its
//! caller bounds. At most [`CLIENTS_MAX`] clients at a time, each with one request of bounded
//! length and [`CLIENT_TIME`] to be done; beside them [`WAITING_MAX`] whose answer takes us longer.
//! What clients cost is within their [`Budget`]: beyond it all of them wait, and the manager goes on.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::peer::Peer;
use super::protocol::{REQUEST_BYTES_MAX, Request, Response};
use super::socket::{Bound, NotBound};
use super::{ControlError, Tenant, is_held_by_a_stranger, manager_of, socket};
use crate::budget::{Budget, processor_time};
use crate::error::Error;

/// So many people do not ask one manager at a time; the rest wait in the backlog.
pub(super) const CLIENTS_MAX: usize = 8;

/// Clients that wait for what takes us time (a reclaim) are not in the others' way.
const WAITING_MAX: usize = 64;

/// A client that has not sent its line and read its answer by then is dropped.
const CLIENT_TIME: Duration = Duration::from_secs(2);

/// After a connection that could not be accepted, so long none is.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A request is charged at most this much processor time: a large reclaim costs what it costs, and
/// keeps other clients waiting for a second at most.
const REQUEST_COST_MAX: Duration = Duration::from_millis(50);

/// Processor time of a turn that is worth one of the manager's loop: a flood is answered in few turns.
const TURN_MIN: Duration = Duration::from_millis(2);

/// How often a name is tried to be taken that no manager has which we believe.
const TAKEN_TRIES: usize = 3;

/// What a question is answered with.
#[derive(Debug)]
pub enum Answer {
    /// This.
    Now(Response),
    /// What [`ControlServer::complete`] is told under this number.
    Later(u64),
}

/// Listens for the commands about one target.
#[derive(Debug)]
pub struct ControlServer {
    /// None where no socket could be made, and once the name was given back.
    bound: Option<Bound>,
    clients: Vec<Client>,
    /// See [`ControlServer::hung_up`].
    hung_up: Vec<u64>,
    /// No connection is accepted before this: one could not be.
    accepts_from: Option<Instant>,
    owner: u32,
    budget: Budget,
    /// Clients have cost so much that nothing is done for them before.
    rests_until: Option<Instant>,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    since: Instant,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Reading(Vec<u8>),
    /// The answer is under way.
    Waiting(u64),
    Writing {
        line: Vec<u8>,
        written: usize,
    },
    Done,
}

impl ControlServer {
    /// Takes the name of a tenant. Fails if another manager has it, so that it also decides who of two
    /// managers may manage the target. Where no socket can be made, no command reaches the manager:
    /// the second value says why.
    ///
    /// # Errors
    /// [`ControlError::Bind`], which says who has it.
    pub fn bind(tenant: &Tenant) -> Result<(ControlServer, Option<String>), ControlError> {
        let unreached = |why: &str| {
            let note = format!("no command reaches this manager: {why}");
            Ok((ControlServer::on(None), Some(note)))
        };
        let taken = |manager: Option<u32>| {
            let why = match manager {
                Some(pid) => format!("the pagetide of pid {pid} manages it"),
                None => "another pagetide manages it".to_owned(),
            };
            let tenant = tenant.clone();
            ControlError::Bind { tenant, why }
        };
        // Root's may have it beside our user's, or ours in a directory of before a login.
        if let Ok(Some(manager)) = manager_of(tenant) {
            return match is_held_by_a_stranger(tenant) {
                true => unreached("the manager of an earlier process has its name"),
                false => Err(taken(Some(manager))),
            };
        }
        // A manager that ends meanwhile leaves its name to us.
        for _ in 0..TAKEN_TRIES {
            match socket::bind(&tenant.socket_name()) {
                Ok(bound) => return Ok((ControlServer::on(Some(bound)), None)),
                Err(NotBound::Unavailable(why)) => return unreached(&why),
                Err(NotBound::Taken) => match manager_of(tenant) {
                    Ok(None) => {}
                    other => return Err(taken(other.ok().flatten())),
                },
            }
        }
        unreached("a process in another pid namespace listens on its socket")
    }

    fn on(bound: Option<Bound>) -> ControlServer {
        ControlServer {
            bound,
            clients: Vec::new(),
            hung_up: Vec::new(),
            accepts_from: None,
            owner: rustix::process::geteuid().as_raw(),
            budget: Budget::new(Instant::now()),
            rests_until: None,
        }
    }

    /// What to wait for before the next [`ControlServer::poll`]: whoever comes, asks, or takes its answer.
    pub fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        // Who comes while there is no room stays in the backlog, and would end each wait at once.
        let rests = self.rests();
        let has_room = self.clients.len() < CLIENTS_MAX && !rests;
        let listener = self.bound.as_ref();
        let listener = listener.filter(|_| has_room && !self.is_pausing());
        let listener = listener.map(|one| PollFd::new(&one.listener, PollFlags::IN));
        let clients = self.clients.iter().filter(move |_| !rests);
        let clients = clients.map(Client::awaited);
        listener.into_iter().chain(clients)
    }

    /// How long to wait for these at most: until the first client has had its time, or clients are
    /// heard again.
    #[must_use]
    pub fn patience(&self) -> Duration {
        let until = |from: Instant| from.saturating_duration_since(Instant::now());
        if self.rests() {
            return self.rests_until.map_or(Duration::MAX, until);
        }
        let left = |client: &Client| CLIENT_TIME.saturating_sub(client.since.elapsed());
        let times = self.clients.iter().map(left);
        let times = times.chain(self.accepts_from.map(until));
        times.min().unwrap_or(Duration::MAX)
    }

    /// Whether nothing is done for clients for a moment.
    fn rests(&self) -> bool {
        self.rests_until.is_some_and(|until| Instant::now() < until)
    }

    /// Whether no connection is accepted for a moment.
    fn is_pausing(&self) -> bool {
        self.accepts_from.is_some_and(|from| Instant::now() < from)
    }

    /// Takes what has arrived, answers what is complete, drops what is late. Never waits; `handler`
    /// is called at most once a client.
    pub fn poll(&mut self, handler: &mut dyn FnMut(Request) -> Response) {
        self.poll_later(&mut |request| Answer::Now(handler(request)));
    }

    /// The numbers of answers that nobody waits for any more, since the last call: who asked was interrupted.
    pub fn hung_up(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.hung_up)
    }

    /// As [`ControlServer::poll`], where an answer may be given later.
    pub fn poll_later(&mut self, handler: &mut dyn FnMut(Request) -> Answer) {
        if self.rests() {
            return;
        }
        let mut spent = Duration::ZERO;
        while self.turn(handler, &mut spent) && spent < TURN_MIN {}
        let now = Instant::now();
        self.rests_until = self.budget.charge(now, spent);
        if let Some(until) = self.rests_until {
            // That is not the clients' time.
            let rest = until.saturating_duration_since(now);
            self.clients.iter_mut().for_each(|one| one.since += rest);
        }
    }

    /// Takes in those that have come and does for each what can be done now, until all of that has
    /// cost [`TURN_MIN`]. Whether any client is done with, so that there may be room for others.
    fn turn(&mut self, handler: &mut dyn FnMut(Request) -> Answer, spent: &mut Duration) -> bool {
        let mut since = processor_time();
        let mut add = |spent: &mut Duration| {
            let until_now = processor_time();
            *spent += until_now.saturating_sub(since).min(REQUEST_COST_MAX);
            since = until_now;
        };
        self.accept();
        add(spent);
        for client in &mut self.clients {
            // Those that are left come first next time: the others have their answers.
            if *spent >= TURN_MIN {
                break;
            }
            let waited = match client.phase {
                Phase::Waiting(number) => Some(number),
                _ => None,
            };
            client.step(handler);
            let has_gone = matches!(client.phase, Phase::Done);
            self.hung_up.extend(waited.filter(|_| has_gone));
            add(spent);
        }
        let before = self.clients.len();
        self.clients.retain(Client::alive);
        debug_assert!(before <= CLIENTS_MAX + WAITING_MAX);
        self.clients.len() < before
    }

    /// The answer that was to come later; nobody may wait for it any more.
    pub fn complete(&mut self, number: u64, response: &Response) {
        for client in &mut self.clients {
            if matches!(client.phase, Phase::Waiting(waits_for) if waits_for == number) {
                client.since = Instant::now();
                client.answer(response);
            }
        }
    }

    /// Tells all that wait for an answer that it does not come.
    pub fn abandon(&mut self, response: &Response) {
        let is_waiting = |client: &&mut Client| matches!(client.phase, Phase::Waiting(_));
        let waiting = self.clients.iter_mut().filter(is_waiting);
        waiting.for_each(|client| client.answer(response));
    }

    /// From now on nobody finds us; who waits for an answer, or is being given one, has it all the same.
    pub fn give_name_back(&mut self) {
        self.bound = None;
    }

    /// Sends the answers that are still under way (a detach's), at most for `within`, and gives the
    /// name back.
    pub fn finish(mut self, within: Duration) {
        let end = Instant::now() + within;
        let busy = |client: &Client| matches!(client.phase, Phase::Writing { .. });
        while self.clients.iter().any(busy) && Instant::now() < end {
            for client in &mut self.clients {
                client.write();
            }
            self.clients.retain(Client::alive);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn accept(&mut self) {
        let Some(Bound { listener, .. }) = &self.bound else {
            return;
        };
        if self.is_pausing() {
            return;
        }
        self.accepts_from = None;
        let is_waiting = |client: &&Client| matches!(client.phase, Phase::Waiting(_));
        let waiting = self.clients.iter().filter(is_waiting).count();
        while self.clients.len() < CLIENTS_MAX + waiting.min(WAITING_MAX) {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // No descriptor is left, or the like: who comes stays in the backlog, and would end
                // each wait at once.
                Err(_) => {
                    self.accepts_from = Some(Instant::now() + ACCEPT_PAUSE);
                    return;
                }
            };
            if let Some(client) = Client::admit(stream, self.owner) {
                self.clients.push(client);
            }
        }
    }
}

impl Client {
    /// Root that may trace processes and the manager's own user may ask; others are told whose it is, and so is whoever is in another pid namespace. (The story: root of
    /// a container with the host's network had its own limits lifted.)
    fn admit(stream: UnixStream, owner: u32) -> Option<Client> {
        stream.set_nonblocking(true).ok()?;
        let peer = Peer::of(&stream).ok()?;
        let mut client = Client {
            stream,
            since: Instant::now(),
            phase: Phase::Reading(Vec::new()),
        };
        if !peer.may_ask(owner) || !peer.is_near() {
            client.answer(&Response::Denied { owner });
        }
        Some(client)
    }

    fn alive(&self) -> bool {
        match self.phase {
            Phase::Done => false,
            Phase::Waiting(_) => true,
            Phase::Reading(_) | Phase::Writing { .. } => self.since.elapsed() < CLIENT_TIME,
        }
    }

    /// Its question, or room for more of the answer.
    fn awaited(&self) -> PollFd<'_> {
        let flags = match self.phase {
            Phase::Writing { .. } => PollFlags::OUT,
            Phase::Reading(_) | Phase::Waiting(_) | Phase::Done => PollFlags::IN,
        };
        PollFd::new(&self.stream, flags)
    }

    fn step(&mut self, handler: &mut dyn FnMut(Request) -> Answer) {
        if matches!(self.phase, Phase::Waiting(_)) {
            return self.look_for_end();
        }
        match self.read_line() {
            None => self.write(),
            Some(Ok(request)) => {
                let answer = handler(request);
                // The handler may have taken long (a detach); that is not the client's time.
                self.since = Instant::now();
                match answer {
                    Answer::Now(response) => self.answer(&response),
                    Answer::Later(number) => self.phase = Phase::Waiting(number),
                }
            }
            Some(Err(error)) => self.answer(&Response::Error(error)),
        }
    }

    /// Who waits and hangs up waits no more.
    fn look_for_end(&mut self) {
        match self.stream.read(&mut [0; REQUEST_BYTES_MAX]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => self.phase = Phase::Done,
            // Whatever else it says is not read.
            Ok(_) => {}
        }
    }

    /// The request, once its newline is here. Bytes after it are left unread.
    fn read_line(&mut self) -> Option<Result<Request, Error>> {
        let Phase::Reading(line) = &mut self.phase else {
            return None;
        };
        let mut chunk = [0; REQUEST_BYTES_MAX];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => {
                    self.phase = Phase::Done;
                    return None;
                }
                Ok(n) => line.extend_from_slice(&chunk[..n]),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    if error.kind() != ErrorKind::WouldBlock {
                        self.phase = Phase::Done;
                    }
                    return None;
                }
            }
            if let Some(end) = line.iter().position(|byte| *byte == b'\n') {
                return Some(Request::parse(&line[..end]));
            }
            if line.len() > REQUEST_BYTES_MAX {
                return Some(Request::parse(line));
            }
        }
    }

    fn answer(&mut self, response: &Response) {
        self.phase = Phase::Writing {
            line: response.line(),
            written: 0,
        };
        self.write();
    }

    fn write(&mut self) {
        let Phase::Writing { line, written } = &mut self.phase else {
            return;
        };
        match write_some(&self.stream, line, written) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            _ => self.phase = Phase::Done,
        }
    }
}

/// Writes `line` from `written` on as far as the socket takes it. Rust ignores SIGPIPE, so a client
/// that left is an error here.
fn write_some(mut stream: &UnixStream, line: &[u8], written: &mut usize) -> io::Result<()> {
    while *written < line.len() {
        match stream.write(&line[*written..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(n) => *written += n,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
