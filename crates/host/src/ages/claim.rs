//! Claims: only one pagetide at a time clears a process's accessed bits.
//!
//! Invariant: the manager that holds the claim clears; any other manager does not clear, and
//! reports ages as unknown. If two managers cleared the same bits, each would hide accesses from
//! the other without a trace. No user can keep root from claiming a process: root's claims override
//! those of other users, and only root can make root's claims.
//!
//! A claim is an OFD lock (fcntl(2)) on one byte of a file in the private directory that this
//! user's pagetide has. The byte's number is made of the process's PID and start time. The kernel
//! drops the lock when the manager ends, also if it is killed. Managers see each other's claims
//! only if they use the same directory.
//!
//! A claim is not the existence of a file, as any user could create a file for every process. Nor
//! is it a lock of `/proc/PID/clear_refs`, as the watched program could take that lock itself.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use rustix::fs::{AtFlags, FileType, OFlags, major, minor, statat};

use crate::system::Identity;
use crate::system::private_dir::{PrivateDir, effective_user, existing, make};

/// Name of the directory of claims, within pagetide's private directory.
const DIRECTORY: &str = "claims";
/// Number of lock files. The kernel searches all locks of a file for each new one, so claims are
/// spread over several files.
const FILES: u32 = 8;
/// Low bits of the byte number that hold the PID (proc_sys_kernel(5), `pid_max`); the higher bits
/// hold the start time.
const PID_BITS: u32 = 22;
/// Maximum age of the list of root's claims before it is read again.
const ROOTS_CLAIMS_TTL: Duration = Duration::from_millis(500);

/// Result of an attempt to claim a process.
#[derive(Debug)]
pub(super) enum Claim {
    /// This manager holds the claim.
    Ours(HeldClaim),
    /// Another pagetide holds the claim.
    Others,
    /// No claim can be made on this machine, so other managers are not detected.
    Unknown,
}

impl Claim {
    /// Claims a process.
    pub(super) fn take(identity: Identity) -> Claim {
        let byte = byte_of(identity);
        let mut ours = ours();
        if ours.bytes.contains(&byte) || is_claimed_by_root(identity) {
            return Claim::Others;
        }
        let taken = ours
            .file(identity)
            .map(|file| lock(file, byte, libc::F_WRLCK));
        match taken {
            Some(Ok(())) => {
                ours.bytes.insert(byte);
                Claim::Ours(HeldClaim(identity))
            }
            Some(Err(Errno::EAGAIN | Errno::EACCES)) => Claim::Others,
            Some(Err(_)) | None => Claim::Unknown,
        }
    }

    /// Returns whether we hold the claim and it is still valid: root may have claimed the process
    /// since.
    pub(super) fn holds(&self) -> bool {
        matches!(self, Claim::Ours(HeldClaim(identity)) if !is_claimed_by_root(*identity))
    }
}

/// A lock that is released when the value is dropped. Closing the file would not release it: a
/// child that another thread has just forked keeps the file open until it calls execve(2).
#[derive(Debug)]
pub(super) struct HeldClaim(Identity);

impl Drop for HeldClaim {
    fn drop(&mut self) {
        let byte = byte_of(self.0);
        let mut ours = ours();
        if ours.bytes.remove(&byte)
            && let Some(file) = ours.file(self.0)
        {
            let _ = lock(file, byte, libc::F_UNLCK);
        }
    }
}

/// All claims of our process. OFD locks do not exclude two watches within one process; `bytes`
/// does.
struct Ours {
    files: [Option<OwnedFd>; FILES as usize],
    bytes: BTreeSet<i64>,
}

/// Locks and returns the claims of our process.
fn ours() -> MutexGuard<'static, Ours> {
    static OURS: Mutex<Ours> = Mutex::new(Ours {
        files: [const { None }; FILES as usize],
        bytes: BTreeSet::new(),
    });
    OURS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ours {
    /// Returns the lock file for a process; `None` if the directory cannot be created or opened.
    fn file(&mut self, identity: Identity) -> Option<&OwnedFd> {
        let file = &mut self.files[file_of(identity)];
        if file.is_none() {
            let dir = make(DIRECTORY).ok()?;
            let flags = OFlags::RDWR | OFlags::CREATE;
            // The file is private, as any process that can open it could lock it.
            let name = file_of(identity).to_string();
            *file = dir
                .open(&name, FileType::RegularFile, flags)
                .ok()
                .map(|(file, _)| file);
        }
        file.as_ref()
    }
}

