//! Which processes are in a group: `cgroup.procs` of the group and of all groups below it.
//!
//! Invariant: each process is listed once, in ascending order of pids; kernel threads are included.
//! A process that moves from one group to another during the listing may be missing.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use super::walk::{self, Most, Next, is_gone};
use super::{Group, Groups};
use crate::system::error::Error;
use crate::system::proc::read_all;
use crate::system::text::{lines, number32, printable};

impl Groups {
    /// Returns the pids of the processes in a group and in the groups below it; `None` if the group
    /// is gone.
    ///
    /// # Errors
    /// The group may not be read, or is a threaded group (version 2, `threaded`), whose processes
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
                // A child group that has been removed meanwhile has no processes. The processes of
                // a threaded group are listed in the group above it.
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

    /// Returns the pids of the processes in this group, without groups below; `None` if the group
    /// is gone.
    ///
    /// # Errors
    /// Those of [`Groups::processes`].
    pub fn own_processes(&self, group: &Group) -> Result<Option<Vec<u32>>, Error> {
        match walk::open(&group.dir).and_then(|dir| own_processes(&dir)) {
            Ok(pids) => Ok(Some(pids)),
            Err(errno) if is_gone(errno) => Ok(None),
            Err(errno) => Err(self.refused(group, errno)),
        }
    }

    /// Returns the error for a group whose processes could not be read.
    fn refused(&self, group: &Group, errno: Errno) -> Error {
        if errno != Errno::OPNOTSUPP {
            return Error::reading(&group.dir.join("cgroup.procs"), errno);
        }
        Error::NoGroup {
            typed: printable(group.path.as_os_str().as_encoded_bytes()),
            why: "it is a group of threads, whose memory is charged to a group above it".to_owned(),
            hint: format!(
                "name the nearest group above whose cgroup.type is not threaded, below {}",
                self.mount.display()
            ),
        }
    }
}

/// Returns the pids of the processes in an open group, without groups below.
///
/// # Errors
/// The kernel's error: EOPNOTSUPP for a threaded group (version 2).
pub(crate) fn own_processes(dir: &OwnedFd) -> Result<Vec<u32>, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = openat(dir, c"cgroup.procs", flags, Mode::empty())?;
    let mut text = Vec::with_capacity(4096);
    read_all(&file, usize::MAX, &mut text)?;
    Ok(parse_procs(&text))
}

/// Parses one pid per line. Lines with 0 are skipped: the kernel writes 0 for a process that our
/// pid namespace does not show.
pub(crate) fn parse_procs(text: &[u8]) -> Vec<u32> {
    lines(text)
        .filter_map(number32)
        .filter(|&pid| pid != 0)
        .collect()
}
