//! The socket files on which managers listen: one for each manager, in a directory of the manager's
//! user.
//!
//! Invariant: only root and the directory's user can create a socket in it. So another user can
//! neither take a manager's name nor accept connections in the manager's place. A socket on which
//! no process listens any more (its manager was killed) manages nothing, and the next manager
//! removes it.

use std::fs::Permissions;
use std::io::{Error, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use host::system::private_dir::{PrivateDir, effective_user, existing, make};
use rustix::fs::{AtFlags, FileType, FlockOperation, OFlags, flock, statat, unlinkat};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, listen};

use super::Tenant;

/// Name of the directory of sockets, within pagetide's own directory.
const DIRECTORY: &str = "control";
/// Name of the lock file that is locked while a name is taken or released.
const LOCK: &str = ".lock";
/// Longest wait for [`LOCK`], which a process keeps for a few system calls only.
const LOCKED_MAX: Duration = Duration::from_secs(2);
/// Backlog of a manager's socket. During a flood of connections, a new client waits until this many
/// others, and the clients that called [`connect`] before it, are served.
const BACKLOG: i32 = 64;
/// Time between two tries to take [`LOCK`].
const RETRY_PAUSE: Duration = Duration::from_millis(2);

/// Returns the directories of the users that this process trusts as managers: root, and its own
/// user.
pub(super) fn trusted_directories() -> Vec<PrivateDir> {
    let user = effective_user();
    let own = (user != 0).then_some(user);
    let users = std::iter::once(0).chain(own);
    users.flat_map(|user| existing(user, DIRECTORY)).collect()
}

/// Returns the tenants that have a socket in the directory, whether or not a process still listens
/// on it.
pub(super) fn tenants(dir: &PrivateDir) -> Vec<Tenant> {
    let names = dir.names().unwrap_or_default();
    names
        .iter()
        .filter_map(|name| Tenant::of_socket_name(name))
        .collect()
}

/// Connects, and waits at most `within` if the backlog is full. The kernel serves waiting clients
/// in their order; a client that only retries without waiting may never connect during a flood.
///
/// # Errors
/// The kernel's: ENOENT or ECONNREFUSED if nothing listens, EAGAIN if the backlog is full.
pub(super) fn connect(dir: &PrivateDir, name: &str, within: Duration) -> Result<UnixStream, Errno> {
    // Connects to the file that was checked, also if another file takes its name meanwhile.
    let (file, _) = dir.open(name, FileType::Socket, OFlags::PATH)?;
    let address = SocketAddrUnix::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    // SO_SNDTIMEO 0 means no timeout to the kernel.
    let at_once = match within.is_zero() {
        true => SocketFlags::NONBLOCK,
        false => SocketFlags::empty(),
    };
    let flags = SocketFlags::CLOEXEC | at_once;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    set_socket_timeout(
        &socket,
        Timeout::Send,
        (!within.is_zero()).then_some(within),
    )?;
    rustix::net::connect(&socket, &address)?;
    Ok(socket.into())
}

/// A listening socket and its name. Dropping the value closes the socket and releases the name.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) listener: UnixListener,
    dir: PrivateDir,
    name: String,
    inode: u64,
}

/// Why a name could not be taken.
#[derive(Debug)]
pub(super) enum NotBound {
    /// A manager listens on the socket with this name.
    Taken,
    /// No socket can be made, for this reason.
    Unavailable(String),
}

impl From<Error> for NotBound {
    fn from(error: Error) -> NotBound {
        NotBound::Unavailable(error.to_string())
    }
}

/// Creates the socket with this name and listens.
///
/// # Errors
/// [`NotBound`].
pub(super) fn bind(name: &str) -> Result<Bound, NotBound> {
    let dir = make(DIRECTORY).map_err(|refused| {
        let all: Vec<String> = refused.iter().map(ToString::to_string).collect();
        NotBound::Unavailable(format!("no directory for its socket ({})", all.join("; ")))
    })?;
    let _lock = Lock::take(&dir)?;
    remove_dead(&dir);
    match connect(&dir, name, Duration::ZERO) {
        Ok(_) | Err(Errno::AGAIN) => return Err(NotBound::Taken),
        Err(Errno::CONNREFUSED) => remove(&dir, name),
        Err(_) => {}
    }
    let path = dir.path().join(name);
    let listener = UnixListener::bind(&path)?;
    listener.set_nonblocking(true)?;
    listen(&listener, BACKLOG).map_err(Error::from)?;
    // Every user may connect to root's manager, which then names its user; other directories are
    // closed to other users.
    let mode = if dir.owner() == 0 { 0o666 } else { 0o600 };
    std::fs::set_permissions(&path, Permissions::from_mode(mode))?;
    let inode = inode(&dir, name).ok_or(ErrorKind::NotFound);
    let inode = inode.map_err(Error::from)?;
    let name = name.to_owned();
    Ok(Bound {
        listener,
        dir,
        name,
        inode,
    })
}

/// Returns the inode of the file with this name; `None` if there is none.
fn inode(dir: &PrivateDir, name: &str) -> Option<u64> {
    let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
    stat.ok().map(|stat| stat.st_ino)
}

fn remove(dir: &PrivateDir, name: &str) {
    let _ = unlinkat(dir, name, AtFlags::empty());
}

/// Removes the sockets of managers that were killed. If a socket is named after a living process,
/// does not test whether a manager listens on it, because the test would be a connection, and each
/// connection wakes a manager.
fn remove_dead(dir: &PrivateDir) {
    let may_be_dead = |tenant: &Tenant| {
        let pid = tenant.pid();
        pid.is_none_or(|pid| !Path::new(&format!("/proc/{pid}")).exists())
    };
    for tenant in tenants(dir).iter().filter(|one| may_be_dead(one)) {
        let name = tenant.socket_name();
        if connect(dir, &name, Duration::ZERO).is_err_and(|errno| errno == Errno::CONNREFUSED) {
            remove(dir, &name);
        }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // Without the lock another manager may be about to take the name: it removes the file.
        let Ok(_lock) = Lock::take(&self.dir) else {
            return;
        };
        if inode(&self.dir, &self.name) == Some(self.inode) {
            remove(&self.dir, &self.name);
        }
    }
}

/// The directory's lock, until the value is dropped.
struct Lock(OwnedFd);

impl Lock {
    fn take(dir: &PrivateDir) -> Result<Lock, Error> {
        let end = Instant::now() + LOCKED_MAX;
        let flags = OFlags::RDWR | OFlags::CREATE;
        let (file, _) = dir.open(LOCK, FileType::RegularFile, flags)?;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Lock(file)),
                Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < end => {
                    std::thread::sleep(RETRY_PAUSE);
                }
                Err(Errno::WOULDBLOCK) => {
                    let path = dir.path().join(LOCK);
                    let why = format!("a pagetide that is stopped holds {}", path.display());
                    return Err(Error::new(ErrorKind::TimedOut, why));
                }
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Unlock explicitly: a child that another thread has just forked has the file open, too,
        // until execve(2).
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}
