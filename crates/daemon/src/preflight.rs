//! What is checked before anything is started or touched.
//!
//! Invariant: what a host cannot give at all is said here, with the way to get it, and never found out
//! later. Nothing is changed.

use std::path::{Path, PathBuf};

use host::report::AgeSource;
use host::swap::Tier;
use host::system::{Groups, Proc, Target};
use rustix::process::getuid;
use rustix::thread::{CapabilitySet, capabilities};

use crate::control::Tenant;
use crate::error::Error;
use crate::options::{Options, Size};
use crate::rights;

/// The kernel's second process, which is to be seen in the first pid namespace alone.
const KTHREADD: u32 = 2;

/// A tenant that exists and may be managed.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// Its name.
    pub tenant: Tenant,
    /// Its processes.
    pub target: Target,
}

/// The process that a manager was started by, to be managed from its start on.
#[must_use]
pub(crate) fn own(pid: u32) -> Chosen {
    Chosen {
        tenant: Tenant::Pid(pid),
        target: Target::Descendants(pid),
    }
}

/// A process with its descendants.
///
/// # Errors
/// It does not exist, is a thread or ourselves, or may not be managed.
pub fn process(pid: u32) -> Result<Chosen, Error> {
    let wanted = format!("cannot manage pid {pid}");
    let proc = Proc::system()?;
    let status = proc.status(pid)?.ok_or_else(|| {
        let what = format!("{wanted}: there is no such process");
        Error::failed(what, "`pagetide top` shows those that run")
    })?;
    if status.tgid != pid {
        let first = status.tgid;
        let what = format!("{wanted}: it is a thread of process {first}");
        return Err(Error::failed(what, format!("give {first}")));
    }
    if pid == std::process::id() {
        let what = format!("{wanted}: that is pagetide itself");
        return Err(Error::failed(what, "give another process"));
    }
    let stat = proc.stat(pid)?;
    if stat.as_ref().is_some_and(|stat| stat.is_kernel()) {
        let what = format!("{wanted}: it is a thread of the kernel");
        return Err(Error::failed(what, "give a program's process"));
    }
    if stat.as_ref().is_some_and(|stat| stat.is_over()) {
        let what = format!("{wanted}: it has ended (a zombie)");
        return Err(Error::failed(what, "its parent has not waited for it yet"));
    }
    // Its descendants are the host, whoever asks included. A container has an init of its own.
    if pid == 1 && is_first_namespace(&proc)? {
        let what = format!("{wanted}: every process of this host descends from it");
        let hint = "give a program's process, or --cgroup PATH for a service";
        return Err(Error::failed(what, hint));
    }
    rights::may_manage(pid)?;
    Ok(own(pid))
}

/// Whether all processes of the host are to be seen here.
fn is_first_namespace(proc: &Proc) -> Result<bool, Error> {
    let second = proc.stat(KTHREADD)?;
    Ok(second.is_some_and(|stat| stat.is_kernel()))
}

/// The processes of a control group.
///
/// # Errors
/// There is none of that name, it is all that runs on this host, or the user is not root: who else is in a group is nothing that one user
/// could answer for.
pub fn group(typed: &str) -> Result<Chosen, Error> {
    let proc = Proc::system()?;
    let groups = Groups::find(&proc)?;
    let group = groups.resolve(typed)?;
    // What `/$SLICE` is where that is not set. A container's root is a group of its own: threads of the kernel are in the host's alone.
    if group == groups.root() && is_first_namespace(&proc)? {
        let pids = groups.processes(&group)?.unwrap_or_default();
        if pids.contains(&KTHREADD) {
            let what = "cannot manage control group /: every process of this host is in it";
            let hint = "give the group of a service, such as --cgroup system.slice/nginx.service";
            return Err(Error::failed(what, hint));
        }
    }
    if !getuid().is_root() {
        let path = group.path.display();
        return Err(Error::missing(
            format!("cannot manage control group {path}: that is root's"),
            "run pagetide as root, or give a process of your own",
        ));
    }
    Ok(Chosen {
        tenant: Tenant::Group(PathBuf::clone(&group.path)),
        target: Target::Group(group),
    })
}

/// Whether pages have somewhere to go, those of who is meant if somebody is.
///
/// # Errors
/// There is no swap, or no right to page out, and it would be used.
pub fn swap(options: &Options, chosen: Option<&Chosen>) -> Result<(), Error> {
    if options.policy.dry_run || options.limits.swap_max == Size::ZERO {
        return Ok(());
    }
    let proc = Proc::system()?;
    if proc.memory()?.swap_total > 0 {
        // The kernel would make active what cannot go, and kill at a limit. (Containers often may use no swap.)
        if chosen.is_some_and(|chosen| has_no_swap(&proc, &chosen.target)) {
            return Err(Error::missing(
                "the control group may use no swap (memory.swap.max is 0), so cold memory has nowhere to go",
                "raise memory.swap.max of the group, or of the container",
            ));
        }
        return rights::may_page_out();
    }
    Err(Error::missing(
        "this host has no swap, so cold memory has nowhere to go",
        "`pagetide swap on` makes compressed swap in memory",
    ))
}

/// Whether the kernel lets nothing of a target be in swap.
fn has_no_swap(proc: &Proc, target: &Target) -> bool {
    let Ok(groups) = Groups::find(proc) else {
        return false;
    };
    let group = match target {
        Target::Descendants(pid) => groups.of_process(proc, *pid).ok().flatten(),
        Target::Group(group) => Some(group.clone()),
        Target::All => None,
    };
    group.is_some_and(|group| groups.swap_limit(&group) == Some(0))
}

/// The zram that is to be written back from, the one of `swap on` unless another is named.
///
/// # Errors
/// There is none with a disk behind it, this kernel writes nothing back, or a right is missing.
pub fn tier(from: Option<&Path>) -> Result<Tier, Error> {
    Ok(Tier::open(from)?)
}

/// Whether pages of another process may be put out and read back: the kernel asks for CAP_SYS_NICE, whoever's
/// process it is (process_madvise(2)).
///
/// # Errors
/// We do not have it, and it would be used.
pub fn right(options: &Options) -> Result<(), Error> {
    if options.policy.dry_run || options.limits.swap_max == Size::ZERO {
        return Ok(());
    }
    let held =
        capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_NICE));
    if held {
        return Ok(());
    }
    Err(Error::missing(
        "memory may not be paged out by this user (no CAP_SYS_NICE)",
        "run pagetide as root, or give its file the capabilities that `pagetide doctor` names",
    ))
}

/// Whether it is known which pages are in use.
///
/// # Errors
/// It is not: how much of a mapping is, and whether, is enough for a report alone.
pub fn source(source: AgeSource) -> Result<(), Error> {
    let what = match source {
        AgeSource::PageTables | AgeSource::IdleBitmap => return Ok(()),
        AgeSource::Referenced => {
            "nothing here tells which pages are in use, only which mappings: page tables cannot be read"
        }
        AgeSource::None => "nothing here tells which memory is in use",
    };
    Err(Error::missing(
        what,
        "`pagetide doctor` says what is missing, and how to get it",
    ))
}
