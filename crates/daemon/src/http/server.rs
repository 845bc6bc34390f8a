//! The loop that answers: one thread, one wait.
//!
//! Invariant: at most [`CLIENTS_MAX`] connections; when another comes, the one that has been silent for longest goes, so
//! that nobody is kept out by those who never ask. An error of one client is nobody else's. What clients cost is within
//! their [`Budget`]: beyond it they wait, and the site alone is served.

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

/// Connections at a time.
pub(super) const CLIENTS_MAX: usize = 64;
/// Of one address, taken in before those that are there are heard once more.
const ACCEPTS_MAX: usize = 16;
/// Where no descriptor is to be had nobody is accepted for so long: the wait would end at once each time.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What is served.
pub trait Site {
    /// The answer to a question that may be asked.
    fn answer(&mut self, head: &Head) -> Answer;
    /// Something has come in by the other side, or nothing has for [`Site::pause`].
    fn wake(&mut self);
    /// How long it need not be woken.
    fn pause(&self) -> Duration;
}

/// See the module.
#[derive(Debug)]
pub struct Server {
    listeners: Vec<Listener>,
    /// The longest first.
    clients: Vec<Client>,
    accepts_from: Option<Instant>,
    budget: Budget,
    /// Clients have cost so much that nothing is done for them before.
    rests_until: Option<Instant>,
}

impl Server {
    /// Takes all of the addresses, or none. TCP wants a token.
    ///
    /// # Errors
    /// Which cannot be had, and why.
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

    /// What it listens on.
    pub fn addresses(&self) -> impl Iterator<Item = Address> {
        self.listeners.iter().map(Listener::address)
    }

    /// Answers until the other end of `bell` is closed; whenever it rings, `site` is woken.
    pub fn run(&mut self, bell: &UnixStream, site: &mut dyn Site) {
        // Without it a wait would never end.
        let _ = bell.set_nonblocking(true);
        let mut since = processor_time();
        loop {
            self.wait(bell, site.pause());
            let before = processor_time();
            match (&mut &*bell).read(&mut [0; 64]) {
                Ok(0) => return,
                Ok(_) => site.wake(),
                Err(_) if site.pause().is_zero() => site.wake(),
                Err(_) => {}
            }
            // What the site does by itself is no client's cost.
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

    /// Does for all clients what can be done now.
    fn serve(&mut self, now: Instant, site: &mut dyn Site) {
        let mut answer = |head: &Head| site.answer(head);
        for client in &mut self.clients {
            client.step(now, &mut answer);
        }
        self.accept(now);
        // Most have asked already.
        for client in &mut self.clients {
            client.step(now, &mut answer);
        }
        self.clients.retain(|client| client.is_alive(now));
    }

    fn wait(&self, bell: &UnixStream, pause: Duration) {
        let now = Instant::now();
        let ends = self.clients.iter().map(Client::until);
        let next = match self.rests_until {
            Some(until) => Some(until),
            None => ends.chain(self.accepts_from).min(),
        };
        let next = next.map(|end| end.saturating_duration_since(now));
        let pause = next.map_or(pause, |next| next.min(pause));
        // Rounded up: a wait that ends a moment too early would be many.
        let time = Timespec::try_from(pause + Duration::from_millis(1)).ok();
        let mut fds = vec![PollFd::new(bell, PollFlags::IN)];
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
                    // It went before it was taken in.
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
