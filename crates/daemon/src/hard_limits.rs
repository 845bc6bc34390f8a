//! The hard-limit cgroup around what `run` starts: the only code that calls `host::hard_limit`.
//!
//! Invariant: the process that made a hard-limit cgroup lifts its limit and removes it; if that
//! process is killed, the group's guard does.

use std::path::Path;

use host::hard_limit::{HardLimit, guard};
use host::system::cgroup::Version;
use host::system::{Groups, Proc};

use crate::error::Error;

/// The program file of this process, also if its path was replaced or removed.
const EXE: &str = "/proc/self/exe";

/// Makes a hard-limit cgroup around a process, and starts its guard.
///
/// # Errors
/// No control group can be made; then nothing remains of the attempt.
pub(crate) fn make(pid: u32) -> Result<HardLimit, Error> {
    let proc = Proc::system()?;
    let manager = proc
        .identity(std::process::id())?
        .ok_or_else(|| Error::failed("this process is not in /proc", "mount /proc"))?;
    // Groups of managers that were killed together with their guards.
    for hard_limit in HardLimit::claim_all(&proc, manager)? {
        remove(Some(hard_limit));
    }
    // Until the waiting process becomes the program it runs our code, and may be moved.
    let hard_limit = HardLimit::make(&proc, manager, &[pid])?;
    let entered = guard::start(&hard_limit, Path::new(EXE)).and_then(|_| hard_limit.enter(pid));
    match entered {
        Ok(()) => Ok(hard_limit),
        Err(error) => {
            remove(Some(hard_limit));
            let what = format!("cannot move pid {pid} to a hard-limit cgroup: {error}");
            Err(Error::failed(
                what,
                "pagetide doctor says what this host offers",
            ))
        }
    }
}

/// Makes a hard-limit cgroup around a process, as [`make`] does, if only swap is limited.
///
/// # Errors
/// No control group can be made, or the host has cgroup version 1, which limits swap only together
/// with memory.
pub(crate) fn make_for_swap(pid: u32) -> Result<HardLimit, Error> {
    if Groups::find(&Proc::system()?)?.version == Version::V1 {
        return Err(Error::missing(
            "groups of version 1 limit swap beside --memory-max alone",
            "give --memory-max, too",
        ));
    }
    make(pid)
}

/// Lifts the limit of a hard-limit cgroup, then removes the cgroup. If it cannot be removed it has
/// no limit any more, and the next manager that starts removes it.
pub(crate) fn remove(hard_limit: Option<HardLimit>) {
    if let Some(hard_limit) = hard_limit {
        let _ = hard_limit.lift();
        let _ = hard_limit.remove();
    }
}
