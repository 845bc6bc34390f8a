//! Who is in a group: `cgroup.procs` of it and of all groups below.
//!
//! Invariant: each process once, in order, kernel threads included. A list is as old as its reading:
//! a process that moves between two groups meanwhile may be missing, or is there once.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use super::walk::{self, Most, Next, is_gone};
use super::{Group, Groups};
use crate::system::error::Error;
use crate::system::proc::read_all;
use crate::system::text::{lines, number32, printable};

impl Groups {
    /// The processes of a group and of those below it; `None` if the group is gone.
    ///
    /// # Errors
    /// If it may not be read, or is a group of threads (version 2, `threaded`), whose processes
    /// belong to a group above.
    pub fn processes(&self, group: &Group) -> Result<Option<Vec<u32>>, Error> {
        let top = match walk::open(&group.dir) {
            Ok(top) => top,
            Err(errno) if is_gone(errno) => return Ok(None),
            Err(errno) => return Err(Error::reading(&group.dir, errno)),
        };
        let (mut pids, mut failed) = (Vec::new(), group.dir.clone());
        let walked = walk::walk::<Errno>(top, Most::ALL, &mut |visited| {
            match own_processes(visited.dir) {
                Ok(found) => pids.extend(found),
                // A group below that is gone by now has no processes, and those of a group of
                // threads are
                // listed with its domain.
                Err(errno) if is_gone(errno) && visited.depth() > 0 => {}
                Err(Errno::OPNOTSUPP) if visited.depth() > 0 => {}
                Err(errno) => {
                    failed = visited.path(&group.dir).join("cgroup.procs");
                    return Err(errno);
                }
            }
            Ok(Next::Below)
        });
        match walked {
            Ok(_) => {}
            Err(errno) if is_gone(errno) => return Ok(None),
            Err(errno) if failed == group.dir.join("cgroup.procs") => {
                return Err(self.refused(group, errno));
            }
            Err(errno) => return Err(Error::reading(&failed, errno)),
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
        match walk::open(&group.dir).and_then(|dir| own_processes(&dir)) {
            Ok(pids) => Ok(Some(pids)),
            Err(errno) if is_gone(errno) => Ok(None),
            Err(errno) => Err(self.refused(group, errno)),
        }
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

/// The processes of an open group alone.
///
/// # Errors
/// The kernel's: EOPNOTSUPP of a group of threads (version 2).
pub(crate) fn own_processes(dir: &OwnedFd) -> Result<Vec<u32>, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = openat(dir, c"cgroup.procs", flags, Mode::empty())?;
    let mut text = Vec::with_capacity(4096);
    read_all(&file, usize::MAX, &mut text)?;
    Ok(parse_procs(&text))
}

/// One pid a line. Those of processes that our pid namespace does not show are 0.
pub(crate) fn parse_procs(text: &[u8]) -> Vec<u32> {
    lines(text)
        .filter_map(number32)
        .filter(|&pid| pid != 0)
        .collect()
}
