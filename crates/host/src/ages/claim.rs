//! Who clears a process's accessed bits: one pagetide at a time.
//!
//! Invariant: two that clear the same bits would each take what the other looks for, and leave no trace of
//! it; so the second one does not clear, and knows no ages. (The story: of two reports of one program, half a
//! second apart, one called 70 MiB older than 5 s that were touched every 4 s.)
//!
//! A claim is the name of an abstract Unix socket: it ends with whoever holds it, however that ends, and
//! leaves nothing behind. It is seen within a network namespace. Whoever takes a name without being a
//! pagetide makes ages unknown, and cannot make them wrong.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};

use crate::system::Identity;

/// What trying to claim a process gave.
#[derive(Debug)]
pub(super) enum Claim {
    /// It is ours.
    Ours(#[expect(dead_code, reason = "held for its name")] OwnedFd),
    /// Somebody else's.
    Others,
    /// There are no such sockets here: nothing is known of others.
    Unknown,
}

impl Claim {
    /// Claims a process.
    pub(super) fn take(identity: Identity) -> Claim {
        let flags = SocketFlags::CLOEXEC;
        let Ok(socket) = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None) else {
            return Claim::Unknown;
        };
        let name = format!("pagetide-ages-{}-{}", identity.pid, identity.started);
        let Ok(address) = SocketAddrUnix::new_abstract_name(name.as_bytes()) else {
            return Claim::Unknown;
        };
        match bind(&socket, &address) {
            Ok(()) => Claim::Ours(socket),
            Err(Errno::ADDRINUSE) => Claim::Others,
            Err(_) => Claim::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let somebody = Identity {
            pid: 4_194_400,
            started: u64::from(std::process::id()),
        };
        let first = Claim::take(somebody);
        assert!(matches!(first, Claim::Ours(_)));
        assert!(matches!(Claim::take(somebody), Claim::Others));
        drop(first);
        assert!(matches!(Claim::take(somebody), Claim::Ours(_)));
    }
}
