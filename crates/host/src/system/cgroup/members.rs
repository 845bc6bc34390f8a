//! Who is in a group: `cgroup.procs` of it and of all groups below.
//!
//! Invariant: each process once, in order, kernel threads included. A list is as old as its reading:
//! a process that moves between two groups meanwhile may be missing, or is there once.

use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::{Group, Groups};
use crate::system::error::Error;
use crate::system::proc::read_path;
use crate::system::text::{lines, number32, printable};

impl Groups {
    /// The processes of a group and of those below it; `None` if the group is gone.
    ///
    /// # Errors
    /// If it may not be read, or is a group of threads (version 2, `threaded`), whose processes
    /// belong to a group above.
    pub fn processes(&self, group: &Group) -> Result<Option<Vec<u32>>, Error> {
        let Some(mut pids) = read_procs(&group.dir).map_err(|errno| self.refused(group, errno))?
        else {
            return Ok(None);
        };
        let mut below = subdirectories(&group.dir);
        while let Some(dir) = below.pop() {
            match read_procs(&dir) {
                // A group below that is gone by now has no processes, and a threaded one's are
                // listed with its domain.
                Ok(found) => pids.extend(found.unwrap_or_default()),
                Err(Errno::OPNOTSUPP) => {}
                Err(errno) => return Err(Error::reading(&dir.join("cgroup.procs"), errno)),
            }
            below.extend(subdirectories(&dir));
        }
        pids.sort_unstable();
        pids.dedup();
        Ok(Some(pids))
    }

    /// The processes of this group alone; `None` if it is gone.
    ///
    /// # Errors
    /// As [`Groups::processes`].
    pub fn own_processes(&self, group: &Group) -> Result<Option<Vec<u32>>, Error> {
        read_procs(&group.dir).map_err(|errno| self.refused(group, errno))
    }

    fn refused(&self, group: &Group, errno: Errno) -> Error {
        if errno != Errno::OPNOTSUPP {
            return Error::reading(&group.dir.join("cgroup.procs"), errno);
        }
        Error::NoGroup {
            typed: printable(group.path.as_os_str().as_encoded_bytes()),
            why: "it is a group of threads, whose memory counts to a group above".to_owned(),
            hint: format!(
                "name the nearest group above whose cgroup.type is not threaded, below {}",
                self.mount.display()
            ),
        }
    }
}

fn read_procs(dir: &Path) -> Result<Option<Vec<u32>>, Errno> {
    Ok(read_path(&dir.join("cgroup.procs"))?
        .as_deref()
        .map(parse_procs))
}

/// One pid a line. Those of processes that our pid namespace does not show are 0.
pub(crate) fn parse_procs(text: &[u8]) -> Vec<u32> {
    lines(text)
        .filter_map(number32)
        .filter(|&pid| pid != 0)
        .collect()
}

/// Those that can be read: a group that is gone by now has none.
fn subdirectories(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}
