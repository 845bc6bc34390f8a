//! Reads files that only trusted users can have written, with bounds on links, entries and sizes.
//!
//! Invariant: every directory, link and file on the path belongs to root, to our own user, or to
//! the one user that the caller names. No other user may write a directory that is listed, a file
//! that is read, or that file's directory. Only regular files are opened for reading, so that no
//! pipe or device blocks. In a user's home directory, links and other mounts are not followed.
//! Other directories on the path may be group-writable (`/var/log` often is): a file that a group
//! member adds there belongs to that user, and is not trusted.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2, readlinkat,
};
use rustix::process::geteuid;

/// Maximum number of symbolic links on a path.
const LINKS_MAX: usize = 8;
/// Maximum number of entries read from a directory.
const ENTRIES_MAX: usize = 16_384;
/// Mode bits: the group or others may write.
const OTHERS_WRITE: u32 = 0o022;

/// A directory that takes the place of `/`, with the users that are trusted below it.
pub(super) struct Files {
    root: PathBuf,
    /// The user that is trusted besides root and our own; `None` for none.
    user: Option<u32>,
}

impl Files {
    /// Returns access to files below `root` that trusts root and our own user.
    pub(super) fn at(root: &Path) -> Files {
        let root = root.to_owned();
        Files { root, user: None }
    }

    /// Returns access to files below `root` that trusts root, our own user and `user`.
    pub(super) fn of_user(root: &Path, user: u32) -> Files {
        let (root, user) = (root.to_owned(), Some(user));
        Files { root, user }
    }

    /// Returns the content of a file; `None` if it has more than `max` bytes, is missing or not
    /// trusted.
    pub(super) fn read(&self, path: &str, max: u64) -> Option<Vec<u8>> {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        let dir = self.dir(dir)?;
        let seen = self.open(&dir, OsStr::new(name))?;
        self.content(&dir, OsStr::new(name), &seen.1, max)
    }

    /// Like [`read`](Self::read), for the file at `path` below a user's home directory.
    pub(super) fn read_at_home(&self, home: &str, path: &str, max: u64) -> Option<Vec<u8>> {
        let home = self.dir(home)?;
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let (dir, name) = path.rsplit_once('/')?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat2(&home, dir, flags, Mode::empty(), within).ok()?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let seen = openat2(&dir, name, flags, Mode::empty(), within).ok()?;
        let seen = fstat(seen).ok()?;
        self.content(&dir, OsStr::new(name), &seen, max)
    }

    /// Returns the names in a directory, at most [`ENTRIES_MAX`]; none if it is missing or not
    /// trusted.
    pub(super) fn list(&self, path: &str) -> Vec<String> {
        let read = || {
            let dir = self.dir(path)?;
            let stat = fstat(&dir).ok()?;
            if stat.st_mode & OTHERS_WRITE != 0 {
                return None;
            }
            Dir::read_from(&dir).ok()
        };
        let entries = read().into_iter().flatten().flatten().take(ENTRIES_MAX);
        let names = entries.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
        names.filter(|name| name != "." && name != "..").collect()
    }

    /// Returns whether the owner is root, our own user or the named user.
    fn trusts(&self, stat: &Stat) -> bool {
        let owner = stat.st_uid;
        owner == 0 || owner == geteuid().as_raw() || Some(owner) == self.user
    }

    /// Opens an entry of a directory without following a link.
    fn open(&self, dir: &impl AsFd, name: &OsStr) -> Option<(OwnedFd, Stat)> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(dir, name, flags, Mode::empty()).ok()?;
        let stat = fstat(&fd).ok()?;
        self.trusts(&stat).then_some((fd, stat))
    }

    /// Opens the directory at a path below the root. Follows links of trusted users; they cannot
    /// lead out of the root.
    fn dir(&self, path: &str) -> Option<OwnedFd> {
        let root = || {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            openat(CWD, &self.root, flags, Mode::empty()).ok()
        };
        let mut above = vec![root()?];
        let mut rest: VecDeque<OsString> = parts(Path::new(path)).collect();
        let mut links = 0;
        while let Some(part) = rest.pop_front() {
            if part == ".." {
                above.truncate(above.len().saturating_sub(1).max(1));
                continue;
            }
            let (fd, stat) = self.open(above.last()?, &part)?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => above.push(fd),
                FileType::Symlink if links < LINKS_MAX => {
                    links += 1;
                    let to = readlinkat(&fd, "", Vec::new()).ok()?.into_bytes();
                    if to.starts_with(b"/") {
                        above.truncate(1);
                    }
                    let to = parts(Path::new(OsStr::from_bytes(&to))).collect::<Vec<_>>();
                    to.into_iter().rev().for_each(|part| rest.push_front(part));
                }
                _ => return None,
            }
        }
        let dir = above.pop()?;
        // A descriptor opened with O_PATH cannot be read, so the directory is opened again for
        // listing.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(&dir, ".", flags, Mode::empty()).ok()
    }

    /// Returns the content of a file in an open directory; `None` if it is not trusted or has more
    /// than `max` bytes. `seen`: the file's status when the path was resolved.
    fn content(&self, dir: &impl AsFd, name: &OsStr, seen: &Stat, max: u64) -> Option<Vec<u8>> {
        let above = fstat(dir).ok()?;
        if !self.trusts(&above) || above.st_mode & OTHERS_WRITE != 0 || !self.is_plain(seen, max) {
            return None;
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = openat(dir, name, flags | OFlags::CLOEXEC, Mode::empty()).ok()?;
        if !self.is_plain(&fstat(&file).ok()?, max) {
            return None;
        }
        let mut content = Vec::new();
        let mut file = std::fs::File::from(file).take(max + 1);
        file.read_to_end(&mut content).ok()?;
        (content.len() as u64 <= max).then_some(content)
    }

    /// Returns whether `stat` is of a regular file of at most `max` bytes that only trusted users
    /// can have written.
    fn is_plain(&self, stat: &Stat, max: u64) -> bool {
        FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && self.trusts(stat)
            && stat.st_mode & OTHERS_WRITE == 0
            && u64::try_from(stat.st_size).is_ok_and(|size| size <= max)
    }
}

/// Returns the components of a path, without `/` and `.`.
fn parts(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(OsString::from_vec(name.as_bytes().to_vec())),
        Component::ParentDir => Some("..".into()),
        _ => None,
    })
}
