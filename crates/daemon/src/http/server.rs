//! The HTTP server's loop: one thread, which waits in one place.
//!
//! Invariant: there are at most [`CLIENTS_MAX`] connections. When another client comes, the one
//! that was silent for longest is dropped, so clients that never send a request cannot keep others
//! out. An error of one client affects no other. Clients' processor time stays within their
//! [`Budget`]: beyond it clients wait, and only the site's own work is done.

use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::address::Address;
use super::answer::Answer;
use super::client::Client;
use super::head::Head;
use super::listener::Listener;
use super::token::Token;
use crate::budget::{Budget, processor_time};
use crate::error::Error;

/// Most connections at a time.
pub(super) const CLIENTS_MAX: usize = 64;
/// Most clients of one address that are accepted before the connected clients are served again.
const ACCEPTS_MAX: usize = 16;
/// Time without accepting after accept(2) found no free descriptor: poll(2) would return at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a server serves: the responses, and work of its own.
pub trait Site {
    /// Returns the response to an allowed request.
    fn answer(&mut self, head: &Head) -> Answer;
    /// Does the site's own work. Called when `wakeup` has become readable, and after
    /// [`Site::pause`].
    fn wake(&mut self);
    /// Returns the longest time until the next call of [`Site::wake`].
    fn pause(&self) -> Duration;
}

/// A server with its listening sockets and its clients.
#[derive(Debug)]
pub struct Server {
    listeners: Vec<Listener>,
    /// The connected clients, the oldest first.
    clients: Vec<Client>,
    accepts_from: Option<Instant>,
    budget: Budget,
    /// No client is served before this time, because the clients have used up their budget.
    rests_until: Option<Instant>,
}

impl Server {
    /// Listens on all of the addresses, or on none. For a TCP address there must be a token.
    ///
    /// # Errors
    /// The first address that cannot be used, and why.
    pub fn bind(addresses: &[Address], token: Option<&Token>) -> Result<Server, Error> {
        let listeners = addresses
            .iter()
            .map(|address| Listener::bind(address, token));
        Ok(Server {
            listeners: listeners.collect::<Result<_, _>>()?,
            clients: Vec::new(),
            accepts_from: None,
            budget: Budget::new(Instant::now()),
            rests_until: None,
        })
    }

    /// The addresses it listens on.
    pub fn addresses(&self) -> impl Iterator<Item = Address> {
        self.listeners.iter().map(Listener::address)
    }

    /// Serves until the other end of `wakeup` is closed; wakes `site` whenever `wakeup` becomes
    /// readable.
    pub fn run(&mut self, wakeup: &UnixStream, site: &mut dyn Site) {
        // A read that blocks would stop the loop.
        let _ = wakeup.set_nonblocking(true);
        let mut since = processor_time();
        loop {
            self.wait(wakeup, site.pause());
            let before = processor_time();
            match (&mut &*wakeup).read(&mut [0; 64]) {
                Ok(0) => return,
                Ok(_) => site.wake(),
                Err(_) if site.pause().is_zero() => site.wake(),
                Err(_) => {}
            }
            // What the site does on its own is not charged to clients.
            let own = processor_time().saturating_sub(before);
            let now = Instant::now();
            if self.rests_until.is_none_or(|until| now >= until) {
                self.serve(now, site);
            }
            let until_now = processor_time();
            let spent = until_now.saturating_sub(since).saturating_sub(own);
            self.rests_until = self.budget.charge(Instant::now(), spent);
            since = until_now;
        }
    }

    /// Serves all clients as far as possible without waiting.
    fn serve(&mut self, now: Instant, site: &mut dyn Site) {
        let mut answer = |head: &Head| site.answer(head);
        for client in &mut self.clients {
            client.step(now, &mut answer);
        }
        self.accept(now);
        // New clients are served in the same call, because most of them have sent their request
        // already.
        for client in &mut self.clients {
            client.step(now, &mut answer);
        }
        self.clients.retain(|client| client.is_alive(now));
    }

    fn wait(&self, wakeup: &UnixStream, pause: Duration) {
        let now = Instant::now();
        let ends = self.clients.iter().map(Client::until);
        let next = match self.rests_until {
            Some(until) => Some(until),
            None => ends.chain(self.accepts_from).min(),
        };
        let next = next.map(|end| end.saturating_duration_since(now));
        let pause = next.map_or(pause, |next| next.min(pause));
        // The time is rounded up: if a wait ended before the deadline, the loop would wait again
        // many times.
        let time = Timespec::try_from(pause + Duration::from_millis(1)).ok();
        let mut fds = vec![PollFd::new(wakeup, PollFlags::IN)];
        let serves = self.rests_until.is_none();
        if self.accepts_from.is_none() && serves {
            let listeners = self.listeners.iter();
            fds.extend(listeners.map(|one| PollFd::from_borrowed_fd(one.as_fd(), PollFlags::IN)));
        }
        let clients = self.clients.iter().filter(|_| serves);
        let clients = clients.map(Client::waits_for);
        fds.extend(clients.map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)));
        if let Err(errno) = poll(&mut fds, time.as_ref())
            && errno != rustix::io::Errno::INTR
        {
            std::thread::sleep(ACCEPT_PAUSE);
        }
    }

    fn accept(&mut self, now: Instant) {
        if self.accepts_from.is_some_and(|until| now < until) {
            return;
        }
        self.accepts_from = None;
        for listener in &self.listeners {
            for _ in 0..ACCEPTS_MAX {
                match listener.accept(now) {
                    Ok(client) => self.clients.push(client),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    // The client hung up before it was accepted.
                    Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                    Err(_) => {
                        self.accepts_from = Some(now + ACCEPT_PAUSE);
                        break;
                    }
                }
            }
        }
        while self.clients.len() > CLIENTS_MAX {
            let silent = self.clients.iter().position(Client::may_be_dropped);
            self.clients.remove(silent.unwrap_or(0));
        }
    }
}

#[cfg(test)]
mod tests;
