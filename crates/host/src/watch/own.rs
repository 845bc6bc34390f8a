//! What we do about ourselves before we look at others.
//!
//! Invariant: nothing that could end us: memory is locked only where no limit can be met later.

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
};

use crate::system::Proc;

/// `CAP_IPC_LOCK` in `linux/capability.h`.
const CAP_IPC_LOCK: u64 = 1 << 14;

/// Whether this process is pagetide's own; to one that only calls us nothing is done.
pub(super) struct Own(bool);

impl Own {
    /// It, readable to itself if it is ours.
    pub(super) fn prepared(is_ours: bool) -> Own {
        if is_ours {
            stay_readable();
            raise_descriptors();
            pagetables::give_large_blocks_back();
        }
        Own(is_ours)
    }

    /// [`lock_memory`], of our own process.
    ///
    /// # Errors
    /// Why it is not locked, as a note.
    pub(super) fn lock_memory(&self, proc: &Proc) -> Result<(), String> {
        match self.0 {
            true => lock_memory(proc),
            false => Ok(()),
        }
    }
}

/// A program with file capabilities belongs to root in `/proc`, and may not read its own page tables there.
/// Those who lack our capabilities may still not trace us (commoncap checks that apart).
pub(crate) fn stay_readable() {
    // Where it cannot be changed, opening our own files says so.
    let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
    if !rustix::process::geteuid().is_root() {
        // A core would have addresses of the kernel's in it, which our user is not to know.
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

/// Each process that is watched costs a descriptor (who clears its bits, [`crate::ages`]), and usual is a limit of 1,024, which we may raise.
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

/// Our pages must not go while memory is short: that is when we are asked. Under a limit, memory that is
/// locked now would make a later allocation fail, and end us: so it is locked without one only.
///
/// # Errors
/// Why it is not locked, as a note.
fn lock_memory(proc: &Proc) -> Result<(), String> {
    let is_free = may_lock(proc) || getrlimit(Resource::Memlock).current.is_none();
    if !is_free {
        return Err(
            "our own memory is not locked: there is a limit (CAP_IPC_LOCK, or ulimit -l unlimited)"
                .to_owned(),
        );
    }
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    mlockall(flags).map_err(|error| format!("our own memory is not locked: {error}"))
}

/// Whether limits of locked memory do not apply to us.
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
