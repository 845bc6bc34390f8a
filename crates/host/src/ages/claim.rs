//! Which pagetide clears a process's accessed bits: one at a time.
//!
//! Invariant: two that clear the same bits would each take what the other looks for, and leave no trace of
//! it; so the second one does not clear, and knows no ages. (The story: of two reports of one program, half a
//! second apart, one called 70 MiB older than 5 s that were touched every 4 s.) No user can claim a process
//! against root: root's claims go before those of others, and only root can make them.
//!
//! A claim is a lock of one byte, whose number is the process's, of a file in the directory that is pagetide's and the user's alone. It
//! ends with its holder, however that ends. It is seen by those who share the directory. (The stories: a claim was a name, and a user who
//! took those of all processes had root's pagetide know no age; it was a lock of clear_refs, and a program locked its own.)

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

/// The directory of claims, in the one that is pagetide's.
const DIRECTORY: &str = "claims";
/// Files there: the kernel goes through the locks of one file to find another.
const FILES: u32 = 8;
/// Bits of a process's number (proc_sys_kernel(5), `pid_max`); what is above them is when it started.
const PID_BITS: u32 = 22;
/// Root's claims are read again after this.
const FRESH: Duration = Duration::from_millis(500);

/// What trying to claim a process gave.
#[derive(Debug)]
pub(super) enum Claim {
    /// It is ours.
    Ours(Held),
    /// Another pagetide's.
    Others,
    /// No claim can be made here: nothing is known of others.
    Unknown,
}

impl Claim {
    /// Claims a process.
    pub(super) fn take(identity: Identity) -> Claim {
        let byte = byte_of(identity);
        let mut ours = ours();
        if ours.bytes.contains(&byte) || is_roots(identity) {
            return Claim::Others;
        }
        let taken = ours
            .file(identity)
            .map(|file| lock(file, byte, libc::F_WRLCK));
        match taken {
            Some(Ok(())) => {
                ours.bytes.insert(byte);
                Claim::Ours(Held(identity))
            }
            Some(Err(Errno::EAGAIN | Errno::EACCES)) => Claim::Others,
            Some(Err(_)) | None => Claim::Unknown,
        }
    }

    /// Whether it is ours still: root may have claimed the process since.
    pub(super) fn holds(&self) -> bool {
        matches!(self, Claim::Ours(Held(identity)) if !is_roots(*identity))
    }
}

/// A lock that ends with its value. (Closing the file would not do it: a child that another thread has just forked holds the file, too,
/// until it calls execve(2).)
#[derive(Debug)]
pub(super) struct Held(Identity);

impl Drop for Held {
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

/// The claims of this process. The files are its own: of two that watch in one process each goes by the set.
struct Ours {
    files: [Option<OwnedFd>; FILES as usize],
    bytes: BTreeSet<i64>,
}

fn ours() -> MutexGuard<'static, Ours> {
    static OURS: Mutex<Ours> = Mutex::new(Ours {
        files: [const { None }; FILES as usize],
        bytes: BTreeSet::new(),
    });
    OURS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ours {
    /// The file of a process's claims; none where no directory can be had.
    fn file(&mut self, identity: Identity) -> Option<&OwnedFd> {
        let file = &mut self.files[file_of(identity)];
        if file.is_none() {
            let dir = make(DIRECTORY).ok()?;
            let flags = OFlags::RDWR | OFlags::CREATE;
            // Who could open it could lock it.
            let name = file_of(identity).to_string();
            *file = dir
                .open(&name, FileType::RegularFile, flags)
                .ok()
                .map(|(file, _)| file);
        }
        file.as_ref()
    }
}

fn file_of(identity: Identity) -> usize {
    (identity.pid % FILES) as usize
}

/// The byte that stands for a process and for none that has its number later.
fn byte_of(identity: Identity) -> i64 {
    let started = identity.started << PID_BITS | u64::from(identity.pid);
    i64::try_from(started & i64::MAX.unsigned_abs()).unwrap_or(0)
}

/// Locks or unlocks a byte, without waiting.
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

/// Whether root's pagetide has claimed a process, for another user's. That one may not open root's claims, which are read from `/proc/locks`.
fn is_roots(identity: Identity) -> bool {
    static SEEN: Mutex<Option<(Instant, RootsClaims)>> = Mutex::new(None);
    if effective_user() == 0 {
        return false;
    }
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    let is_old = |(at, _): &(Instant, RootsClaims)| at.elapsed() > FRESH;
    if seen.as_ref().is_none_or(is_old) {
        *seen = Some((Instant::now(), RootsClaims::read().unwrap_or_default()));
    }
    let byte = byte_of(identity);
    seen.as_ref().is_some_and(|(_, claims)| claims.has(byte))
}

/// First and last byte of each of root's locks.
#[derive(Default)]
struct RootsClaims(Vec<(i64, i64)>);

impl RootsClaims {
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

    /// `1: OFDLCK ADVISORY  WRITE -1 00:1a:1234 5 5` (proc_locks(5)), of files that are named as there.
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

    fn has(&self, byte: i64) -> bool {
        self.0
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&byte))
    }
}

/// The files of a directory of claims, as `/proc/locks` names them.
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
