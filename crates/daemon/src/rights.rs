//! Which processes a user may manage if pagetide's program file has capabilities.
//!
//! Invariant: file capabilities give a user access to no process that the user could not trace
//! without them. No program that this process becomes has them.

use std::os::unix::fs::MetadataExt;

use host::system::rights::without;
use rustix::process::{getgid, getuid};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use crate::error::Error;

/// Returns the capabilities that this process has from its user and not from our file: the kernel
/// clears ambient capabilities if a file has some.
fn ambient() -> CapabilitySet {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    CapabilitySet::from_bits_retain(hex(&status, "CapAmb:").unwrap_or(0))
}

/// Returns the hexadecimal number behind `name` in a /proc/PID/status text; `None` if it has no
/// such line.
pub(crate) fn hex(status: &str, name: &str) -> Option<u64> {
    let text = status.lines().find_map(|line| line.strip_prefix(name))?;
    u64::from_str_radix(text.trim(), 16).ok()
}

/// Drops the capabilities of our file, so that files are opened and programs are found with the
/// user's own rights. Root keeps its capabilities.
///
/// # Errors
/// The kernel's.
pub fn drop_capabilities_of_file() -> Result<(), Error> {
    if getuid().is_root() {
        return Ok(());
    }
    let dropped = capabilities(None).and_then(|mut sets| {
        let own = ambient();
        sets.effective = sets.effective.intersection(own);
        sets.permitted = sets.permitted.intersection(own);
        set_capabilities(None, sets)
    });
    dropped.map_err(|error| {
        let what = format!("cannot give up the capabilities of pagetide's file: {error}");
        Error::missing(what, "this should not happen; please report it")
    })
}

/// Runs `act` with the user's own rights to files, so that pagetide's file capabilities open no
/// file that the user may not open. The calling thread gets its capabilities back afterwards.
pub fn as_user<T>(act: impl FnOnce() -> T) -> T {
    let files = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
    without(files.difference(ambient()), act)
}

/// Checks that the user has the rights to serve a tree without our file's capabilities, which are
/// only for managing the user's own processes.
///
/// # Errors
/// The user has these rights only by our file's capabilities.
pub(crate) fn refuse_file_capabilities() -> Result<(), Error> {
    let own = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.permitted);
    if getuid().is_root() || own.difference(ambient()).is_empty() {
        return Ok(());
    }
    Err(Error::missing(
        "cannot serve a tree of tenants with the capabilities of pagetide's file: it is about processes of all users",
        "run it as root",
    ))
}

/// Checks that the user may manage a process. Root, and a user with CAP_SYS_PTRACE, may manage
/// every process that the kernel lets them trace; other users may manage their own processes if
/// these can be traced (ptrace(2), access mode checking).
///
/// # Errors
/// Why the user may not manage the process.
pub fn may_manage(pid: u32) -> Result<(), Error> {
    if getuid().is_root() || ambient().contains(CapabilitySet::SYS_PTRACE) {
        return Ok(());
    }
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let owner = std::fs::metadata(format!("/proc/{pid}")).map_or(u32::MAX, |meta| meta.uid());
    match reason(&status, owner, (getuid().as_raw(), getgid().as_raw())) {
        None => Ok(()),
        Some(why) => Err(Error::missing(
            format!("cannot manage pid {pid}: {why}"),
            "run pagetide as that process's user, or as root",
        )),
    }
}

/// Checks that the kernel lets us page out memory of other processes; it requires a capability even
/// for processes of our own user (process_madvise(2)).
///
/// # Errors
/// We do not have the capability.
pub(crate) fn may_page_out() -> Result<(), Error> {
    let ours = capabilities(None).map(|sets| sets.effective);
    match ours.is_ok_and(|ours| ours.contains(CapabilitySet::SYS_NICE)) {
        true => Ok(()),
        false => Err(Error::missing(
            "memory of other processes cannot be paged out without CAP_SYS_NICE",
            "run as root, or give pagetide's file the capability: `pagetide doctor` says how",
        )),
    }
}

/// Whether all ids in the line `name` of a /proc/PID/status text are `id`.
pub(crate) fn are_all(status: &str, name: &str, id: u32) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.is_some_and(|ids| ids.split_whitespace().all(|one| one.parse() == Ok(id)))
}

/// Returns why a user (uid, gid) may not trace a process, by the text of /proc/PID/status and the
/// owner of /proc/PID; `None` if the user may.
fn reason(status: &str, owner: u32, (uid, gid): (u32, u32)) -> Option<&'static str> {
    if !are_all(status, "Uid:", uid) || !are_all(status, "Gid:", gid) {
        return Some("it belongs to another user or group");
    }
    if hex(status, "CapPrm:") != Some(0) {
        return Some("it has capabilities");
    }
    (owner != uid).then_some("it does not let itself be traced (PR_SET_DUMPABLE)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_traceable_processes_may_be_managed() {
        let status = |uid: &str, caps: &str| {
            format!("Name:\tx\nUid:\t{uid}\nGid:\t7\t7\t7\t7\nCapPrm:\t{caps}\n")
        };
        let own = status("5\t5\t5\t5", "0000000000000000");
        assert_eq!(reason(&own, 5, (5, 7)), None);
        assert!(reason(&own, 0, (5, 7)).is_some(), "not dumpable");
        assert!(reason(&own, 5, (5, 8)).is_some(), "another group");
        let setuid = status("5\t0\t0\t0", "0000000000000000");
        assert!(reason(&setuid, 5, (5, 7)).is_some());
        let capable = status("5\t5\t5\t5", "0000000000200000");
        assert!(reason(&capable, 5, (5, 7)).is_some());
        assert!(reason("", 5, (5, 7)).is_some(), "gone");
    }
}
