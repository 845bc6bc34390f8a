//! The manager's end of the control socket, which the manager's loop polls between scans.
//!
//! Invariant: no call waits, except [`ControlServer::finish`], for a time that its caller bounds.
//! At most [`CLIENTS_MAX`] clients are connected at a time, each with one request of bounded length
//! and [`CLIENT_TIME`]. At most [`WAITING_MAX`] further clients wait for a response that takes
//! long. Clients' processor time stays within their [`Budget`]: beyond it all clients wait, and the
//! manager goes on.

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

/// Most clients at a time; further clients wait in the socket's backlog.
pub(super) const CLIENTS_MAX: usize = 8;

/// Most clients that wait for a response that takes long (a reclaim), in addition to
/// [`CLIENTS_MAX`].
const WAITING_MAX: usize = 64;

/// Time in which a client must send its line and read the response; a slower client is dropped.
const CLIENT_TIME: Duration = Duration::from_secs(2);

/// After accept(2) has failed: time until the next try.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Most processor time that is charged for one request. A large reclaim may cost more, and other
/// clients must not wait more than a second because of it.
const REQUEST_COST_MAX: Duration = Duration::from_millis(50);

/// Processor time for which one call of `turn` goes on to serve clients before the manager's loop
/// continues. So few calls serve many clients.
const TURN_MIN: Duration = Duration::from_millis(2);

/// Number of tries to take a name that is in use, though by no manager that we trust.
const TAKEN_TRIES: usize = 3;

/// What a handler returns for a request.
#[derive(Debug)]
pub enum Answer {
    /// The response, to be sent at once.
    Now(Response),
    /// The response will be passed to [`ControlServer::complete`] with this number.
    Later(u64),
}

/// The server of requests about one target.
#[derive(Debug)]
pub struct ControlServer {
    /// The listening socket with its name. `None` if no socket could be made, or if the name was
    /// released.
    bound: Option<Bound>,
    clients: Vec<Client>,
    /// Numbers of responses for which no client waits any more; see [`ControlServer::hung_up`].
    hung_up: Vec<u64>,
    /// No connection is accepted before this time, because accept(2) has failed.
    accepts_from: Option<Instant>,
    owner: u32,
    budget: Budget,
    /// No client is served before this time, because the clients have used up their budget.
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
    /// The client waits for the response with this number.
    Waiting(u64),
    Writing {
        line: Vec<u8>,
        written: usize,
    },
    Done,
}

impl ControlServer {
    /// Takes the name of a tenant and listens. Fails if another manager has the name: so this also
    /// decides which of two managers manages the target. The second value is `None`, or says why no
    /// socket could be made; then no command reaches the manager.
    ///
    /// # Errors
    /// [`ControlError::Bind`], which names the other manager.
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
        // In another directory a manager may have this name already: a manager of root, or one that
        // our user started before logging in, when the user's directory was another.
        if let Ok(Some(manager)) = manager_of(tenant) {
            return match is_held_by_a_stranger(tenant) {
                true => unreached("the manager of an earlier process has its name"),
                false => Err(taken(Some(manager))),
            };
        }
        // If the manager with the name ends meanwhile, the next try gets the name.
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

    /// Returns a server on this name, without clients.
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