/// Returns the index of the lock file for a process.
fn file_of(identity: Identity) -> usize {
    (identity.pid % FILES) as usize
}

/// Returns the number of the byte that stands for this process. A later process with the same PID
/// has another byte.
fn byte_of(identity: Identity) -> i64 {
    let started = identity.started << PID_BITS | u64::from(identity.pid);
    i64::try_from(started & i64::MAX.unsigned_abs()).unwrap_or(0)
}

/// Locks or unlocks one byte of a file, without waiting.
fn lock(file: &OwnedFd, byte: i64, kind: libc::c_int) -> Result<(), Errno> {
    let lock = libc::flock {
        l_type: libc::c_short::try_from(kind).unwrap_or_default(),
        l_whence: libc::c_short::try_from(libc::SEEK_SET).unwrap_or_default(),
        l_start: byte,
        l_len: 1,
        l_pid: 0,
    };
    fcntl(file, FcntlArg::F_OFD_SETLK(&lock)).map(drop)
}

/// Returns whether root's pagetide has claimed a process; always `false` for root itself. Other
/// users may not open root's lock files, so the claims are read from `/proc/locks`.
fn is_claimed_by_root(identity: Identity) -> bool {
    static SEEN: Mutex<Option<(Instant, RootsClaims)>> = Mutex::new(None);
    if effective_user() == 0 {
        return false;
    }
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    let is_old = |(at, _): &(Instant, RootsClaims)| at.elapsed() > ROOTS_CLAIMS_TTL;
    if seen.as_ref().is_none_or(is_old) {
        *seen = Some((Instant::now(), RootsClaims::read().unwrap_or_default()));
    }
    let byte = byte_of(identity);
    seen.as_ref().is_some_and(|(_, claims)| claims.has(byte))
}

/// All locks on root's lock files: the first and the last byte of each locked range.
#[derive(Default)]
struct RootsClaims(Vec<(i64, i64)>);

impl RootsClaims {
    /// Reads which processes root's pagetide has claimed.
    fn read() -> io::Result<RootsClaims> {
        let files: Vec<String> = existing(0, DIRECTORY)
            .iter()
            .flat_map(names_in_locks)
            .collect();
        match files.is_empty() {
            true => Ok(RootsClaims::default()),
            false => {
                std::fs::read_to_string("/proc/locks").map(|text| RootsClaims::parse(&text, &files))
            }
        }
    }

    /// Parses the text of `/proc/locks`; returns the locks of `files`, which are named as in that
    /// text.
    ///
    /// One line reads `1: OFDLCK ADVISORY  WRITE -1 00:1a:1234 5 5` (proc_locks(5)).
    fn parse(text: &str, files: &[String]) -> RootsClaims {
        let lock = |line: &str| {
            let mut words = line.split_whitespace().skip(1);
            let is_ours = words.next() == Some("OFDLCK");
            let file = words.nth(3)?;
            let first = words.next()?.parse().ok()?;
            let last = words.next()?.parse().ok()?;
            (is_ours && files.iter().any(|one| one == file)).then_some((first, last))
        };
        RootsClaims(text.lines().filter_map(lock).collect())
    }

    /// Returns whether a lock covers this byte.
    fn has(&self, byte: i64) -> bool {
        self.0
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&byte))
    }
}

/// Returns the lock files in a directory of claims, named as `/proc/locks` names them.
fn names_in_locks(dir: &PrivateDir) -> Vec<String> {
    let files = (0..FILES).filter_map(|name| {
        let stat = statat(dir, name.to_string(), AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let (major, minor) = (major(stat.st_dev), minor(stat.st_dev));
        Some(format!("{major:02x}:{minor:02x}:{}", stat.st_ino))
    });
    files.collect()
}

#[cfg(test)]
pub(in crate::ages) mod tests;
