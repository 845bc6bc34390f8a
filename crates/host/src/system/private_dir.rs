//! The directories in which pagetide keeps sockets and locks, and in which no other user can create
//! files.
//!
//! Invariant: a directory is used only if its open descriptor shows that it belongs to the user and
//! that no other user may write it. The parent directory must belong to root or that user, and must
//! let no other user replace its entries. Links are not followed.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fchmod, fstat, mkdirat, openat};
use rustix::io::Errno;
use rustix::process::{Uid, geteuid};
use rustix::thread::CapabilitySet;

use super::rights::without;

/// Number of the user root.
const ROOT: u32 = 0;
/// Mode bits by which a group or all users may write.
const OTHERS_WRITE: u32 = 0o022;
/// Mode bit of a directory in which only the owner of an entry can remove or rename the entry.
const STICKY: u32 = 0o1000;

/// An open directory that passed the checks.
#[derive(Debug)]
pub struct PrivateDir {
    path: PathBuf,
    dir: OwnedFd,
    owner: u32,
}

/// A directory that could not be used, and why.
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

/// A directory that exists already, such as `/run`, and the name of pagetide's directory in it.
type SocketDir = (PathBuf, String);

/// Returns where the directory of a user may be, in order of preference. All processes of the user
/// have the same choices, whatever their environment, so that they find each other. Processes that
/// run as that user also have `XDG_RUNTIME_DIR`.
fn places(user: u32) -> Vec<SocketDir> {
    let mut places = Vec::new();
    let ours = || "pagetide".to_owned();
    match user {
        ROOT => places.push((PathBuf::from("/run"), ours())),
        _ => places.push((PathBuf::from(format!("/run/user/{user}")), ours())),
    }
    // (For root of a user namespace only this directory is usable: /run and /tmp belong to no user
    // of that namespace.)
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let session = session.filter(|path| path.is_absolute() && user == effective_user());
    places.extend(session.map(|path| (path, ours())));
    for shared in ["/tmp", "/dev/shm"] {
        places.push((PathBuf::from(shared), format!("pagetide-{user}")));
    }
    places
}

/// Returns the effective user of this process.
#[must_use]
pub fn effective_user() -> u32 {
    geteuid().as_raw()
}

/// Returns those of the directories `name` of a user that exist and pass the checks, in order of
/// preference.
#[must_use]
pub fn existing(user: u32, name: &str) -> Vec<PrivateDir> {
    let open = |place: &SocketDir| open_in(place, name, user, Make::Nothing).ok();
    as_user(|| places(user).iter().filter_map(open).collect())
}

/// Opens the directory `name` of this process's user; makes it if it does not exist.
///
/// # Errors
/// No directory can be used. Contains the reason for each that was tried.
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

/// Which directories are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Make {
    /// Missing directories are made.
    Missing,
    /// No directory is made.
    Nothing,
}

/// Runs `act` without the capabilities that pagetide's program file may have, so that `act` opens
/// only files that the user may open.
fn as_user<T>(act: impl FnOnce() -> T) -> T {
    without(
        CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH,
        act,
    )
}

/// Opens `base/ours/name`. Each directory is checked after it has been opened.
fn open_in(
    (base, ours): &SocketDir,
    name: &str,
    user: u32,
    make: Make,
) -> Result<PrivateDir, String> {
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

/// Checks that no user but root and `user` can replace entries of these two users in the directory.
fn protects_entries(stat: &Stat, user: u32) -> Result<(), String> {
    if stat.st_uid != ROOT && stat.st_uid != user {
        return Err(format!(
            "the directory above belongs to user {}",
            stat.st_uid
        ));
    }
    match stat.st_mode & OTHERS_WRITE == 0 || stat.st_mode & STICKY != 0 {
        true => Ok(()),
        false => Err("other users may replace what is in the directory above".to_owned()),
    }
}

/// Opens the directory `name` of `user` in the directory `above`; makes it first if `make` is
/// [`Make::Missing`]. If other users may write the directory, [`Make::Missing`] corrects its mode;
/// otherwise that is an error.
fn open_own(above: BorrowedFd<'_>, name: &str, user: u32, make: Make) -> Result<OwnedFd, String> {
    // Other users connect to root's managers, which check each request's user. Directories of other
    // users are private.
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
        Errno::NOTDIR | Errno::LOOP => "it is not a directory".to_owned(),
        other => other.to_string(),
    })?;
    let stat = fstat(&dir).map_err(|errno| errno.to_string())?;
    if stat.st_uid != user {
        return Err(format!("it belongs to user {}", stat.st_uid));
    }
    if stat.st_mode & OTHERS_WRITE == 0 && !is_new {
        return Ok(dir);
    }
    // The umask may have restricted the mode of a new directory too much. A volume of Kubernetes
    // has mode 0777.
    match make == Make::Missing && fchmod(&dir, mode).is_ok() {
        true => Ok(dir),
        false => Err("other users may write it".to_owned()),
    }
}

impl PrivateDir {
    /// Returns the path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the user that owns the directory.
    #[must_use]
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// Returns the names of the directory's entries; skips names that are not UTF-8.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.dir)? {
            names.extend(entry?.file_name().to_str().ok().map(str::to_owned));
        }
        Ok(names)
    }

    /// Opens an entry that belongs to the directory's user and is of the given kind, without
    /// following a link. Returns its descriptor and its stat.
    ///
    /// # Errors
    /// The kernel's error; ENOENT if there is no entry of this user and kind.
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
