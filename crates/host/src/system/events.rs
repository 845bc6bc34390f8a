//! The kernel's events of processes: forks, execs and exits, from the netlink process connector
//! (`CN_IDX_PROC`, `linux/cn_proc.h`).
//!
//! Invariant: [`Events::drain`] returns the events of each process in the order in which they
//! happened. No event is missing, unless [`Drained::lost`] is set; then the caller must read
//! `/proc` to find out which processes exist.

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

/// Something that happened to a process. Only events of a process's first thread are reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A process was made.
    Fork {
        /// The process that made it; with `CLONE_PARENT`, that process's parent.
        parent: u32,
        /// The new process.
        child: u32,
    },
    /// A process has started to run another program.
    Exec {
        /// The process.
        pid: u32,
    },
    /// The first thread of a process ended. If the process has other threads, the process may live
    /// on.
    Exit {
        /// The process.
        pid: u32,
        /// The exit status, as wait(2) reports it.
        status: u32,
    },
    /// A process changed its user.
    Uid {
        /// The process.
        pid: u32,
        /// Real user of the process now.
        uid: u32,
        /// Effective user of the process now.
        euid: u32,
    },
    /// A process began a session.
    Session {
        /// The process.
        pid: u32,
    },
    /// A process changed its name.
    Comm {
        /// The process.
        pid: u32,
        /// The new name, up to the first 0 byte.
        comm: [u8; 16],
    },
}

/// The events since the last call of [`Events::drain`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Drained {
    /// The events, in the order in which the kernel sent them.
    pub events: Vec<Event>,
    /// Whether the kernel dropped events since the last call.
    pub lost: bool,
}

/// Size in bytes of the kernel's buffer for events that we have not read yet: room for about 20,000
/// events.
const BUFFER_BYTES: usize = 16 << 20;
/// Largest number of datagrams that one call reads. Without a bound, a storm of forks could keep
/// the call busy forever.
const DATAGRAMS_MAX: usize = 1 << 20;

/// A subscription to the events of all processes.
#[derive(Debug)]
pub struct Events {
    socket: OwnedFd,
    /// The number of the last event of each CPU. If the next number is missing, the kernel could
    /// not even queue that event.
    counts: HashMap<u32, u32>,
}

impl Events {
    /// Subscribes to the events. Needs the initial user, pid and network namespaces, and before
    /// Linux 6.6 `CAP_NET_ADMIN`.
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
        // The first call needs CAP_NET_ADMIN and ignores the system's limit; the second one obeys
        // the limit. With a smaller buffer, more events are lost.
        if set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES).is_err() {
            let _ = set_socket_recv_buffer_size(&socket, BUFFER_BYTES);
        }
        let events = Events {
            socket,
            counts: HashMap::new(),
        };
        events.subscribe()?;
        Ok(events)
    }

    /// Sends the subscription, and waits for the kernel's reply. Outside of the initial namespaces
    /// the kernel does not reply.
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
            // If a signal interrupts the wait, it is only shorter.
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

    /// Returns all events since the last call, without waiting for any.
    pub fn drain(&mut self) -> Drained {
        let mut drained = Drained::default();
        let mut buffer = [MaybeUninit::uninit(); 4096];
        for _ in 0..DATAGRAMS_MAX {
            let datagram = match self.receive(&mut buffer) {
                Ok((datagram, true)) => datagram,
                // A message from another process is skipped.
                Ok((_, false)) | Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => break,
                Err(Errno::NOBUFS) => {
                    drained.lost = true;
                    // Events that are still queued are valid. Their numbers do not continue those
                    // before the loss, which must not count as another loss.
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

    /// Stores the number of a message; returns whether the number before it is missing.
    fn count(&mut self, message: &Message) -> bool {
        let (cpu, count) = match *message {
            // A reply without a CPU (older kernels) has no number to check.
            Message::Answer { cpu, .. } if cpu == u32::MAX => return false,
            Message::Answer { cpu, count, .. } | Message::Counted { cpu, count, .. } => {
                (cpu, count)
            }
        };
        let before = self.counts.insert(cpu, count);
        before.is_some_and(|before| before.wrapping_add(1) != count)
    }

    /// Returns one datagram, and whether the kernel sent it (and not another process).
    fn receive<'b>(&self, buffer: &'b mut [MaybeUninit<u8>]) -> Result<(&'b [u8], bool), Errno> {
        let ((datagram, _), _, from) = recvfrom(&self.socket, buffer, RecvFlags::empty())?;
        let from = from.and_then(|from| SocketAddrNetlink::try_from(from).ok());
        Ok((datagram, from.is_some_and(|from| from.pid() == 0)))
    }
}

/// The descriptor is readable if there are events to read.
impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // Kernels before 6.6 count the subscriptions, not the open sockets: without this message
        // the kernel would continue to make events.
        let message = control(IGNORE, std::process::id());
        let kernel = SocketAddrNetlink::new(0, 0);
        let _ = sendto(&self.socket, &message, SendFlags::empty(), &kernel);
    }
}

/// Returns the kernel's reply to a subscription as a result. `error`: an errno, or 0.
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

/// Returns the error for an operation that failed, with a hint that fits the errno.
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
