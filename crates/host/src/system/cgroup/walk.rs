//! A walk over all control groups below one.
//!
//! Invariant: each group is opened by its name in its parent, and the walk goes up by `..`: it
//! holds three descriptors at most, whatever the depth, gives the kernel no path but a single name,
//! and takes time in proportion to the groups that it visits. (By full paths, groups beyond
//! PATH_MAX cannot be opened, and a chain of 1,900 groups takes the kernel as many name look-ups
//! for each of them.)

use std::ffi::{CStr, CString, OsStr};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, RawDir, fstat, openat};
use rustix::io::Errno;

/// A path of this many bytes or more is refused by the kernel (PATH_MAX, which counts the NUL at
/// its end).
const PATH_MAX: usize = 4096;
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Names of the groups right below one.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) names: Vec<CString>,
    /// There are more than were asked for.
    pub(crate) has_more: bool,
}

/// How much a walk visits at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Most {
    /// Groups in all.
    pub(crate) groups: usize,
    /// Groups right below each group.
    pub(crate) below_each: usize,
}

impl Most {
    /// All that there are.
    pub(crate) const ALL: Most = Most {
        groups: usize::MAX,
        below_each: usize::MAX,
    };
}

/// What a walk does after a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// It visits the groups below this one.
    Below,
    /// It leaves out the groups below this one.
    Beside,
}

/// A group that a walk has come to.
#[derive(Debug)]
pub(crate) struct Visited<'a> {
    pub(crate) dir: &'a OwnedFd,
    /// Names from the first group of the walk down to this one; empty for the first.
    names: &'a [CString],
}

impl Visited<'_> {
    /// How far below the first group of the walk it is; 0 for that one.
    pub(crate) fn depth(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn name(&self) -> Option<&OsStr> {
        Some(OsStr::from_bytes(self.names.last()?.to_bytes()))
    }

    /// Its path, where the first group of the walk has the path `top`.
    pub(crate) fn path(&self, top: &Path) -> PathBuf {
        let mut path = top.to_owned();
        let names = self.names.iter();
        path.extend(names.map(|name| OsStr::from_bytes(name.to_bytes())));
        path
    }
}

/// The kernel's ways to say that a group is gone.
pub(crate) fn is_gone(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::NODEV)
}

/// Opens a directory by its full path, which may be longer than the kernel takes at once.
///
/// # Errors
/// The kernel's.
pub(crate) fn open(path: &Path) -> Result<OwnedFd, Errno> {
    if path.as_os_str().len() < PATH_MAX {
        return openat(CWD, path, DIRECTORY, Mode::empty());
    }
    let mut dir = None;
    for part in path.iter() {
        let above = dir.as_ref();
        let next = match above {
            Some(above) => openat(above, part, DIRECTORY, Mode::empty())?,
            None => openat(CWD, part, DIRECTORY, Mode::empty())?,
        };
        dir = Some(next);
    }
    dir.ok_or(Errno::NOENT)
}

/// How many groups are right below an open one, by its links: itself, its name, and one for each
/// group below. `None` for a file system that does not count them.
pub(crate) fn count_below(dir: &OwnedFd) -> Result<Option<u64>, Errno> {
    Ok(fstat(dir)?.st_nlink.checked_sub(2))
}

/// The groups right below an open one, `most` of them at most, in the kernel's order.
///
/// # Errors
/// The kernel's.
pub(crate) fn names_below(dir: &OwnedFd, most: usize) -> Result<Names, Errno> {
    let mut found = Names::default();
    // Most groups have none.
    if count_below(dir)? == Some(0) {
        return Ok(found);
    }
    // Opened anew: the position of a directory belongs to its descriptor.
    let dir = openat(dir, c".", DIRECTORY, Mode::empty())?;
    let mut buffer = [const { MaybeUninit::<u8>::uninit() }; 32 << 10];
    let mut entries = RawDir::new(dir, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        let is_own = matches!(name.to_bytes(), b"." | b"..");
        if is_own || entry.file_type() != FileType::Directory {
            continue;
        }
        if found.names.len() == most {
            found.has_more = true;
            break;
        }
        found.names.push(name.to_owned());
    }
    Ok(found)
}

/// Opens a group by its name in its parent.
///
/// # Errors
/// The kernel's.
pub(crate) fn open_below(above: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    openat(above, name, DIRECTORY, Mode::empty())
}

