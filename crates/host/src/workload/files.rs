//! Files that only trusted users can have written, read within bounds.
//!
//! Invariant: every directory, link and file on the way belongs to root, to our own user, or to the one user for whom
//! the caller asks; a listed directory, a read file and the directory it is in can be
//! written by no other. Only regular files are opened for
//! reading, so that no pipe or device waits. In a user's home no link and no other mount is entered.
//! A directory on the way may be written by a group (`/var/log` often is): what that group puts there belongs to it.

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

/// Most links on a way.
const LINKS_MAX: usize = 8;
/// Most entries of a listed directory.
const ENTRIES_MAX: usize = 16_384;
/// Write permission of others than the owner.
const OTHERS_WRITE: u32 = 0o022;

/// A directory that stands for `/`, and whose files are believed.
pub(super) struct Files {
    root: PathBuf,
    user: Option<u32>,
}

impl Files {
    /// Files of root and ourselves.
    pub(super) fn at(root: &Path) -> Files {
        let root = root.to_owned();
        Files { root, user: None }
    }

    /// Files of root, ourselves and one user.
    pub(super) fn of_user(root: &Path, user: u32) -> Files {
        let (root, user) = (root.to_owned(), Some(user));
        Files { root, user }
    }

    /// Content of a file of at most `max` bytes; `None` if it is longer, is not there or is not believed.
    pub(super) fn read(&self, path: &str, max: u64) -> Option<Vec<u8>> {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        let dir = self.dir(dir)?;
        let seen = self.open(&dir, OsStr::new(name))?;
        self.content(&dir, OsStr::new(name), &seen.1, max)
    }

    /// Content of a file below a user's home directory, as [`read`](Self::read).
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

    /// Names in a directory, at most [`ENTRIES_MAX`] of them; none if it is not there or is not believed.
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

    fn trusts(&self, stat: &Stat) -> bool {
        let owner = stat.st_uid;
        owner == 0 || owner == geteuid().as_raw() || Some(owner) == self.user
    }

    /// An entry of a directory, by itself and not by what it links to.
    fn open(&self, dir: &impl AsFd, name: &OsStr) -> Option<(OwnedFd, Stat)> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(dir, name, flags, Mode::empty()).ok()?;
        let stat = fstat(&fd).ok()?;
        self.trusts(&stat).then_some((fd, stat))
    }

    /// The directory at a path below the root. Links of trusted users are followed, within the root.
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
        // The way was opened without reading; a listing reads.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(&dir, ".", flags, Mode::empty()).ok()
    }

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

    fn is_plain(&self, stat: &Stat, max: u64) -> bool {
        FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && self.trusts(stat)
            && stat.st_mode & OTHERS_WRITE == 0
            && u64::try_from(stat.st_size).is_ok_and(|size| size <= max)
    }
}

/// The components of a path that lead somewhere.
fn parts(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(OsString::from_vec(name.as_bytes().to_vec())),
        Component::ParentDir => Some("..".into()),
        _ => None,
    })
}
