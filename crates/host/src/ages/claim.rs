//! Who clears a process's accessed bits: one pagetide at a time.
//!
//! Invariant: two that clear the same bits would each take what the other looks for, and leave no trace of
//! it; so the second one does not clear, and knows no ages. (The story: of two reports of one program, half a
//! second apart, one called 70 MiB older than 5 s that were touched every 4 s.)
//!
//! A claim is a lock on the file by which bits are cleared (proc(5), `clear_refs`), which only they can open who may clear them: it ends
//! with whoever holds it, however that ends, and leaves nothing behind. It is seen within one mount of /proc. (The story: a claim was a
//! name that anybody could take, and a user who took those of all processes had root's pagetide know no age.)

use std::os::fd::OwnedFd;

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat};
use rustix::io::Errno;

use crate::system::Identity;
use crate::system::descriptors::is_beyond;

/// What trying to claim a process gave.
#[derive(Debug)]
pub(super) enum Claim {
    /// It is ours.
    Ours(#[cfg_attr(not(test), expect(dead_code, reason = "held for its lock"))] Held),
    /// Somebody else's.
    Others,
    /// We may not clear its bits, or have too few descriptors: nothing is known of others.
    Unknown,
}

impl Claim {
    /// Claims a process.
    pub(super) fn take(identity: Identity) -> Claim {
        let path = format!("/proc/{}/clear_refs", identity.pid);
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let Ok(file) = openat(CWD, path, flags, Mode::empty()) else {
            return Claim::Unknown;
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) if is_among_the_last(&file) => {
                drop(Held(file));
                Claim::Unknown
            }
            Ok(()) => Claim::Ours(Held(file)),
            Err(Errno::WOULDBLOCK) => Claim::Others,
            Err(_) => Claim::Unknown,
        }
    }
}

/// A lock that ends with its value. Closing the file would not do it: a child that another thread has just forked holds the file, too,
/// until it calls execve(2). (The story: of a claim that was let go and taken again at once, the second was refused now and then.)
#[derive(Debug)]
pub(super) struct Held(OwnedFd);

impl Drop for Held {
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::NonBlockingUnlock);
    }
}

/// Whether a descriptor is of the upper half of those that this process may have: they are given out from below. A library's caller needs
/// some of his own, and so do we for reading; the limit of a process that only calls us is not ours to raise. (The story: of a
/// thousand processes, with a limit of 1,024, the last could not be read, and the caller could open nothing meanwhile.)
fn is_among_the_last(file: &OwnedFd) -> bool {
    is_beyond(file, (1, 2))
}

#[cfg(test)]
pub(in crate::ages) mod tests {
    use std::process::{Child, Command};

    use super::*;

    /// A process to be claimed, which ends with its value.
    pub(in crate::ages) struct Asleep(Child);

    impl Asleep {
        pub(in crate::ages) fn start() -> Asleep {
            Asleep(
                Command::new("sleep")
                    .arg("600")
                    .spawn()
                    .expect("it is there"),
            )
        }

        pub(in crate::ages) fn identity(&self) -> Identity {
            let started = 1;
            Identity {
                pid: self.0.id(),
                started,
            }
        }
    }

    impl Drop for Asleep {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn one_at_a_time() {
        let child = Asleep::start();
        let somebody = child.identity();
        let first = Claim::take(somebody);
        assert!(matches!(first, Claim::Ours(_)));
        assert!(matches!(Claim::take(somebody), Claim::Others));
        drop(first);
        assert!(matches!(Claim::take(somebody), Claim::Ours(_)));
    }

    /// The story: other tests forked at that moment, and their children held the lock until they became other programs.
    #[test]
    fn who_has_a_copy_of_the_descriptor_holds_nothing() {
        let child = Asleep::start();
        let Claim::Ours(held) = Claim::take(child.identity()) else {
            panic!("nobody else knows it");
        };
        let _copy = held.0.try_clone().expect("there are descriptors");
        drop(held);
        assert!(matches!(Claim::take(child.identity()), Claim::Ours(_)));
    }

    /// A program that may have 64 descriptors looks at 40 processes, and can open its files all the same.
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
        let children: Vec<Asleep> = (0..40).map(|_| Asleep::start()).collect();
        let claim = |child: &Asleep| Claim::take(child.identity());
        let claims: Vec<Claim> = children.iter().map(claim).collect();
        let ours = claims.iter().filter(|one| matches!(one, Claim::Ours(_)));
        let ours = ours.count();
        assert!((20..32).contains(&ours), "{ours}");
        let files = (0..20).map(|_| std::fs::File::open("/proc/self/stat"));
        assert!(files.collect::<Result<Vec<_>, _>>().is_ok());
    }
}