/// Visits a group and all below it, parents before children, but for what is more than `most`.
/// Whether it visited all: a group that is removed meanwhile is not there.
///
/// # Errors
/// The kernel's, and those of `visit`.
pub(crate) fn walk<E: From<Errno>>(
    top: OwnedFd,
    most: Most,
    visit: &mut dyn FnMut(&Visited<'_>) -> Result<Next, E>,
) -> Result<bool, E> {
    let (mut dir, mut left, mut is_all) = (top, most.groups, true);
    let mut path: Vec<CString> = Vec::new();
    // For the group that the walk is at and each above it: the groups below that are still to be
    // visited.
    let mut waiting: Vec<Vec<CString>> = Vec::new();
    loop {
        if left == 0 {
            return Ok(false);
        }
        left -= 1;
        let visited = Visited {
            dir: &dir,
            names: &path,
        };
        waiting.push(match visit(&visited)? {
            Next::Below => match names_below(&dir, most.below_each) {
                Err(errno) if !is_gone(errno) => return Err(errno.into()),
                found => {
                    let found = found.unwrap_or_default();
                    is_all &= !found.has_more;
                    found.names
                }
            },
            Next::Beside => Vec::new(),
        });
        // To the next group that is still there, up where a group has no more.
        dir = loop {
            let Some(names) = waiting.last_mut() else {
                return Ok(is_all);
            };
            match names.pop() {
                Some(name) => match open_below(&dir, &name) {
                    Ok(below) => {
                        path.push(name);
                        break below;
                    }
                    Err(errno) if is_gone(errno) => {}
                    Err(errno) => return Err(errno.into()),
                },
                None => {
                    waiting.pop();
                    if path.pop().is_none() {
                        return Ok(is_all);
                    }
                    dir = open_below(&dir, c"..")?;
                }
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::testing::Directory;

    /// A chain of `depth` directories with names of `length` bytes, made without a path. Returns
    /// what removes it.
    fn chain(top: &Path, depth: usize, length: usize) {
        let name = CString::new("d".repeat(length)).expect("no NUL");
        let mut dir = open(top).expect("it is there");
        for _ in 0..depth {
            rustix::fs::mkdirat(&dir, &name, 0o755.into()).expect("we may");
            dir = open_below(&dir, &name).expect("it was made");
        }
    }

    fn visit_all(top: &Path, groups: usize) -> (Vec<PathBuf>, bool) {
        let mut paths = Vec::new();
        let most = Most {
            groups,
            ..Most::ALL
        };
        let all = walk::<Errno>(open(top).expect("it is there"), most, &mut |visited| {
            paths.push(visited.path(Path::new("")));
            Ok(Next::Below)
        });
        (paths, all.expect("nothing fails"))
    }

    /// Regression: groups beyond PATH_MAX were opened by their paths, could not be, and were left
    /// out without a word.
    #[test]
    fn what_lies_beyond_path_max_is_visited() {
        let own = Directory::new("deep");
        chain(&own.0, 64, 120);
        let (paths, all) = visit_all(&own.0, usize::MAX);
        assert!(all);
        assert_eq!(paths.len(), 65);
        let deepest = &paths[64];
        assert!(
            deepest.as_os_str().len() > 2 * PATH_MAX - 600,
            "{deepest:?}"
        );
        let opened = open(&own.0.join(deepest)).expect("a long path is opened in parts");
        assert_eq!(count_below(&opened).map(|count| count.unwrap_or(0)), Ok(0));
    }

    #[test]
    fn each_is_visited_once_and_no_more_than_asked_for() {
        let own = Directory::new("tree");
        for path in ["a/b/c", "a/d", "e"] {
            std::fs::create_dir_all(own.0.join(path)).expect("we may");
        }
        std::fs::write(own.0.join("a/file"), "").expect("we may");
        let (mut paths, all) = visit_all(&own.0, usize::MAX);
        assert!(all && paths[0] == Path::new(""));
        paths.sort();
        let expected = ["", "a", "a/b", "a/b/c", "a/d", "e"].map(PathBuf::from);
        assert_eq!(paths, expected);
        let (paths, all) = visit_all(&own.0, 3);
        assert_eq!((paths.len(), all), (3, false));
        assert_eq!(visit_all(&own.0, 6), (visit_all(&own.0, 7).0, true));
        let top = open(&own.0).expect("it is there");
        let names = names_below(&top, 1).expect("it can be read");
        assert!(names.names.len() == 1 && names.has_more);
    }

    #[test]
    fn a_visit_may_leave_out_what_is_below() {
        let own = Directory::new("beside");
        std::fs::create_dir_all(own.0.join("a/b")).expect("we may");
        let mut depths = Vec::new();
        let all = walk::<Errno>(open(&own.0).expect("there"), Most::ALL, &mut |visited| {
            depths.push(visited.depth());
            Ok(match visited.depth() {
                0 => Next::Below,
                _ => Next::Beside,
            })
        });
        assert_eq!((all, depths), (Ok(true), vec![0, 1]));
    }
}
