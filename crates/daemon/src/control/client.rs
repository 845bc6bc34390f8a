//! The commands' end: one question, one answer, in bounded time.
//!
//! Invariant: [`ask`] returns within its timeout whatever the other side does, reads at most
//! [`RESPONSE_BYTES_MAX`] bytes, and believes only managers of root and of its own user, in our pid
//! namespace. (The story: root believed what a program said as its own manager: "put out 17.2 MiB".)

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use host::system::private_dir::PrivateDir;
use rustix::io::Errno;

use super::peer::Peer;
use super::protocol::{RESPONSE_BYTES_MAX, Request, Response};
use super::{ControlError, Tenant, socket};
use crate::options::Millis;

/// Bytes that are read at a time: the counters of some hundred tenants.
const CHUNK: usize = 64 << 10;

/// Asks the manager of a tenant, waiting at most `within`.
///
/// # Errors
/// [`ControlError`]; a [`Response::Error`] comes as [`ControlError::Refused`].
pub fn ask(tenant: &Tenant, request: &Request, within: Duration) -> Result<Response, ControlError> {
    let call = Call {
        tenant,
        begin: Instant::now(),
        within,
    };
    let (stream, _) = call.connect()?;
    call.send(&stream, &request.line())?;
    let line = call.receive(&stream).map_err(|error| match error {
        // (The story: of two `reclaim` at once the second was told to use a pagetide of the same version.)
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

/// Who manages a tenant: the pid of the process at the other end of its socket; none if no manager
/// that we believe listens. Does not depend on the manager answering.
///
/// # Errors
/// [`ControlError::Io`], [`ControlError::Timeout`].
pub fn manager_of(tenant: &Tenant) -> Result<Option<u32>, ControlError> {
    manager_within(tenant, Duration::from_millis(500))
}

/// The same without waiting for a manager whose backlog is full.
pub(super) fn is_managed(tenant: &Tenant) -> bool {
    match manager_within(tenant, Duration::ZERO) {
        Ok(found) => found.is_some(),
        // It listens, and has as many clients as it can have.
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
        // What we do not believe manages nothing as far as we know.
        Err(ControlError::NotManaged { .. } | ControlError::Impostor { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// One question and its deadline.
struct Call<'a> {
    tenant: &'a Tenant,
    begin: Instant,
    within: Duration,
}

impl Call<'_> {
    fn io(&self, why: impl std::fmt::Display) -> ControlError {
        ControlError::Io {
            tenant: self.tenant.clone(),
            why: why.to_string(),
        }
    }

    /// What is left of the time.
    fn left(&self) -> Result<Duration, ControlError> {
        let left = self.within.saturating_sub(self.begin.elapsed());
        if left.is_zero() {
            return Err(ControlError::Timeout {
                tenant: self.tenant.clone(),
                waited_ms: Millis::from(self.within).0,
            });
        }
        Ok(left)
    }

    /// Connects to the first manager that we believe.
    fn connect(&self) -> Result<(UnixStream, Peer), ControlError> {
        let name = self.tenant.socket_name();
        let mut impostor = None;
        for dir in socket::believed() {
            let Some(stream) = self.connect_in(&dir, &name)? else {
                continue;
            };
            let peer = Peer::of(&stream).map_err(|error| self.io(error))?;
            // Only the directory's user can make a socket there, and root gives it no other owner.
            if peer.uid == dir.owner() && peer.is_near() {
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

    /// Waits no longer than is left: the backlog of a stopped manager is full.
    fn connect_in(&self, dir: &PrivateDir, name: &str) -> Result<Option<UnixStream>, ControlError> {
        loop {
            let within = self.within.saturating_sub(self.begin.elapsed());
            match socket::connect(dir, name, within) {
                Ok(stream) => {
                    stream.set_nonblocking(false).map_err(|e| self.io(e))?;
                    return Ok(Some(stream));
                }
                Err(Errno::NOENT | Errno::CONNREFUSED) => return Ok(None),
                // For a moment it is its owner's alone.
                Err(Errno::ACCESS) => return Ok(None),
                Err(Errno::AGAIN | Errno::INTR) => {
                    self.left()?;
                }
                Err(error) => return Err(self.io(error)),
            }
        }
    }

    fn send(&self, mut stream: &UnixStream, line: &[u8]) -> Result<(), ControlError> {
        stream
            .set_write_timeout(Some(self.left()?))
            .map_err(|e| self.io(e))?;
        match stream.write_all(line) {
            // It may have answered (Denied) and closed before it read the question.
            Err(error) if hung_up(&error) => Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.left().map(|_| ()),
            sent => sent.map_err(|e| self.io(e)),
        }
    }

    /// Reads up to the newline.
    fn receive(&self, mut stream: &UnixStream) -> Result<Vec<u8>, ControlError> {
        let mut line = Vec::new();
        let mut chunk = vec![0; CHUNK];
        loop {
            stream
                .set_read_timeout(Some(self.left()?))
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
                    // A timeout of the socket: `left` above turns it into ours.
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    _ => return Err(self.io(error)),
                },
            }
            if line.len() > RESPONSE_BYTES_MAX {
                return Err(self.broken("its answer does not end"));
            }
        }
    }

    fn broken(&self, why: &str) -> ControlError {
        ControlError::Protocol {
            tenant: self.tenant.clone(),
            why: why.to_owned(),
        }
    }
}

fn hung_up(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
    )
}
