//! Who clears a process's accessed bits: one pagetide at a time.
//!
//! Invariant: two that clear the same bits would each take what the other looks for, and leave no trace of
//! it; so the second one does not clear, and knows no ages. (The story: of two reports of one program, half a
//! second apart, one called 70 MiB older than 5 s that were touched every 4 s.)
//!
//! A claim is the name of an abstract Unix socket: it ends with whoever holds it, however that ends, and
//! leaves nothing behind. It is seen within a network namespace. Whoever takes a name without being a
//! pagetide makes ages unknown, and cannot make them wrong.

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};
use rustix::process::{Resource, getrlimit};

use crate::system::Identity;

/// What trying to claim a process gave.
#[derive(Debug)]
pub(super) enum Claim {
    /// It is ours.
    Ours(#[expect(dead_code, reason = "held for its name")] OwnedFd),
    /// Somebody else's.
    Others,
    /// There are no such sockets here, or we have too few descriptors: nothing is known of others.
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
            Ok(()) if is_among_the_last(&socket) => Claim::Unknown,
            Ok(()) => Claim::Ours(socket),
            Err(Errno::ADDRINUSE) => Claim::Others,
            Err(_) => Claim::Unknown,
        }
    }
}

/// Whether a descriptor is of the upper half of those that this process may have: they are given out from below. A library's caller needs
/// some of his own, and so do we for reading; the limit of a process that only calls us is not ours to raise. (The story: of a
/// thousand processes, with a limit of 1,024, the last could not be read, and the caller could open nothing meanwhile.)
fn is_among_the_last(socket: &OwnedFd) -> bool {
    let number = u64::from(socket.as_raw_fd().unsigned_abs());
    let limit = getrlimit(Resource::Nofile).current;
    limit.is_some_and(|limit| number >= limit / 2)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

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

    /// A program that may have 64 descriptors looks at 100 processes, and can open its files all the same.
    #[test]
    fn half_of_the_descriptors_stay_free() {
        const LIMITED: &str = "PAGETIDE_TEST_LIMITED";
        if std::env::var_os(LIMITED).is_none() {
            let name = module_path!().trim_start_matches("host::");
            let output = Command::new("prlimit")
                .arg("--nofile=64")
                .arg(std::env::current_exe().expect("it has a path"))
                .args([
                    "--exact",
                    &format!("{name}::half_of_the_descriptors_stay_free"),
                ])
                .env(LIMITED, "1")
                .output()
                .expect("prlimit is there");
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(
                output.status.success() && said.contains("1 passed"),
                "{said}"
            );
            return;
        }
        let claim = |pid: u32| {
            Claim::take(Identity {
                pid: 4_194_500 + pid,
                started: u64::from(std::process::id()),
            })
        };
        let claims: Vec<Claim> = (0..100).map(claim).collect();
        let ours = claims.iter().filter(|one| matches!(one, Claim::Ours(_)));
        assert!((20..32).contains(&ours.count()));
        let files = (0..20).map(|_| std::fs::File::open("/proc/self/stat"));
        assert!(files.collect::<Result<Vec<_>, _>>().is_ok());
    }
}
