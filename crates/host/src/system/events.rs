//! What the kernel tells of processes as it happens: the netlink process connector (`CN_IDX_PROC`,
//! `linux/cn_proc.h`).
//!
//! Invariant: what [`Events::drain`] gives is in the order in which it happened to each process, and
//! complete unless it says that some were lost; then only a look at `/proc` tells what is true.

mod message;

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::netlink::{CONNECTOR, SocketAddrNetlink};
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recvfrom, sendto,
    socket_with,
};

use super::error::Error;
use message::{CN_IDX_PROC, IGNORE, LISTEN, Message, control, parse};

/// Something that happened to a process. Threads are left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A process was made.
    Fork {
        /// Who made it. With `CLONE_PARENT`, whose child it is.
        parent: u32,
        /// The new one.
        child: u32,
    },
    /// A process runs another program now.
    Exec {
        /// Which.
        pid: u32,
    },
    /// The first thread of a process ended. Others may go on, and the process with them.
    Exit {
        /// Which.
        pid: u32,
        /// As wait(2) gives it.
        status: u32,
    },
    /// A process changed its user.
    Uid {
        /// Which.
        pid: u32,
        /// Real user.
        uid: u32,
        /// Effective user.
        euid: u32,
    },
    /// A process began a session.
    Session {
        /// Which.
        pid: u32,
    },
    /// A process changed its name.
    Comm {
        /// Which.
        pid: u32,
        /// Up to the first 0.
        comm: [u8; 16],
    },
}

/// What a reading of events gave.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Drained {
    /// In order.
    pub events: Vec<Event>,
    /// Some are missing among them, or after them.
    pub lost: bool,
}

/// Bytes that the kernel may keep for us between two readings: some 20,000 events.
const ROOM: usize = 16 << 20;
/// Events that one reading takes at most, so that a storm of forks cannot hold us forever.
const AT_ONCE: usize = 1 << 20;

/// A subscription.
#[derive(Debug)]
pub struct Events {
    socket: OwnedFd,
    /// The kernel counts events on each CPU: a gap tells of events that it could not even queue.
    counts: HashMap<u32, u32>,
}

impl Events {
    /// Subscribes. Needs the initial user, pid and network namespaces, and before Linux 6.6 `CAP_NET_ADMIN`.
    ///
    /// # Errors
    /// [`Error::NoEvents`], which says which of these is missing.
    pub fn open() -> Result<Events, Error> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::DGRAM,
            flags,
            Some(CONNECTOR),
        )
        .map_err(|errno| refused("netlink connector socket", errno))?;
        bind(&socket, &SocketAddrNetlink::new(0, CN_IDX_PROC))
            .map_err(|errno| refused("joining the process events", errno))?;
        // Beyond the system's limit if we may, else up to it: less room means more that is lost.
        if set_socket_recv_buffer_size_force(&socket, ROOM).is_err() {
            let _ = set_socket_recv_buffer_size(&socket, ROOM);
        }
        let events = Events {
            socket,
            counts: HashMap::new(),
        };
        events.subscribe()?;
        Ok(events)
    }

    /// Says that we listen, and waits for the kernel's answer: outside of the initial namespaces
    /// it keeps silent.
    fn subscribe(&self) -> Result<(), Error> {
        let number = std::process::id();
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(
            &self.socket,
            &control(LISTEN, number),
            SendFlags::empty(),
            &kernel,
        )
        .map_err(|errno| refused("subscribing to process events", errno))?;
        let until = std::time::Instant::now() + std::time::Duration::from_millis(200);
        while std::time::Instant::now() < until {
            let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
            let wait = Timespec {
                tv_sec: 0,
                tv_nsec: 20_000_000,
            };
            // An interrupted wait is just a shorter one.
            let _ = poll(&mut fds, Some(&wait));
            let mut buffer = [MaybeUninit::uninit(); 4096];
            while let Ok((datagram, _)) = self.receive(&mut buffer) {
                for message in parse(datagram) {
                    if let Message::Answer { to, error, .. } = message
                        && to == number.wrapping_add(1)
                    {
                        return answered(error);
                    }
                }
            }
        }
        Err(Error::NoEvents {
            why: "the kernel does not answer: this is not the initial pid or user namespace"
                .to_owned(),
            hint: "run outside of containers; without events, processes that live shorter than \
                   the interval are not counted",
        })
    }

    /// All that happened since the last call. Does not wait.
    pub fn drain(&mut self) -> Drained {
        let mut drained = Drained::default();
        let mut buffer = [MaybeUninit::uninit(); 4096];
        for _ in 0..AT_ONCE {
            let datagram = match self.receive(&mut buffer) {
                Ok((datagram, true)) => datagram,
                // Only the kernel may tell us.
                Ok((_, false)) | Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => break,
                Err(Errno::NOBUFS) => {
                    drained.lost = true;
                    // What is still queued is true; the gap is known already.
                    self.counts.clear();
                    continue;
                }
                Err(_) => {
                    drained.lost = true;
                    break;
                }
            };
            for message in parse(datagram) {
                drained.lost |= self.count(&message);
                if let Message::Counted { event, .. } = message {
                    drained.events.extend(event);
                }
            }
        }
        drained
    }

    /// Whether a message shows that one before it is missing.
    fn count(&mut self, message: &Message) -> bool {
        let (cpu, count) = match *message {
            // Answers to other listeners take numbers too, but in older kernels, which do not say where.
            Message::Answer { cpu, .. } if cpu == u32::MAX => return false,
            Message::Answer { cpu, count, .. } | Message::Counted { cpu, count, .. } => {
                (cpu, count)
            }
        };
        let before = self.counts.insert(cpu, count);
        before.is_some_and(|before| before.wrapping_add(1) != count)
    }

    /// One datagram, and whether the kernel sent it.
    fn receive<'b>(&self, buffer: &'b mut [MaybeUninit<u8>]) -> Result<(&'b [u8], bool), Errno> {
        let ((datagram, _), _, from) = recvfrom(&self.socket, buffer, RecvFlags::empty())?;
        let from = from.and_then(|from| SocketAddrNetlink::try_from(from).ok());
        Ok((datagram, from.is_some_and(|from| from.pid() == 0)))
    }
}

/// Readable when something happened.
impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // Kernels before 6.6 count listeners by what they say, not by their sockets.
        let message = control(IGNORE, std::process::id());
        let kernel = SocketAddrNetlink::new(0, 0);
        let _ = sendto(&self.socket, &message, SendFlags::empty(), &kernel);
    }
}

fn answered(error: u32) -> Result<(), Error> {
    match i32::try_from(error) {
        Ok(0) => Ok(()),
        Ok(errno) => Err(refused(
            "subscribing to process events",
            Errno::from_raw_os_error(errno),
        )),
        Err(_) => Err(refused("subscribing to process events", Errno::INVAL)),
    }
}

fn refused(what: &str, errno: Errno) -> Error {
    let hint = match errno {
        Errno::PERM | Errno::ACCESS => "run as root, or with CAP_NET_ADMIN",
        Errno::CONNREFUSED => "run in the host's network namespace",
        Errno::PROTONOSUPPORT | Errno::AFNOSUPPORT => {
            "use a kernel with CONFIG_CONNECTOR and CONFIG_PROC_EVENTS"
        }
        _ => "without events, processes that live shorter than the interval are not counted",
    };
    Error::NoEvents {
        why: format!("{what}: {errno}"),
        hint,
    }
}

#[cfg(test)]
mod tests;
