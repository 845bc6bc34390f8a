//! Visits all control groups below a given group.
//!
//! Invariant: each group is opened by its name in its parent, and the walk returns to a parent by
//! `..`. So the walk has at most three descriptors open at any depth, passes only single names to
//! the kernel, and takes time in proportion to the groups visited. (Full paths would fail beyond
//! PATH_MAX. And in a chain of 1,900 groups, the kernel would have to look up up to 1,900 names for
//! each group.)

use std::ffi::{CStr, CString, OsStr};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, RawDir, fstat, openat};
use rustix::io::Errno;

/// The kernel refuses paths of this many bytes or more (PATH_MAX, which counts the terminating
/// NUL).
const PATH_MAX: usize = 4096;
/// Flags with which each group's directory is opened.
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Names of a group's children.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) names: Vec<CString>,
    /// Whether there are more children than requested.
    pub(crate) has_more: bool,
}

/// Bounds of a walk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Most {
    /// Largest number of groups visited in all.
    pub(crate) groups: usize,
    /// Largest number of children visited of each group.
    pub(crate) below_each: usize,
}

impl Most {
    /// No bounds: the walk visits all groups.
    pub(crate) const ALL: Most = Most {
        groups: usize::MAX,
        below_each: usize::MAX,
    };
}

/// What a walk does after it has visited a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// The walk visits the groups below this one.
    Below,
    /// The walk skips the groups below this one.
    Beside,
}

/// A group that a walk visits.
#[derive(Debug)]
pub(crate) struct Visited<'a> {
    pub(crate) dir: &'a OwnedFd,
    /// Names of the groups from below the walk's first group down to this one; empty for the first
    /// group itself.
    names: &'a [CString],
}

impl Visited<'_> {
    /// Returns how many levels the group is below the walk's first group; 0 for the first group
    /// itself.
    pub(crate) fn depth(&self) -> usize {
        self.names.len()
    }

    /// Returns the group's name in its parent; `None` for the walk's first group.
    pub(crate) fn name(&self) -> Option<&OsStr> {
        Some(OsStr::from_bytes(self.names.last()?.to_bytes()))
    }

    /// Returns the group's path, if the walk's first group has the path `top`.
    pub(crate) fn path(&self, top: &Path) -> PathBuf {
        let mut path = top.to_owned();
        let names = self.names.iter();
        path.extend(names.map(|name| OsStr::from_bytes(name.to_bytes())));
        path
    }
}

/// Returns whether the kernel's error means that a group is gone.
pub(crate) fn is_gone(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::NODEV)
}

/// Opens a directory by its full path, which may be longer than the kernel accepts in one call.
///
/// # Errors
/// The kernel's error.
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

/// Returns the number of children of an open group: its link count minus 2. `None` if the file
/// system does not count links in this way.
pub(crate) fn count_below(dir: &OwnedFd) -> Result<Option<u64>, Errno> {
    Ok(fstat(dir)?.st_nlink.checked_sub(2))
}

/// Returns the names of the children of an open group, at most `most`, in the kernel's order.
///
/// # Errors
/// The kernel's error.
pub(crate) fn names_below(dir: &OwnedFd, most: usize) -> Result<Names, Errno> {
    let mut found = Names::default();
    // Most groups have no children.
    if count_below(dir)? == Some(0) {
        return Ok(found);
    }
    // Opened anew, as each descriptor of a directory has only one read position.
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
/// The kernel's error.
pub(crate) fn open_below(above: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    openat(above, name, DIRECTORY, Mode::empty())
}

/// Visits a group and all groups below it, parents before children, within the bounds `most`.
/// Returns false if the bounds left out a group; groups that are removed meanwhile do not count.
///
/// # Errors
/// The kernel's errors, and those of `visit`.
pub(crate) fn walk<E: From<Errno>>(
    top: OwnedFd,
    most: Most,
    visit: &mut dyn FnMut(&Visited<'_>) -> Result<Next, E>,
) -> Result<bool, E> {
    let (mut dir, mut left, mut is_all) = (top, most.groups, true);
    let mut path: Vec<CString> = Vec::new();
    // The names of the children still to be visited: one list for the current group, and one for
    // each group above it up to the first.
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
        // Finds the next group that still exists. If a group has no more children to visit,
        // continues in its parent.
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

    /// Makes a chain of `depth` directories with names of `length` bytes. Each is made relative to
    /// its parent, so that no system call has a long path.
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

    /// Regression: groups with paths beyond PATH_MAX were opened by their full paths. That failed,
    /// and the groups were silently skipped.
    #[test]
    fn groups_beyond_path_max_are_visited() {
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
    fn groups_are_visited_once_and_within_bounds() {
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
    fn a_visit_may_skip_the_groups_below() {
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
