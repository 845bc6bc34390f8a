//! Confinement: removes rights from a thread before it reads data of untrusted clients, and forbids
//! all threads of a manager the system calls that a manager never makes.
//!
//! Invariant: a thread never regains rights. Threads that it starts have no more rights than it
//! has. If the kernel lacks a layer (Landlock, capabilities, seccomp), [`Confined`] names it, and
//! the other layers work without it. Threads of a process share its memory. So confinement keeps a
//! thread with a fault from using rights, but does not keep an attacker's code in it from writing
//! to the memory of other threads.

mod calls;
mod never;

use std::io;
use std::path::Path;

use landlock::{ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr};
use landlock::{PathBeneath, PathFd, RulesetCreatedAttr, RulesetStatus, Scope};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};

/// Newest version of Landlock's access rights that we request. An older kernel applies those of the
/// rights that it supports.
const NEWEST: ABI = ABI::V6;

/// Result of [`confine_to_open_descriptors`].
#[derive(Debug)]
pub struct Confined {
    /// Layers (Landlock, capabilities, seccomp) that the kernel did not apply, each with the
    /// reason; empty if all work.
    pub lacks: Vec<String>,
}

/// Returns whether the kernel has Landlock, and Landlock is enabled.
#[must_use]
pub fn has_landlock() -> bool {
    let requested = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let requested = requested.handle_access(AccessFs::from_all(ABI::V1));
    requested.and_then(Ruleset::create).is_ok()
}

/// Removes from the calling thread, until it ends, all capabilities, and the right to open files,
/// to start processes and to make sockets. Descriptors that are already open stay usable.
pub fn confine_to_open_descriptors() -> Confined {
    let mut lacks = Vec::new();
    let mut note = |what: &str, done: Result<(), String>| {
        lacks.extend(done.err().map(|why| format!("{what}: {why}")));
    };
    let text = |error: io::Error| error.to_string();
    note("Landlock", forbid_files());
    let dropped = keep_capabilities(CapabilitySet::empty());
    note("capabilities", dropped.map_err(|errno| text(errno.into())));
    note("seccomp", calls::allow_few().map_err(text));
    Confined { lacks }
}

/// Drops all capabilities of the calling thread except the three that give access to other users'
/// files. If the kernel refuses, the thread keeps all its capabilities.
pub fn keep_rights_to_files() {
    let files = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
    let _ = keep_capabilities(files | CapabilitySet::FOWNER);
}

/// Forbids system calls that a manager never makes (`confine/never.rs`): tracing, loading modules,
/// setting the clock, changing the root directory, io_uring, and others. The filter applies to all
/// threads of this process, to those that they start, and to programs that any of them starts.
///
/// Does nothing if the process is not root. Such a process could not make these calls anyway, and
/// the filter would take the rights of set-user-ID programs that it starts (fusermount3).
///
/// # Errors
/// The kernel has no seccomp, or a thread has a filter of its own already.
pub fn forbid_what_no_manager_does() -> io::Result<()> {
    match rustix::process::geteuid().is_root() {
        true => never::forbid(true),
        false => Ok(()),
    }
}

/// Restricts the calling thread, until it ends, to make, change and remove files only beneath this
/// directory. Renaming the directory or reusing its path later changes nothing.
///
/// # Errors
/// The directory cannot be opened, or the kernel has no Landlock.
pub fn change_files_beneath(directory: &Path) -> Result<(), String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    let place = PathFd::new(directory).map_err(|error| text(&error))?;
    let changes = AccessFs::from_write(NEWEST);
    let done = Ruleset::default()
        .handle_access(changes)
        .and_then(Ruleset::create)
        .and_then(|ruleset| ruleset.add_rule(PathBeneath::new(place, changes)))
        .and_then(landlock::RulesetCreated::restrict_self);
    enforced(done.map_err(|error| text(&error))?.ruleset)
}

/// Returns an error if Landlock has not restricted the thread.
fn enforced(status: RulesetStatus) -> Result<(), String> {
    match status {
        RulesetStatus::NotEnforced => Err("the kernel has none, or it is switched off".to_owned()),
        RulesetStatus::PartiallyEnforced | RulesetStatus::FullyEnforced => Ok(()),
    }
}

/// Forbids the calling thread, until it ends, to use files that are not open already, TCP ports,
/// and abstract sockets of and signals to other processes. This includes files below
/// `/proc/PID/root`.
///
/// # Errors
/// The kernel has no Landlock.
fn forbid_files() -> Result<(), String> {
    let ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))
        .and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(NEWEST)))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(NEWEST)))
        .and_then(Ruleset::create);
    let done = ruleset.and_then(landlock::RulesetCreated::restrict_self);
    enforced(done.map_err(|error| error.to_string())?.ruleset)
}

/// Drops all capabilities of the calling thread except those in `kept`.
///
/// CAP_IPC_LOCK is kept as well if the limit of locked memory is finite and cannot be removed: all
/// our memory is locked, and the kernel would refuse new memory to a thread without that
/// capability.
fn keep_capabilities(kept: CapabilitySet) -> rustix::io::Result<()> {
    let kept = match lift_locked_memory() {
        true => kept,
        false => kept | CapabilitySet::IPC_LOCK,
    };
    // No program that the thread starts gets more rights than the thread has.
    set_no_new_privs(true)?;
    let before = rustix::thread::capabilities(None)?;
    let kept = before.permitted.intersection(kept);
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, sets)
}

/// Removes the limit of locked memory of the process. Returns whether it is unlimited afterwards.
fn lift_locked_memory() -> bool {
    let none = Rlimit {
        current: None,
        maximum: None,
    };
    getrlimit(Resource::Memlock).current.is_none() || setrlimit(Resource::Memlock, none).is_ok()
}

#[cfg(test)]
mod tests;
