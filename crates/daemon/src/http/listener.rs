//! The sockets on which the HTTP server accepts clients.
//!
//! Invariant: a unix socket is open to its owner alone, by its mode and by the kernel's credentials
//! of each peer. An existing path is replaced only if it is a socket on which no process listens.
//! Our socket file is removed when this value is dropped.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};

use super::address::Address;
use super::answer::{Answer, Status};
use super::client::Client;
use super::door::PeerChecker;
use super::gate::Gate;
use super::stream::Stream;
use super::token::Token;
use crate::error::Error;

/// Most connections that wait in the kernel until the server accepts them: as many as for the
/// standard library's listeners.
const BACKLOG: i32 = 128;

/// A listening socket at one address.
#[derive(Debug)]
pub(super) struct Listener {
    socket: Socket,
    gate: Arc<Gate>,
    owner: u32,
}

#[derive(Debug)]
enum Socket {
    Unix {
        listener: UnixListener,
        path: OwnPath,
        door: PeerChecker,
    },
    Tcp {
        listener: TcpListener,
        at: SocketAddr,
    },
}

/// The path of our socket file. The path is ours as long as it leads to the same inode.
#[derive(Debug)]
struct OwnPath {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Drop for OwnPath {
    fn drop(&mut self) {
        if let Ok(meta) = std::fs::symlink_metadata(&self.path)
            && (meta.dev(), meta.ino()) == (self.device, self.inode)
        {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Listener {
    /// Listens on an address. For a TCP address there must be a token.
    pub(super) fn bind(address: &Address, token: Option<&Token>) -> Result<Listener, Error> {
        let owner = rustix::process::geteuid().as_raw();
        let (socket, gate) = match address {
            Address::Unix(path) => (
                bind_unix(path, owner).map_err(|error| cannot(address, &error))?,
                Gate::Unix,
            ),
            Address::Tcp(at) => {
                let Some(token) = token else {
                    return Err(Error::failed(
                        format!("cannot listen on {address} without a token"),
                        "give one with --token-file",
                    ));
                };
                let bound = bind_tcp(at).and_then(|listener| {
                    listener.set_nonblocking(true)?;
                    let at = listener.local_addr()?;
                    Ok((Socket::Tcp { listener, at }, Gate::tcp(at, token.clone())?))
                });
                bound.map_err(|error| cannot(address, &error))?
            }
        };
        Ok(Listener {
            socket,
            gate: Arc::new(gate),
            owner,
        })
    }

    /// Returns the address it listens on; for port 0, with the port that the kernel chose.
    pub(super) fn address(&self) -> Address {
        match &self.socket {
            Socket::Unix { path, .. } => Address::Unix(path.path.clone()),
            Socket::Tcp { at, .. } => Address::Tcp(*at),
        }
    }

    /// Accepts the next client.
    pub(super) fn accept(&self, now: Instant) -> io::Result<Client> {
        let gate = Arc::clone(&self.gate);
        match &self.socket {
            Socket::Tcp { listener, .. } => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                // The kernel need not collect small writes into larger packets, because a response
                // is written in one piece.
                let _ = stream.set_nodelay(true);
                Ok(Client::new(Stream::Tcp(stream), gate, now))
            }
            Socket::Unix { listener, door, .. } => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                let may_ask = door.allows(&stream)?;
                let stream = Stream::Unix(stream);
                if may_ask {
                    return Ok(Client::new(stream, gate, now));
                }
                let why = format!(
                    "only root (with CAP_SYS_PTRACE) and the user {} may connect here",
                    self.owner
                );
                let answer = Answer::line(Status::Forbidden, &why);
                Ok(Client::refused(stream, gate, &answer, now))
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Unix { listener, .. } => listener.as_fd(),
            Socket::Tcp { listener, .. } => listener.as_fd(),
        }
    }
}

/// Returns the error for an address on which we cannot listen.
fn cannot(address: &Address, error: &io::Error) -> Error {
    let hint = match error.kind() {
        ErrorKind::AddrInUse => "another process listens there: give another address with --listen",
        ErrorKind::PermissionDenied => "give an address that you may listen on with --listen",
        _ => "give another address with --listen",
    };
    Error::failed(format!("cannot listen on {address}: {error}"), hint)
}

/// Binds a TCP listener, also to an address that no interface has yet, since at boot the service
/// starts before the network. It accepts clients as soon as an interface has the address.
fn bind_tcp(at: &SocketAddr) -> io::Result<TcpListener> {
    match TcpListener::bind(at) {
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => bind_free(at),
        bound => bound,
    }
}

fn bind_free(at: &SocketAddr) -> io::Result<TcpListener> {
    let family = match at {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    match at {
        SocketAddr::V4(_) => sockopt::set_ip_freebind(&socket, true)?,
        SocketAddr::V6(_) => sockopt::set_ipv6_freebind(&socket, true)?,
    }
    bind(&socket, at)?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

fn bind_unix(path: &Path, owner: u32) -> io::Result<Socket> {
    let path = std::path::absolute(path)?;
    if let Some(above) = path.parent() {
        std::fs::create_dir_all(above)?;
    }
    let listener = match UnixListener::bind(&path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse && is_abandoned(&path) => {
            std::fs::remove_file(&path)?;
            UnixListener::bind(&path)?
        }
        bound => bound?,
    };
    listener.set_nonblocking(true)?;
    let meta = std::fs::symlink_metadata(&path)?;
    let path = OwnPath {
        path,
        device: meta.dev(),
        inode: meta.ino(),
    };
    // The file's mode keeps other users out from here on; until here only the check of each peer
    // did.
    std::fs::set_permissions(&path.path, std::fs::Permissions::from_mode(0o600))?;
    let door = PeerChecker::open(owner)?;
    Ok(Socket::Unix {
        listener,
        path,
        door,
    })
}

/// Whether the path is a socket on which no process listens any more.
fn is_abandoned(path: &Path) -> bool {
    let meta = std::fs::symlink_metadata(path);
    if !meta.is_ok_and(|meta| meta.file_type().is_socket()) {
        return false;
    }
    UnixStream::connect(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_an_interface_can_be_bound() {
        // This address is in TEST-NET-1 (RFC 5737), so no interface of this machine has it.
        let at: SocketAddr = "192.0.2.1:0".parse().expect("an address");
        let listener = bind_tcp(&at).expect("taken all the same");
        assert_eq!(listener.local_addr().expect("ours").ip(), at.ip());
    }

    #[test]
    fn only_an_abandoned_socket_is_replaced() {
        let path = std::env::temp_dir().join(format!("pagetide-listener-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let bind = || Listener::bind(&Address::Unix(path.clone()), None);
        let first = bind().expect("free");
        let mode = std::fs::metadata(&path)
            .expect("there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        let error = bind().expect_err("somebody listens there");
        assert!(error.hint().contains("another process listens"), "{error}");
        drop(first);
        assert!(!path.exists(), "it goes with its listener");
        // A socket as a killed manager leaves it.
        drop(UnixListener::bind(&path).expect("free"));
        let second = bind().expect("nobody listens there");
        std::fs::remove_file(&path).expect("ours");
        std::fs::write(&path, "a file").expect("written");
        drop(second);
        assert!(path.is_file(), "that is not ours to remove");
        assert!(bind().is_err(), "nor to replace");
        std::fs::remove_file(path).expect("ours");
    }
}
