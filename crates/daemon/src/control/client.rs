//! The client's end of the control socket: one request, one response, in bounded time.
//!
//! Invariant: [`ask`] returns within its timeout, reads at most [`RESPONSE_BYTES_MAX`] bytes, and
//! trusts only managers that run as root or as the client's own user, in the client's pid
//! namespace. So a managed program cannot pretend to be its own manager.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use host::system::private_dir::PrivateDir;
use rustix::io::Errno;

use super::peer::Peer;
use super::protocol::{RESPONSE_BYTES_MAX, Request, Response};
use super::{ControlError, Tenant, socket};
use crate::options::Millis;

/// Most bytes that one read(2) takes: the counters of some hundred tenants.
const CHUNK: usize = 64 << 10;

/// Sends a request to the manager of a tenant and waits at most `within` for its answer.
///
/// # Errors
/// [`ControlError`]; a [`Response::Error`] is returned as [`ControlError::Refused`].
pub fn ask(tenant: &Tenant, request: &Request, within: Duration) -> Result<Response, ControlError> {
    let call = Call {
        tenant,
        begin: Instant::now(),
        within,
    };
    let (stream, _) = call.connect()?;
    call.send(&stream, &request.line())?;
    let line = call.receive(&stream).map_err(|error| match error {
        // If the manager has ended meanwhile, report that, not a manager of another version.
        ControlError::Io { .. } | ControlError::Protocol { .. }
            if matches!(manager_of(tenant), Ok(None)) =>
        {
            ControlError::Ended {
                tenant: tenant.clone(),
            }
        }
        other => other,
    })?;
    match serde_json::from_slice(&line) {
        Ok(Response::Error(error)) => Err(ControlError::Refused(error)),
        Ok(Response::Denied { owner }) => Err(ControlError::Denied {
            tenant: tenant.clone(),
            owner,
        }),
        Ok(response) => Ok(response),
        Err(error) => Err(call.broken(&error.to_string())),
    }
}

/// Returns the pid of a tenant's manager: of the process at the other end of the manager's socket.
/// `None` if no manager that we trust listens. Sends no request, so a busy manager is found, too.
///
/// # Errors
/// [`ControlError::Io`], [`ControlError::Timeout`].
pub fn manager_of(tenant: &Tenant) -> Result<Option<u32>, ControlError> {
    manager_within(tenant, Duration::from_millis(500))
}

/// Whether a tenant has a manager. Does not wait if the manager's backlog of connections is full.
pub(super) fn is_managed(tenant: &Tenant) -> bool {
    match manager_within(tenant, Duration::ZERO) {
        Ok(found) => found.is_some(),
        // The connection timed out: a manager listens, and its backlog is full.
        Err(error) => matches!(error, ControlError::Timeout { .. }),
    }
}

fn manager_within(tenant: &Tenant, within: Duration) -> Result<Option<u32>, ControlError> {
    let call = Call {
        tenant,
        begin: Instant::now(),
        within,
    };
    match call.connect() {
        Ok((_, peer)) => Ok(Some(peer.pid)),
        // A listener that we do not trust does not count as a manager.
        Err(ControlError::NotManaged { .. } | ControlError::Impostor { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// One request to a tenant's manager, and the request's deadline.
struct Call<'a> {
    tenant: &'a Tenant,
    begin: Instant,
    within: Duration,
}

impl Call<'_> {
    /// Returns the error for a failed system call.
    fn io(&self, why: impl std::fmt::Display) -> ControlError {
        ControlError::Io {
            tenant: self.tenant.clone(),
            why: why.to_string(),
        }
    }

    /// Returns the time until the deadline.
    ///
    /// # Errors [`ControlError::Timeout`] if the deadline has passed.
    fn time_left(&self) -> Result<Duration, ControlError> {
        let left = self.within.saturating_sub(self.begin.elapsed());
        if left.is_zero() {
            return Err(ControlError::Timeout {
                tenant: self.tenant.clone(),
                waited_ms: Millis::from(self.within).0,
            });
        }
        Ok(left)
    }

    /// Connects to the first manager that we trust.
    fn connect(&self) -> Result<(UnixStream, Peer), ControlError> {
        let name = self.tenant.socket_name();
        let mut impostor = None;
        for dir in socket::trusted_directories() {
            let Some(stream) = self.connect_in(&dir, &name)? else {
                continue;
            };
            let peer = Peer::of(&stream).map_err(|error| self.io(error))?;
            // Only the directory's user can make a socket there, and root does not change its
            // owner.
            if peer.uid == dir.owner() && peer.is_in_our_pid_namespace() {
                return Ok((stream, peer));
            }
            impostor = impostor.or(Some(peer.uid));
        }
        let tenant = self.tenant.clone();
        Err(match impostor {
            Some(owner) => ControlError::Impostor { tenant, owner },
            None => ControlError::NotManaged { tenant },
        })
    }

    /// Connects before the deadline. If the socket's backlog is full, as it is while the manager is
    /// stopped (SIGSTOP), waits for space in it. Returns `None` if no manager listens.
    fn connect_in(&self, dir: &PrivateDir, name: &str) -> Result<Option<UnixStream>, ControlError> {
        loop {
            let within = self.within.saturating_sub(self.begin.elapsed());
            match socket::connect(dir, name, within) {
                Ok(stream) => {
                    stream.set_nonblocking(false).map_err(|e| self.io(e))?;
                    return Ok(Some(stream));
                }
                Err(Errno::NOENT | Errno::CONNREFUSED) => return Ok(None),
                // A manager has just created this socket, and has not yet opened it to other users.
                Err(Errno::ACCESS) => return Ok(None),
                Err(Errno::AGAIN | Errno::INTR) => {
                    self.time_left()?;
                }
                Err(error) => return Err(self.io(error)),
            }
        }
    }

    fn send(&self, mut stream: &UnixStream, line: &[u8]) -> Result<(), ControlError> {
        stream
            .set_write_timeout(Some(self.time_left()?))
            .map_err(|e| self.io(e))?;
        match stream.write_all(line) {
            // The manager may have answered (Denied) and closed the connection before it read the
            // request.
            Err(error) if hung_up(&error) => Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.time_left().map(|_| ()),
            sent => sent.map_err(|e| self.io(e)),
        }
    }

    /// Reads the response line up to its newline.
    fn receive(&self, mut stream: &UnixStream) -> Result<Vec<u8>, ControlError> {
        let mut line = Vec::new();
        let mut chunk = vec![0; CHUNK];
        loop {
            stream
                .set_read_timeout(Some(self.time_left()?))
                .map_err(|e| self.io(e))?;
            match stream.read(&mut chunk) {
                Ok(0) => return Err(self.broken("it hung up before it answered")),
                Ok(n) => {
                    let got = &chunk[..n];
                    let end = got.iter().position(|byte| *byte == b'\n');
                    line.extend_from_slice(&got[..end.unwrap_or(n)]);
                    if end.is_some() {
                        return Ok(line);
                    }
                }
                Err(error) => match error.kind() {
                    // The socket's timeout has passed: the next call of `time_left` returns our own
                    // error.
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    _ => return Err(self.io(error)),
                },
            }
            if line.len() > RESPONSE_BYTES_MAX {
                return Err(self.broken("its answer does not end"));
            }
        }
    }

    /// Returns the error for a response that cannot be parsed.
    fn broken(&self, why: &str) -> ControlError {
        ControlError::Protocol {
            tenant: self.tenant.clone(),
            why: why.to_owned(),
        }
    }
}

/// Whether the error means that the other end has closed the connection.
fn hung_up(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
    )
}
