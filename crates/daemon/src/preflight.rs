//! Checks before anything is started or changed.
//!
//! Invariant: what the host lacks is reported here, with a way to get it, and not later. Nothing is
//! changed.

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

/// Pid of kthreadd in the first pid namespace; other namespaces do not show kernel threads.
const KTHREADD: u32 = 2;

/// A target that was checked: it exists, and the user may manage it.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The tenant, after which the manager's socket is named.
    pub tenant: Tenant,
    /// The processes to manage.
    pub target: Target,
}

/// Returns the process that started a manager by `run`, to be managed from its start on.
#[must_use]
pub(crate) fn own(pid: u32) -> Chosen {
    Chosen {
        tenant: Tenant::Pid(pid),
        target: Target::Descendants(pid),
    }
}

/// Checks that a process may be managed, and returns the process with its descendants.
///
/// # Errors
/// The process does not exist, is a thread or ourselves, or may not be managed.
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
    // On the host, process 1 and its descendants are all processes, also this command. In a
    // container, process 1 is the container's own.
    if pid == 1 && is_first_namespace(&proc)? {
        let what = format!("{wanted}: every process of this host descends from it");
        let hint = "give a program's process, or --cgroup PATH for a service";
        return Err(Error::failed(what, hint));
    }
    rights::may_manage(pid)?;
    Ok(own(pid))
}

/// Whether this is the host's first pid namespace, where all processes of the host are visible.
fn is_first_namespace(proc: &Proc) -> Result<bool, Error> {
    let second = proc.stat(KTHREADD)?;
    Ok(second.is_some_and(|stat| stat.is_kernel()))
}

/// Checks that a control group may be managed, and returns its processes.
///
/// # Errors
/// There is no such group, or it contains everything that runs on this host. Or the user is not
/// root: the group may contain processes of other users.
pub fn group(typed: &str) -> Result<Chosen, Error> {
    let proc = Proc::system()?;
    let groups = Groups::find(&proc)?;
    let group = groups.resolve(typed)?;
    // `/$SLICE` means the host's root if the variable is not set. The root of a container is only a
    // group of the host: only the host's root has kernel threads.
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

/// Checks that pages can be swapped out; if there is a `chosen`, that its pages can.
///
/// # Errors
/// The options need swap, and there is none, or we have no right to page out.
pub fn swap(options: &Options, chosen: Option<&Chosen>) -> Result<(), Error> {
    if options.policy.dry_run || options.limits.swap_max == Size::ZERO {
        return Ok(());
    }
    let proc = Proc::system()?;
    if proc.memory()?.swap_total > 0 {
        // Without swap, the kernel would first activate pages at a limit, and then kill the
        // program. (Many containers may use no swap.)
        if chosen.is_some_and(|chosen| has_no_swap(&proc, &chosen.target)) {
            return Err(Error::missing(
                "the control group may use no swap (memory.swap.max is 0), so cold memory cannot be swapped out",
                "raise memory.swap.max of the group, or of the container",
            ));
        }
        return rights::may_page_out();
    }
    Err(Error::missing(
        "this host has no swap, so cold memory cannot be swapped out",
        "`pagetide swap on` makes compressed swap in memory",
    ))
}

/// Whether the target's control groups allow it no swap.
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

/// Opens the zram for writeback: the device `from`, or by default the one that `swap on` made.
///
/// # Errors
/// There is no zram with a disk behind it, this kernel cannot write back, or a right is missing.
pub fn tier(from: Option<&Path>) -> Result<Tier, Error> {
    Ok(Tier::open(from)?)
}

/// Checks that we may page out and read back pages of other processes: the kernel requires
/// CAP_SYS_NICE for that (process_madvise(2)).
///
/// # Errors
/// We do not have the capability, and the options need it.
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
        "this user may not page out memory (no CAP_SYS_NICE)",
        "run pagetide as root, or give its file the capabilities that `pagetide doctor` names",
    ))
}

/// Checks that the source of ages tells which pages are in use.
///
/// # Errors
/// The source tells nothing, or only which mappings are in use: that is enough for a report, but
/// not for reclaim.
pub fn source(source: AgeSource) -> Result<(), Error> {
    let what = match source {
        AgeSource::PageTables | AgeSource::IdleBitmap => return Ok(()),
        AgeSource::Referenced => {
            "no source here shows which pages are in use, only which mappings: page tables cannot be read"
        }
        AgeSource::None => "no source here shows which memory is in use",
    };
    Err(Error::missing(
        what,
        "`pagetide doctor` says what is missing, and how to get it",
    ))
}
