//! The directories in which pagetide keeps sockets and locks: no other user can put anything there.
//!
//! Invariant: a directory is used only where it belongs to its user and no other may write it, as
//! its open descriptor says. The directory above it belongs to root or that user, and lets no other
//! user replace what is in it. Links are not followed.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fchmod, fstat, mkdirat, openat};
use rustix::io::Errno;
use rustix::process::{Uid, geteuid};
use rustix::thread::CapabilitySet;

use super::rights::without;

const ROOT: u32 = 0;
/// Write permission of others than the owner.
const OTHERS_WRITE: u32 = 0o022;
/// In a directory with this bit only the owner of an entry can remove or rename it.
const STICKY: u32 = 0o1000;

/// An open directory that passed the checks.
#[derive(Debug)]
pub struct PrivateDir {
    path: PathBuf,
    dir: OwnedFd,
    owner: u32,
}

/// A place that could not be used, and the reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    path: PathBuf,
    why: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.why)
    }
}

/// A directory that exists, and the name of ours in it.
type Place = (PathBuf, String);

/// The places of a user, the preferred one first. Every process of a user has the same ones,
/// whatever its environment is; `XDG_RUNTIME_DIR` is used beside them by its own user alone.
fn places(user: u32) -> Vec<Place> {
    let mut places = Vec::new();
    let ours = || "pagetide".to_owned();
    match user {
        ROOT => places.push((PathBuf::from("/run"), ours())),
        _ => places.push((PathBuf::from(format!("/run/user/{user}")), ours())),
    }
    // (Root of a user namespace has this one alone: /run and /tmp are of no user there.)
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let session = session.filter(|path| path.is_absolute() && user == effective_user());
    places.extend(session.map(|path| (path, ours())));
    for shared in ["/tmp", "/dev/shm"] {
        places.push((PathBuf::from(shared), format!("pagetide-{user}")));
    }
    places
}

/// Effective user of this process.
#[must_use]
pub fn effective_user() -> u32 {
    geteuid().as_raw()
}

/// The directories `name` of a user that exist and pass the checks, the preferred one first.
#[must_use]
pub fn existing(user: u32, name: &str) -> Vec<PrivateDir> {
    let open = |place: &Place| open_in(place, name, user, Make::Nothing).ok();
    as_user(|| places(user).iter().filter_map(open).collect())
}

/// Opens the directory `name` of this process's user, and makes it where it does not exist.
///
/// # Errors
/// None of the places can be used: the reason of each.
pub fn make(name: &str) -> Result<PrivateDir, Vec<Refused>> {
    let user = effective_user();
    let mut refused = Vec::new();
    as_user(|| {
        for place in &places(user) {
            match open_in(place, name, user, Make::Missing) {
                Ok(dir) => return Ok(dir),
                Err(why) => refused.push(Refused {
                    path: place.0.join(&place.1),
                    why,
                }),
            }
        }
        Err(std::mem::take(&mut refused))
    })
}

/// Whether missing directories are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Make {
    Missing,
    Nothing,
}

/// Capabilities of pagetide's file open nothing here that the user could not open.
fn as_user<T>(act: impl FnOnce() -> T) -> T {
    without(
        CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH,
        act,
    )
}

/// `BASE/OURS/NAME`, each part checked after it was opened.
fn open_in((base, ours): &Place, name: &str, user: u32, make: Make) -> Result<PrivateDir, String> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let above = openat(CWD, base, flags, Mode::empty()).map_err(|errno| errno.to_string())?;
    let stat = fstat(&above).map_err(|errno| errno.to_string())?;
    protects_entries(&stat, user)?;
    let ours_dir = open_own(above.as_fd(), ours, user, make)?;
    let dir = open_own(ours_dir.as_fd(), name, user, make)?;
    Ok(PrivateDir {
        path: base.join(ours).join(name),
        dir,
        owner: user,
    })
}

/// Checks that nobody but root and `user` can replace an entry of theirs in a directory.
fn protects_entries(stat: &Stat, user: u32) -> Result<(), String> {
    if stat.st_uid != ROOT && stat.st_uid != user {
        return Err(format!(
            "the directory above belongs to user {}",
            stat.st_uid
        ));
    }
    match stat.st_mode & OTHERS_WRITE == 0 || stat.st_mode & STICKY != 0 {
        true => Ok(()),
        false => Err("others may replace what is in the directory above".to_owned()),
    }
}

/// Opens one directory of `user`. What others may write of our own becomes ours alone.
fn open_own(above: BorrowedFd<'_>, name: &str, user: u32, make: Make) -> Result<OwnedFd, String> {
    // Users talk to root's managers, which check them; nobody but root has to do with others'.
    let mode = match user {
        ROOT => Mode::from_raw_mode(0o755),
        _ => Mode::from_raw_mode(0o700),
    };
    let made = match make {
        Make::Missing => mkdirat(above, name, mode),
        Make::Nothing => Err(Errno::EXIST),
    };
    let is_new = match made {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(errno) => return Err(errno.to_string()),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(above, name, flags, Mode::empty());
    let dir = opened.map_err(|errno| match errno {
        Errno::NOTDIR | Errno::LOOP => "it is no directory".to_owned(),
        other => other.to_string(),
    })?;
    let stat = fstat(&dir).map_err(|errno| errno.to_string())?;
    if stat.st_uid != user {
        return Err(format!("it belongs to user {}", stat.st_uid));
    }
    if stat.st_mode & OTHERS_WRITE == 0 && !is_new {
        return Ok(dir);
    }
    // A new one lacks what the umask takes away, and a volume of Kubernetes is made with 0777.
    match make == Make::Missing && fchmod(&dir, mode).is_ok() {
        true => Ok(dir),
        false => Err("others may write it".to_owned()),
    }
}

impl PrivateDir {
    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The user to whom it belongs.
    #[must_use]
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// Names of its entries.
    ///
    /// # Errors
    /// The kernel's.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.dir)? {
            names.extend(entry?.file_name().to_str().ok().map(str::to_owned));
        }
        Ok(names)
    }

    /// Opens an entry of a kind that belongs to the directory's user, without following a link.
    /// An entry of another user or kind is no entry of ours.
    ///
    /// # Errors
    /// The kernel's; ENOENT where there is no such entry of ours.
    pub fn open(
        &self,
        name: &str,
        kind: FileType,
        flags: OFlags,
    ) -> Result<(OwnedFd, Stat), Errno> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.dir, name, flags, Mode::from_raw_mode(0o600))?;
        let stat = fstat(&file)?;
        let is_kind = FileType::from_raw_mode(stat.st_mode) == kind;
        match is_kind && Uid::from_raw(stat.st_uid) == Uid::from_raw(self.owner) {
            true => Ok((file, stat)),
            false => Err(Errno::NOENT),
        }
    }
}

impl AsFd for PrivateDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

#[cfg(test)]
mod tests;
