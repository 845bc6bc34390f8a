//! The files that managers listen on: one for each manager, in a directory of the manager's user.
//!
//! Invariant: only root and the directory's user can put a socket there, so another user can
//! neither take a manager's name nor be connected to in its place. A socket that nothing listens on
//! any more (its manager was killed) manages nothing, and the next manager removes it.

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

/// The directory of sockets, in the one that is pagetide's.
const DIRECTORY: &str = "control";
/// Held while a name is taken or given back.
const LOCK: &str = ".lock";
/// Longest wait for that: it is held for some system calls.
const LOCKED_MAX: Duration = Duration::from_secs(2);
/// Connections that the kernel keeps for a manager: in a flood a client waits for so many others,
/// and for those that were in [`connect`] before it.
const BACKLOG: i32 = 64;
/// Between two tries.
const AGAIN: Duration = Duration::from_millis(2);

/// The directories of the users whose managers this process believes: root, and its own user.
pub(super) fn believed() -> Vec<PrivateDir> {
    let user = effective_user();
    let own = (user != 0).then_some(user);
    let users = std::iter::once(0).chain(own);
    users.flat_map(|user| existing(user, DIRECTORY)).collect()
}

/// The tenants that have a socket there, whether or not something still listens.
pub(super) fn tenants(dir: &PrivateDir) -> Vec<Tenant> {
    let names = dir.names().unwrap_or_default();
    names
        .iter()
        .filter_map(|name| Tenant::of_socket_name(name))
        .collect()
}

/// Connects, waiting at most `within` where the backlog is full. Those that wait come in turn: who
/// tries again and again instead is never let in beside a flood of others.
///
/// # Errors
/// The kernel's: ENOENT or ECONNREFUSED where nothing listens, EAGAIN where the backlog is full.
pub(super) fn connect(dir: &PrivateDir, name: &str, within: Duration) -> Result<UnixStream, Errno> {
    // What is connected to is what was checked, whatever takes its place meanwhile.
    let (file, _) = dir.open(name, FileType::Socket, OFlags::PATH)?;
    let address = SocketAddrUnix::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    // No time is no limit to the kernel.
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

/// A name that is taken, until the value is dropped.
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
    /// A manager listens there.
    Taken,
    /// No socket can be made: the reason.
    Unavailable(String),
}

impl From<Error> for NotBound {
    fn from(error: Error) -> NotBound {
        NotBound::Unavailable(error.to_string())
    }
}

/// Takes a name.
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
    // Everybody may connect to root's, and is told whose it is; nobody else gets as far as others'.
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

fn inode(dir: &PrivateDir, name: &str) -> Option<u64> {
    let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
    stat.ok().map(|stat| stat.st_ino)
}

fn remove(dir: &PrivateDir, name: &str) {
    let _ = unlinkat(dir, name, AtFlags::empty());
}

/// Removes sockets of managers that were killed. A manager is not connected to for that as long as
/// the process lives that it is named after: each connection wakes it.
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
                    std::thread::sleep(AGAIN);
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
        // A child that another thread has just forked holds the file, too, until it calls execve(2).
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}
