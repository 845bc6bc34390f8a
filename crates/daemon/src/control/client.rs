//! The commands' end: one question, one answer, in bounded time.
//!
//! Invariant: [`ask`] returns within its timeout whatever the other side does, reads at most
//! [`RESPONSE_BYTES_MAX`] bytes, and believes only root, its own user, and the target's user when
//! asked by root, and of these who is in our pid namespace.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::peer::Peer;
use super::protocol::{RESPONSE_BYTES_MAX, Request, Response};
use super::{ControlError, Tenant};
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
    let stream = call.connect()?;
    call.check_peer(&stream, tenant.pid())?;
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

/// Who manages a tenant: the pid of the process at the other end of its socket (0 if that is in
/// another pid namespace); none if nobody listens. Does not depend on the manager answering.
///
/// # Errors
/// [`ControlError::Io`], [`ControlError::Timeout`].
pub fn manager_of(tenant: &Tenant) -> Result<Option<u32>, ControlError> {
    let call = Call {
        tenant,
        begin: Instant::now(),
        within: Duration::from_millis(500),
    };
    let stream = match call.connect() {
        Ok(stream) => stream,
        Err(ControlError::NotManaged { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(Peer::of(&stream).map_err(|e| call.io(e))?.pid))
}

/// Whether a manager that we would believe listens for a tenant: it is not asked anything.
pub(super) fn is_managed(tenant: &Tenant) -> bool {
    tenant.pid().is_some_and(|pid| speaks_for(tenant, pid))
}

/// Whether we would believe who listens for a tenant if he said something of this process. Nobody is waited for: anybody can
/// make any number of sockets that never answer.
pub(super) fn speaks_for(tenant: &Tenant, pid: u32) -> bool {
    let call = Call {
        tenant,
        begin: Instant::now(),
        within: Duration::ZERO,
    };
    let stream = call.connect();
    stream.is_ok_and(|stream| call.check_peer(&stream, Some(pid)).is_ok())
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

    /// Connects without ever waiting in the kernel: a full backlog (a stopped manager) is EAGAIN.
    fn connect(&self) -> Result<UnixStream, ControlError> {
        let name = self.tenant.socket_name();
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(|e| self.io(e))?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(|e| self.io(e))?;
        loop {
            match rustix::net::connect(&socket, &address) {
                Ok(()) => break,
                Err(Errno::CONNREFUSED) => {
                    return Err(ControlError::NotManaged {
                        tenant: self.tenant.clone(),
                    });
                }
                Err(Errno::AGAIN | Errno::INTR) => {
                    let pause = self.left()?.min(Duration::from_millis(5));
                    std::thread::sleep(pause);
                }
                Err(error) => return Err(self.io(error)),
            }
        }
        let stream = UnixStream::from(socket);
        stream.set_nonblocking(false).map_err(|e| self.io(e))?;
        Ok(stream)
    }

    /// Abstract names can be taken by anybody: do not believe what a stranger says of a process.
    fn check_peer(&self, stream: &UnixStream, pid: Option<u32>) -> Result<(), ControlError> {
        let peer = Peer::of(stream).map_err(|e| self.io(e))?;
        let owner = peer.uid;
        let me = rustix::process::geteuid().as_raw();
        let target = || {
            let dir = format!("/proc/{}", pid?);
            std::fs::metadata(dir).ok().map(|meta| meta.uid())
        };
        let trusted = owner == 0 || owner == me || (me == 0 && target() == Some(owner));
        if trusted && peer.is_near() {
            Ok(())
        } else {
            Err(ControlError::Impostor {
                tenant: self.tenant.clone(),
                owner,
            })
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
