//! Finds the manager of a process, also one that manages an ancestor of the process, by a request
//! to each manager that listens in our directories.
//!
//! Invariant: a manager that does not reply within [`REPLY_MAX`], refuses the request or does not
//! listen counts as a manager that does not manage the process. Only managers of root and of our
//! own user are sent a request.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use host::system::process::Stat;
use host::system::{Proc, start};
use rustix::io::Errno;

use super::client::is_managed;
use super::peer::Peer;
use super::{ControlError, Request, Response, Tenant, ask, manager_of, socket};

/// Longest wait for the reply of one manager.
const REPLY_MAX: Duration = Duration::from_millis(500);

/// Longest wait for the replies of all managers together, since each of them may be stopped
/// (SIGSTOP).
const REPLIES_MAX: Duration = Duration::from_secs(3);

/// Time between two checks whether a manager listens.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// Longest wait until the manager of a `run` listens. The pid of `run` is that of its program, so a
/// command can name it before the manager listens.
const MANAGER_START_MAX: Duration = Duration::from_secs(5);

/// Age up to which a process that a shell forked may still be about to call `run`.
const NEWBORN: Duration = Duration::from_millis(200);
/// [`NEWBORN`] in clock ticks of /proc/PID/stat, of which there are 100 a second.
const NEWBORN_TICKS: u64 = 20;

/// A tenant with a manager.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Managed {
    /// The tenant after which the manager's socket is named.
    pub tenant: Tenant,
    /// Pid of the tenant's manager; 0 if the manager is in another pid namespace.
    pub manager: u32,
}

/// Finds the manager of a tenant: the manager with the tenant's name or, for a process, a manager
/// that has the process among the descendants it manages. `None` if there is none.
///
/// # Errors
/// The [`ControlError`] of connecting to the socket with the tenant's own name.
pub fn find(tenant: &Tenant) -> Result<Option<Managed>, ControlError> {
    if let Some(manager) = manager_of(tenant)?.filter(|_| !is_anothers(tenant)) {
        let tenant = tenant.clone();
        return Ok(Some(Managed { tenant, manager }));
    }
    let Some(pid) = tenant.pid() else {
        return Ok(None);
    };
    let end = Instant::now() + REPLIES_MAX;
    Ok(managed()
        .into_iter()
        .take_while(|_| Instant::now() < end)
        .find_map(|tenant| {
            let answer = ask(&tenant, &Request::Manages { pid }, REPLY_MAX);
            let has = matches!(answer, Ok(Response::Manages(true)));
            let manager = manager_of(&tenant).ok().flatten()?;
            has.then_some(Managed { tenant, manager })
        }))
}

/// Finds a manager like [`find`], but first waits if the process is a `pagetide run` that is about
/// to start its manager. Otherwise the second command of `pagetide run ... & pagetide reclaim $!`
/// could take the tenant's name before the manager does.
///
/// # Errors
/// Those of [`find`].
pub fn find_begun(tenant: &Tenant) -> Result<Option<Managed>, ControlError> {
    // Only the tenant's own name matters here: the manager of a process has its name before that
    // process becomes its program. [`find`] asks the other managers afterwards.
    if let Some(pid) = tenant.pid() {
        let begun = Instant::now();
        let may_begin = || {
            let time = begun.elapsed();
            time < NEWBORN && is_newborn(pid) || time < MANAGER_START_MAX && is_about_to_run(pid)
        };
        while may_begin() && manager_of(tenant)?.is_none() {
            std::thread::sleep(RETRY_PAUSE);
        }
    }
    find(tenant)
}

/// Waits, for the manager of a `run`, until the tenant's name is free. A short command such as
/// `reclaim` may have taken the name before this `run` was visible, and soon releases it. Does not
/// wait if the name belongs to a manager that replies to a ping.
pub(crate) fn wait_for_name(tenant: &Tenant) {
    let begun = Instant::now();
    let manages = || {
        matches!(
            ask(tenant, &Request::Ping {}, REPLY_MAX),
            Ok(Response::Pong(_))
        )
    };
    let is_taken = || {
        matches!(manager_of(tenant), Ok(Some(_))) && !is_held_by_a_stranger(tenant) && !manages()
    };
    while begun.elapsed() < MANAGER_START_MAX && is_taken() {
        std::thread::sleep(RETRY_PAUSE);
    }
}

