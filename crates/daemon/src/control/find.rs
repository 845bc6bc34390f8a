//! Whose manager has a process among its own: asked of all managers that listen here.
//!
//! Invariant: a manager that does not answer, or may not be asked, says no within [`WITHIN`], and one
//! that does not listen at once. Only managers of root and of our own user are asked at all.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use host::system::process::Stat;
use host::system::{Proc, start};

use super::client::is_managed;
use super::{ControlError, Request, Response, Tenant, ask, manager_of, socket};

/// How long one manager has for its answer.
const WITHIN: Duration = Duration::from_millis(500);

/// How long all have together, each of which may be stopped.
const ALL_WITHIN: Duration = Duration::from_secs(3);

/// Between two looks.
const BETWEEN: Duration = Duration::from_millis(10);

/// `run` has its program's number before its manager listens: for so long it is waited for.
const BEGINS: Duration = Duration::from_secs(5);

/// What a shell has just forked may be about to become `run`: so long after its birth nobody knows.
const NEWBORN: Duration = Duration::from_millis(200);
/// The same in clock ticks of /proc, of which a second has 100.
const NEWBORN_TICKS: u64 = 20;

/// A tenant that is managed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Managed {
    /// By which name.
    pub tenant: Tenant,
    /// Its manager's pid (0 if that is in another pid namespace).
    pub manager: u32,
}

/// Who manages a tenant: under its own name, or, for a process, whoever has it among its descendants.
///
/// # Errors
/// [`ControlError`] of the tenant's own name.
pub fn find(tenant: &Tenant) -> Result<Option<Managed>, ControlError> {
    if let Some(manager) = manager_of(tenant)?.filter(|_| !is_anothers(tenant)) {
        let tenant = tenant.clone();
        return Ok(Some(Managed { tenant, manager }));
    }
    let Some(pid) = tenant.pid() else {
        return Ok(None);
    };
    let end = Instant::now() + ALL_WITHIN;
    Ok(managed()
        .into_iter()
        .take_while(|_| Instant::now() < end)
        .find_map(|tenant| {
            let answer = ask(&tenant, &Request::Manages { pid }, WITHIN);
            let has = matches!(answer, Ok(Response::Manages(true)));
            let manager = manager_of(&tenant).ok().flatten()?;
            has.then_some(Managed { tenant, manager })
        }))
}

/// As [`find`], for whoever is not that manager himself: of a `pagetide run` that has not become its program yet, the manager is waited for.
/// (The story: in `pagetide run ... & pagetide reclaim $!` the second had the name of the manager before the manager had, and the program was
/// not started.)
///
/// # Errors
/// As [`find`].
pub fn find_begun(tenant: &Tenant) -> Result<Option<Managed>, ControlError> {
    // Its name alone is looked at meanwhile: one that has become its program by then had its manager before. (While others are asked, it may.)
    if let Some(pid) = tenant.pid() {
        let begun = Instant::now();
        let may_begin = || {
            let time = begun.elapsed();
            time < NEWBORN && is_newborn(pid) || time < BEGINS && is_about_to_run(pid)
        };
        while may_begin() && manager_of(tenant)?.is_none() {
            std::thread::sleep(BETWEEN);
        }
    }
    find(tenant)
}

/// For the manager of `run`: a command that asked before there was a `run` to be seen may have its name, and lets go of it soon. Who manages says so, and is
/// not waited for.
pub(crate) fn wait_for_name(tenant: &Tenant) {
    let begun = Instant::now();
    let manages = || {
        matches!(
            ask(tenant, &Request::Ping {}, WITHIN),
            Ok(Response::Pong(_))
        )
    };
    let is_taken = || {
        matches!(manager_of(tenant), Ok(Some(_))) && !is_held_by_a_stranger(tenant) && !manages()
    };
    while begun.elapsed() < BEGINS && is_taken() {
        std::thread::sleep(BETWEEN);
    }
}

/// Whether a process is `pagetide run`, which has another name from its exec on. (The story: for a moment within its exec a process has its name and no
/// words yet, and on a busy machine it was seen then: `stat` said that nobody manages it.)
fn is_about_to_run(pid: u32) -> bool {
    let stat = stat(pid).filter(|stat| stat.comm == start::NAME && !stat.is_over());
    let words = Proc::system().and_then(|proc| proc.words(pid));
    let words = words.unwrap_or_default();
    stat.is_some() && (words.is_empty() || words.split(|byte| *byte == 0).nth(1) == Some(b"run"))
}

/// Whether it was born when we were, or after that. (The story: what a shell had forked was a shell yet.)
fn is_newborn(pid: u32) -> bool {
    let born = |pid| stat(pid).map(|stat| stat.started);
    let both = born(pid).zip(born(std::process::id()));
    both.is_some_and(|(its, ours)| its + NEWBORN_TICKS >= ours)
}

fn stat(pid: u32) -> Option<Stat> {
    Proc::system().ok()?.stat(pid).ok()?
}

/// Whether who listens under the name of a process's manager has nothing to do with that process. A manager stays as long as any
/// descendant of its first process does, and by then another process may have that number. One that does not say so is believed:
/// it may be about to begin. (The story: `reclaim` of the later process parked the earlier one's descendants.)
#[must_use]
pub fn is_anothers(tenant: &Tenant) -> bool {
    let Some(pid) = tenant.pid() else {
        return false;
    };
    let lives = stat(pid).is_some_and(|stat| !stat.is_over());
    let answer = || ask(tenant, &Request::Manages { pid }, WITHIN);
    lives && matches!(answer(), Ok(Response::Manages(false)))
}

/// Whether the manager that has a tenant's name has it from an earlier process, and manages that one's descendants.
#[must_use]
pub fn is_held_by_a_stranger(tenant: &Tenant) -> bool {
    manager_of(tenant).is_ok_and(|held| held.is_some()) && is_anothers(tenant)
}

/// Processes that have a manager of their own, of root or of our user.
#[must_use]
pub fn managed_pids() -> Vec<u32> {
    // A socket that was named after a process that has ended is of no process that is looked at.
    let lives = |tenant: &Tenant| {
        tenant
            .pid()
            .is_some_and(|pid| Path::new(&format!("/proc/{pid}")).exists())
    };
    let tenants = managed().into_iter().filter(lives).filter(is_managed);
    tenants.filter_map(|tenant| tenant.pid()).collect()
}

/// What has, or had, a manager that we believe: processes, and then control groups, whose paths their names do not tell.
fn managed() -> Vec<Tenant> {
    let (mut pids, mut groups) = (BTreeSet::new(), BTreeSet::new());
    for tenant in socket::believed().iter().flat_map(socket::tenants) {
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
