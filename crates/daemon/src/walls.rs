//! The control group of our own around what `run` starts: the only place that calls `host::wall`.
//!
//! Invariant: a wall that was made is lifted and removed by whoever made it, or, if that is killed, by
//! its guard.

use std::path::Path;

use host::system::cgroup::Version;
use host::system::{Groups, Proc};
use host::wall::{Wall, guard};

use crate::error::Error;

/// Our own program, whatever became of its file.
const EXE: &str = "/proc/self/exe";

/// Makes a wall around a process, with a guard beside it.
///
/// # Errors
/// There is no control group to be had. Then nothing is left of it.
pub(crate) fn raise(pid: u32) -> Result<Wall, Error> {
    let proc = Proc::system()?;
    let manager = proc
        .identity(std::process::id())?
        .ok_or_else(|| Error::failed("this process is not in /proc", "mount /proc"))?;
    // Of dead managers, whose guards died with them.
    for wall in Wall::left_behind(&proc, manager)? {
        fall(Some(wall));
    }
    // The process that waits to become the program is ours until then, and may be moved.
    let wall = Wall::make(&proc, manager, &[pid])?;
    let entered = guard::start(&wall, Path::new(EXE)).and_then(|_| wall.enter(pid));
    match entered {
        Ok(()) => Ok(wall),
        Err(error) => {
            fall(Some(wall));
            let what = format!("cannot put pid {pid} behind a wall: {error}");
            Err(Error::failed(
                what,
                "pagetide doctor says what this host offers",
            ))
        }
    }
}

/// The same where swap alone has a limit.
///
/// # Errors
/// There is no control group to be had, or it is of version 1, which limits swap beside a limit of memory alone.
pub(crate) fn raise_for_swap(pid: u32) -> Result<Wall, Error> {
    if Groups::find(&Proc::system()?)?.version == Version::V1 {
        return Err(Error::missing(
            "groups of version 1 limit swap beside --memory-max alone",
            "give --memory-max, too",
        ));
    }
    raise(pid)
}

/// Lifts a wall and removes it, in order. What cannot be removed has no limit any more, and the next start
/// takes it up.
pub(crate) fn fall(wall: Option<Wall>) {
    if let Some(wall) = wall {
        let _ = wall.lift();
        let _ = wall.remove();
    }
}