    /// Returns the descriptors to wait for before the next [`ControlServer::poll`]: those of new
    /// clients, of requests, and of clients that are reading a response.
    pub fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        // A client that comes while no more are accepted stays in the backlog; polling the listener
        // would end each wait at once.
        let rests = self.rests();
        let has_room = self.clients.len() < CLIENTS_MAX && !rests;
        let listener = self.bound.as_ref();
        let listener = listener.filter(|_| has_room && !self.is_pausing());
        let listener = listener.map(|one| PollFd::new(&one.listener, PollFlags::IN));
        let clients = self.clients.iter().filter(move |_| !rests);
        let clients = clients.map(Client::awaited);
        listener.into_iter().chain(clients)
    }

    /// Longest time to wait for [`ControlServer::fds`]: until the first client's time is over, or
    /// until clients are served again.
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

    /// Whether clients are not served at the moment, because of their budget.
    fn rests(&self) -> bool {
        self.rests_until.is_some_and(|until| Instant::now() < until)
    }

    /// Whether no connection is accepted at the moment, because accept(2) has failed.
    fn is_pausing(&self) -> bool {
        self.accepts_from.is_some_and(|from| Instant::now() < from)
    }

    /// Reads what has arrived, responds to complete requests and drops slow clients. Never waits;
    /// calls `handler` at most once for each client.
    pub fn poll(&mut self, handler: &mut dyn FnMut(Request) -> Response) {
        self.poll_later(&mut |request| Answer::Now(handler(request)));
    }

    /// Returns the numbers of the responses for which no client waits any more, because the client
    /// has hung up since the last call.
    pub fn hung_up(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.hung_up)
    }

    /// Does what [`ControlServer::poll`] does, for a handler that may return [`Answer::Later`].
    pub fn poll_later(&mut self, handler: &mut dyn FnMut(Request) -> Answer) {
        if self.rests() {
            return;
        }
        let mut spent = Duration::ZERO;
        while self.turn(handler, &mut spent) && spent < TURN_MIN {}
        let now = Instant::now();
        self.rests_until = self.budget.charge(now, spent);
        if let Some(until) = self.rests_until {
            // The pause for the budget is not part of the clients' own time.
            let rest = until.saturating_duration_since(now);
            self.clients.iter_mut().for_each(|one| one.since += rest);
        }
    }

    /// Accepts new clients and serves each client as far as possible without waiting, until that
    /// has taken [`TURN_MIN`]. Returns whether any client is finished, so that others may be
    /// accepted.
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
            // The clients from here on are served first in the next turn, because the clients
            // before them are finished by then.
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

    /// Sends the response with this number to the client that waits for it; does nothing if it has
    /// hung up.
    pub fn complete(&mut self, number: u64, response: &Response) {
        for client in &mut self.clients {
            if matches!(client.phase, Phase::Waiting(waits_for) if waits_for == number) {
                client.since = Instant::now();
                client.answer(response);
            }
        }
    }

    /// Sends `response` to all clients that wait for [`Answer::Later`], in place of what they wait
    /// for.
    pub fn abandon(&mut self, response: &Response) {
        let is_waiting = |client: &&mut Client| matches!(client.phase, Phase::Waiting(_));
        let waiting = self.clients.iter_mut().filter(is_waiting);
        waiting.for_each(|client| client.answer(response));
    }

    /// Releases the name: no new client finds this manager. Clients that are connected still get
    /// their response.
    pub fn give_name_back(&mut self) {
        self.bound = None;
    }

    /// Releases the name after sending the responses that are not sent completely, such as a
    /// detach's, for at most `within`.
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

    /// Accepts waiting clients, as many as may be connected.
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
                // No descriptor is free, or the like. Clients stay in the backlog, and polling the
                // listener would end each wait at once.
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
    /// Accepts a client. The manager's own user may send requests, and so may root if it may trace
    /// processes. Any other client, and every client in another pid namespace, only gets a response
    /// that names the manager's user.
    fn admit(stream: UnixStream, owner: u32) -> Option<Client> {
        stream.set_nonblocking(true).ok()?;
        let peer = Peer::of(&stream).ok()?;
        let mut client = Client {
            stream,
            since: Instant::now(),
            phase: Phase::Reading(Vec::new()),
        };
        if !peer.may_ask(owner) || !peer.is_in_our_pid_namespace() {
            client.answer(&Response::Denied { owner });
        }
        Some(client)
    }

    /// Whether the client is not finished and its time is not over.
    fn alive(&self) -> bool {
        match self.phase {
            Phase::Done => false,
            Phase::Waiting(_) => true,
            Phase::Reading(_) | Phase::Writing { .. } => self.since.elapsed() < CLIENT_TIME,
        }
    }

    /// Returns what to wait for: more of the client's request, or space to send more of the
    /// response.
    fn awaited(&self) -> PollFd<'_> {
        let flags = match self.phase {
            Phase::Writing { .. } => PollFlags::OUT,
            Phase::Reading(_) | Phase::Waiting(_) | Phase::Done => PollFlags::IN,
        };
        PollFd::new(&self.stream, flags)
    }

    /// Serves the client as far as possible without waiting.
    fn step(&mut self, handler: &mut dyn FnMut(Request) -> Answer) {
        if matches!(self.phase, Phase::Waiting(_)) {
            return self.find_end();
        }
        match self.read_line() {
            None => self.write(),
            Some(Ok(request)) => {
                let answer = handler(request);
                // The handler may have taken long (for a detach); this time is not part of
                // [`CLIENT_TIME`].
                self.since = Instant::now();
                match answer {
                    Answer::Now(response) => self.answer(&response),
                    Answer::Later(number) => self.phase = Phase::Waiting(number),
                }
            }
            Some(Err(error)) => self.answer(&Response::Error(error)),
        }
    }

    /// Notices whether a client that waits for its response has hung up.
    fn find_end(&mut self) {
        match self.stream.read(&mut [0; REQUEST_BYTES_MAX]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => self.phase = Phase::Done,
            // Anything else that the client sends is ignored.
            Ok(_) => {}
        }
    }

    /// Returns the request once its newline has arrived, else `None`. Bytes behind the newline are
    /// ignored.
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

/// Writes `line` from `written` on as far as the socket accepts it. Rust ignores SIGPIPE, so a
/// client that has hung up is an error here.
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
