//! What a thread may still do once it reads bytes of strangers, and what no manager's thread may.
//!
//! Invariant: a thread gives up rights and never gets them back; threads that it starts have no more than it has. Each layer that
//! the kernel lacks is named by [`Confined`], and the other layers hold without it. Threads of a process share its memory: this
//! keeps a thread that is misled from using rights, not code of an attacker from writing into the other threads.

mod calls;
mod never;

use std::io;
use std::path::Path;

use landlock::{ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr};
use landlock::{PathBeneath, PathFd, RulesetCreatedAttr, RulesetStatus, Scope};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};

/// The newest set of Landlock's rights that is asked for. An older kernel has fewer, and keeps to those.
const NEWEST: ABI = ABI::V6;

/// What a thread has given up.
#[derive(Debug)]
pub struct Confined {
    /// What the kernel did not take away, with its reason; empty if all layers hold.
    pub lacks: Vec<String>,
}

/// Whether the kernel has Landlock, switched on.
#[must_use]
pub fn has_landlock() -> bool {
    let asked = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let asked = asked.handle_access(AccessFs::from_all(ABI::V1));
    asked.and_then(Ruleset::create).is_ok()
}

/// For the rest of the calling thread: no capability, no file, no process, no new socket. What is open stays usable.
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

/// For the rest of the calling thread: no capability but those to files of other users. Where the kernel refuses, all stay.
pub fn keep_rights_to_files() {
    let files = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
    let _ = keep_capabilities(files | CapabilitySet::FOWNER);
}

/// For all threads of this process, those that it starts and programs that these start: no call that
/// a manager never makes (`confine/never.rs`): no tracing, no module, no clock, no new root, no io_uring.
/// Nothing is taken from a process without root's rights, which may do none of that: programs that it
/// starts with rights of their own (fusermount3) would lose them.
///
/// # Errors
/// The kernel has no seccomp, or a thread has a filter of its own already.
pub fn forbid_what_no_manager_does() -> io::Result<()> {
    match rustix::process::geteuid().is_root() {
        true => never::forbid(true),
        false => Ok(()),
    }
}

/// For the rest of the calling thread: it makes, changes and removes files beneath this directory
/// alone, wherever its path leads later.
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

fn enforced(status: RulesetStatus) -> Result<(), String> {
    match status {
        RulesetStatus::NotEnforced => Err("the kernel has none, or it is switched off".to_owned()),
        RulesetStatus::PartiallyEnforced | RulesetStatus::FullyEnforced => Ok(()),
    }
}

/// For the rest of the calling thread: no file but what is open already, no TCP port, no abstract socket and no signal of
/// processes outside. What `/proc/PID/root` leads to is a file like any other.
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

/// For the rest of the calling thread: no capability but these. CAP_IPC_LOCK stays where the limit of locked memory is finite and cannot be
/// lifted: all of our memory is locked, and the kernel then refuses a thread without it new memory.
fn keep_capabilities(kept: CapabilitySet) -> rustix::io::Result<()> {
    let kept = match lift_locked_memory() {
        true => kept,
        false => kept | CapabilitySet::IPC_LOCK,
    };
    // No program that it could start has more rights than itself.
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

/// Lifts the process's limit of locked memory; whether there is none now.
fn lift_locked_memory() -> bool {
    let none = Rlimit {
        current: None,
        maximum: None,
    };
    getrlimit(Resource::Memlock).current.is_none() || setrlimit(Resource::Memlock, none).is_ok()
}

#[cfg(test)]
mod tests;
