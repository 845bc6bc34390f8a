//! Prepares pagetide's own process before it scans others.
//!
//! Invariant: nothing here can end our process. Memory is locked only if our process cannot reach a
//! limit of locked memory later.

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
};

use crate::system::{Groups, Proc};

/// How many quarters of the memory that the control groups allow our process may be used for ages.
/// The rest is for the program itself, its reports and requests.
const QUARTERS: u64 = 3;

/// `CAP_IPC_LOCK` in `linux/capability.h`.
const CAP_IPC_LOCK: u64 = 1 << 14;

/// Whether this process is pagetide itself; for a program that only uses this library, nothing is
/// changed.
pub(super) struct OwnProcess(bool);

impl OwnProcess {
    /// If this process is pagetide itself, keeps our `/proc` files readable and raises our limits.
    pub(super) fn prepared(is_ours: bool) -> OwnProcess {
        if is_ours {
            stay_readable();
            raise_descriptors();
            sys::give_large_blocks_back();
        }
        OwnProcess(is_ours)
    }

    /// Locks our memory ([`lock_memory`]) if this process is pagetide itself.
    ///
    /// # Errors
    /// A note that says why the memory is not locked.
    pub(super) fn lock_memory(&self, proc: &Proc) -> Result<(), String> {
        match self.0 {
            true => lock_memory(proc),
            false => Ok(()),
        }
    }
}

/// Returns how much of our memory may be used for ages, bytes, by the limits of our control group
/// and the groups above it; `None` if there is no limit. Without this bound, a pod with less memory
/// than the ages of its node need is killed in its first scan.
pub(super) fn memory(proc: &Proc, groups: Option<&Groups>) -> Option<u64> {
    let groups = groups?;
    let group = groups.of_process(proc, std::process::id()).ok().flatten()?;
    Some(groups.memory_limit(&group)? / 4 * QUARTERS)
}

/// Keeps our own files in `/proc` readable to us. If our program has file capabilities, these files
/// belong to root by default, and we could not read our own page tables. Processes without our
/// capabilities still cannot trace us (commoncap checks that separately).
pub(crate) fn stay_readable() {
    // If this fails, an error is reported when our own files are opened.
    let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
    if !rustix::process::geteuid().is_root() {
        // A core dump would contain kernel addresses, which our user must not see.
        let none = Some(0);
        let _ = setrlimit(
            Resource::Core,
            Rlimit {
                current: none,
                maximum: none,
            },
        );
    }
}

/// Raises the limit of open descriptors, usually 1,024, to the allowed maximum. Each watched
/// process needs a descriptor: that of the access worker that clears its bits ([`crate::ages`]).
fn raise_descriptors() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        let raised = Rlimit {
            current: maximum,
            maximum,
        };
        let _ = setrlimit(Resource::Nofile, raised);
    }
}

/// Locks our pages in memory, as we must respond when memory is short. Does so only if locked
/// memory is not limited: otherwise a later allocation could fail and end our process.
///
/// # Errors
/// A note that says why the memory is not locked.
fn lock_memory(proc: &Proc) -> Result<(), String> {
    let is_free = may_lock(proc) || getrlimit(Resource::Memlock).current.is_none();
    if !is_free {
        return Err(
            "pagetide's own memory is not locked: there is a limit (CAP_IPC_LOCK, or ulimit -l unlimited)"
                .to_owned(),
        );
    }
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    mlockall(flags).map_err(|error| format!("pagetide's own memory is not locked: {error}"))
}

/// Returns whether the limit of locked memory does not apply to us.
fn may_lock(proc: &Proc) -> bool {
    let status = proc
        .read_own("self/status")
        .ok()
        .flatten()
        .unwrap_or_default();
    let text = String::from_utf8_lossy(&status);
    let line = text.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = line
        .and_then(|line| u64::from_str_radix(line.trim(), 16).ok())
        .unwrap_or(0);
    held & CAP_IPC_LOCK != 0
}