/// Whether a process is a `pagetide run` that has not become its program yet. For a moment within
/// execve(2) a process has our name and no arguments; such a process counts, too.
fn is_about_to_run(pid: u32) -> bool {
    let stat = stat(pid).filter(|stat| stat.comm == start::NAME && !stat.is_over());
    let words = Proc::system().and_then(|proc| proc.words(pid));
    let words = words.unwrap_or_default();
    stat.is_some() && (words.is_empty() || words.split(|byte| *byte == 0).nth(1) == Some(b"run"))
}

/// Whether a process was born at most [`NEWBORN`] before this one, or later. Such a process may be
/// a shell's fork that is about to call `run`.
fn is_newborn(pid: u32) -> bool {
    let born = |pid| stat(pid).map(|stat| stat.started);
    let both = born(pid).zip(born(std::process::id()));
    both.is_some_and(|(its, ours)| its + NEWBORN_TICKS >= ours)
}

/// Returns /proc/PID/stat; `None` if the process has ended.
fn stat(pid: u32) -> Option<Stat> {
    Proc::system().ok()?.stat(pid).ok()?
}

/// Whether a manager has the name of this process but does not manage the process. A manager stays
/// while any descendant of its first process lives, and meanwhile another process may have got that
/// first process's pid. False unless the manager replies that it does not manage the process: a
/// manager that does not reply may be about to manage it.
#[must_use]
pub fn is_anothers(tenant: &Tenant) -> bool {
    let Some(pid) = tenant.pid() else {
        return false;
    };
    let lives = stat(pid).is_some_and(|stat| !stat.is_over());
    let answer = || ask(tenant, &Request::Manages { pid }, REPLY_MAX);
    lives && matches!(answer(), Ok(Response::Manages(false)))
}

/// Whether a manager has this tenant's name because of an earlier process with the same pid, and
/// now manages the descendants of that earlier process.
#[must_use]
pub fn is_held_by_a_stranger(tenant: &Tenant) -> bool {
    manager_of(tenant).is_ok_and(|held| held.is_some()) && is_anothers(tenant)
}

/// Returns the pids of the processes that have a manager of their own which we trust.
#[must_use]
pub fn managed_pids() -> Vec<u32> {
    // A socket named after a process that has ended belongs to no process of interest.
    let lives = |tenant: &Tenant| {
        tenant
            .pid()
            .is_some_and(|pid| Path::new(&format!("/proc/{pid}")).exists())
    };
    let tenants = managed().into_iter().filter(lives).filter(is_managed);
    tenants.filter_map(|tenant| tenant.pid()).collect()
}

/// Returns the managers that listen and that we trust, in words such as `the manager of pid 7 (pid
/// 12)`.
#[must_use]
pub fn managers() -> Vec<String> {
    let mut found = Vec::new();
    for dir in socket::trusted_directories() {
        for name in dir.names().unwrap_or_default() {
            let Some(manages) = manages(&name) else {
                continue;
            };
            match socket::connect(&dir, &name, Duration::ZERO) {
                Ok(stream) => {
                    let peer = Peer::of(&stream).ok();
                    let peer = peer.filter(|peer| peer.uid == dir.owner());
                    found.extend(peer.map(|peer| format!("{manages} (pid {})", peer.pid)));
                }
                // It listens, and its backlog is full.
                Err(Errno::AGAIN) => found.push(manages),
                Err(_) => {}
            }
        }
    }
    found
}

/// Returns the words for the manager with a socket of this name; `None` if it is no socket's name.
fn manages(name: &str) -> Option<String> {
    match Tenant::of_socket_name(name) {
        Some(Tenant::Pid(pid)) => Some(format!("the manager of pid {pid}")),
        Some(_) => Some("the manager of a control group".to_owned()),
        None => name
            .starts_with("tree.")
            .then(|| "`pagetide serve`".to_owned()),
    }
}

/// Returns the tenants that have a socket in the directories that we trust, whether or not a
/// manager still listens: processes, then control groups. The name of a group's socket does not
/// contain the path.
fn managed() -> Vec<Tenant> {
    let (mut pids, mut groups) = (BTreeSet::new(), BTreeSet::new());
    for tenant in socket::trusted_directories()
        .iter()
        .flat_map(socket::tenants)
    {
        match tenant {
            Tenant::Pid(pid) => pids.insert(pid),
            Tenant::GroupNamed(hash) => groups.insert(hash),
            Tenant::Group(_) | Tenant::Tree(_) => false,
        };
    }
    let pids = pids.into_iter().map(Tenant::Pid);
    pids.chain(groups.into_iter().map(Tenant::GroupNamed))
        .collect()
}
