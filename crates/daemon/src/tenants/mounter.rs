//! A mount that another process makes. The `serve` of the package's unit may not mount, and no
//! process outside its own mount namespace would see its mounts.
//!
//! Invariant: the mounting process ([`main`], with all of root's privileges, started by systemd)
//! reads no byte of a tenant and serves nothing. It sends one descriptor of `/dev/fuse` over a
//! socket that only root may use, and ends. Neither process waits for the other for longer than
//! `LIMIT`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::mount::{Mounted, adopt, check_mount_point};
use super::request_queue::RequestQueue;
use crate::control::Peer;
use crate::error::Error;

/// First argument of the process that mounts; the paths of the socket and of the directory follow.
pub const WORD: &str = "__mount";
/// Longest wait for the other process to send or to receive the descriptor.
const LIMIT: Duration = Duration::from_secs(5);
/// Message from `serve` to the mounting process once `serve` serves the mount.
const SERVED: &[u8] = b"+";

/// The socket at which `serve` waits for the mount.
pub(super) struct Mounter {
    listener: UnixListener,
    /// Path of the socket; it is removed when this value is dropped.
    socket: PathBuf,
    at: PathBuf,
    /// The queue for the mount's requests; `None` once the tree is mounted.
    request_queue: Option<RequestQueue>,
}

impl Mounter {
    /// Listens on the path `socket` for the process that mounts the directory `at`.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub(super) fn listen(
        socket: &Path,
        at: &Path,
        request_queue: RequestQueue,
    ) -> Result<Mounter, Error> {
        // Removes the socket of a manager that was killed.
        let _ = std::fs::remove_file(socket);
        let bound = UnixListener::bind(socket)
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
        let listener = bound.map_err(|error| {
            let what = format!("cannot wait for a mount at {}: {error}", socket.display());
            Error::failed(what, "give another --mount-socket")
        })?;
        Ok(Mounter {
            listener,
            socket: socket.to_owned(),
            at: at.to_owned(),
            request_queue: Some(request_queue),
        })
    }

    /// Returns the listening socket, which is readable when the mounting process has connected.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Returns the mount that has arrived, or why it cannot be used; `None` if none has arrived.
    pub(super) fn take(&mut self) -> Option<Result<Mounted, Error>> {
        let (stream, _) = self.listener.accept().ok()?;
        let is_root = Peer::of(&stream).is_ok_and(|peer| peer.may_ask(0));
        let request_queue = self.request_queue.take_if(|_| is_root)?;
        let fuse = stream
            .set_nonblocking(false)
            .and_then(|()| stream.set_read_timeout(Some(LIMIT)))
            .and_then(|()| receive(&stream));
        let mounted = match fuse {
            Ok(fuse) => adopt(&self.at, fuse, request_queue),
            Err(error) => {
                self.request_queue = Some(request_queue);
                let what = format!("a mount of {} did not come: {error}", self.at.display());
                Err(Error::failed(what, "start the service again"))
            }
        };
        if mounted.is_ok() {
            // Without this message the mounting process removes its mount.
            let _ = (&stream).write_all(SERVED);
        }
        Some(mounted)
    }
}

impl Drop for Mounter {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
    }
}

fn send(stream: &UnixStream, fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [fd];
    control.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(
        stream,
        &[IoSlice::new(SERVED)],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

fn receive(stream: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut bytes = [IoSliceMut::new(&mut byte)];
    recvmsg(stream, &mut bytes, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut fds = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let fd = fds.next().and_then(|mut fds| fds.next());
    fd.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// Mounts the tree of the `serve` that listens on a socket, and ends; returns the exit code.
#[must_use]
pub fn main(args: &[OsString]) -> u8 {
    let [socket, at] = args else { return 2 };
    match mount_for(Path::new(socket), Path::new(at)) {
        Ok(()) => 0,
        Err(error) => {
            let _ = writeln!(io::stderr(), "pagetide: {error}; {}", error.hint());
            1
        }
    }
}

fn mount_for(socket: &Path, at: &Path) -> Result<(), Error> {
    check_mount_point(at)?;
    mount_and_send(socket, at).map_err(|error| {
        let what = format!("cannot mount the tenants at {}: {error}", at.display());
        Error::failed(what, "does `pagetide serve` run with --mount-socket?")
    })
}

fn mount_and_send(socket: &Path, at: &Path) -> io::Result<()> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let fuse = File::options().read(true).write(true).open("/dev/fuse")?;
    let options = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,default_permissions\0",
        fuse.as_raw_fd()
    );
    let options = std::ffi::CStr::from_bytes_with_nul(options.as_bytes());
    let flags = MountFlags::NODEV | MountFlags::NOSUID | MountFlags::NOEXEC;
    mount(
        "pagetide",
        at,
        "fuse",
        flags,
        options.map_err(io::Error::other)?,
    )?;
    let mut reply = [0; SERVED.len()];
    let served = send(&stream, fuse.as_fd()).and_then(|()| (&stream).read_exact(&mut reply));
    if served.is_err() {
        let _ = unmount(at, UnmountFlags::DETACH);
    }
    served
}
