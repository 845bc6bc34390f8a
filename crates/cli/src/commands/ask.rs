//! Commands that ask the manager of a target: `stat` and `detach`, and whose it is.

use std::io::Write;
use std::time::Duration;

use daemon::control::{Managed, Request, Response, Tenant, TenantAsk, ask, find};
use daemon::preflight::{self, Chosen};

use crate::args::{Told, Tree, Who, Whose};
use crate::failure::Failure;
use crate::view::count;
use crate::view::text::json_line;

/// A manager answers between two looks.
pub(super) const QUICK: Duration = Duration::from_secs(20);
/// Gigabytes may have to come back, or to go.
pub(super) const LONG: Duration = Duration::from_secs(600);

/// The target that is meant.
pub(super) fn chosen(whose: &Whose) -> Result<Chosen, Failure> {
    match (whose.pid, &whose.cgroup) {
        (Some(pid), _) => Ok(preflight::process(pid)?),
        (None, Some(path)) => Ok(preflight::group(&path.to_string_lossy())?),
        (None, None) => Err(Failure::usage(
            "cannot tell whose memory is meant: no process is given",
            "give a PID or --cgroup PATH",
        )),
    }
}

/// Who manages a target, if anybody does.
pub(super) fn manager(tenant: &Tenant) -> Result<Option<Managed>, Failure> {
    Ok(find(tenant)?)
}

/// Asks the manager of a target; a target that is not managed is a failure that says so.
fn question(whose: &Whose, request: &Request, within: Duration) -> Result<Response, Failure> {
    let tenant = chosen(whose)?.tenant;
    let managed = manager(&tenant)?;
    let tenant = managed.map_or(tenant, |managed| managed.tenant);
    Ok(ask(&tenant, request, within)?)
}

/// The process or control group that is meant, where it is no tenant.
pub(super) fn whose(told: &Told) -> Whose {
    Whose {
        pid: match told.who {
            Some(Who::Pid(pid)) => Some(pid),
            _ => None,
        },
        cgroup: told.cgroup.clone(),
    }
}

/// Asks `pagetide serve` about a tenant.
pub(super) fn of_tenant(
    tree: &Tree,
    path: &str,
    what: TenantAsk,
    within: Duration,
) -> Result<Response, Failure> {
    let request = Request::Tenant {
        path: path.to_owned(),
        ask: what,
    };
    Ok(ask(&Tenant::Tree(tree.root.clone()), &request, within)?)
}

pub(super) fn stat(told: &Told, tree: &Tree, json: bool) -> Result<u8, Failure> {
    let answer = match &told.who {
        Some(Who::Tenant(path)) => of_tenant(tree, path, TenantAsk::Stat, QUICK)?,
        _ => question(&whose(told), &Request::Stat {}, QUICK)?,
    };
    let Response::Stat(stat) = answer else {
        return Err(unexpected());
    };
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", json_line(&stat))?;
        return Ok(0);
    }
    for (name, value) in stat {
        writeln!(out, "{name} {value}")?;
    }
    Ok(0)
}

/// Counters of a tenant and of each below it.
pub(super) fn stats(told: &Told, tree: &Tree, json: bool) -> Result<u8, Failure> {
    let Some(Who::Tenant(path)) = &told.who else {
        return Err(Failure::usage(
            "--all is of tenants, and none is given",
            "give one as /PATH, or / for all of them",
        ));
    };
    let Response::Stats(stats) = of_tenant(tree, path, TenantAsk::Stats, QUICK)? else {
        return Err(unexpected());
    };
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", json_line(&stats))?;
        return Ok(0);
    }
    // For `column -t`, awk and the like.
    writeln!(out, "tenant {}", stats.names.join(" "))?;
    for (name, row) in stats.tenants {
        let row: Vec<String> = row.iter().map(u64::to_string).collect();
        writeln!(out, "/{name} {}", row.join(" "))?;
    }
    Ok(0)
}

pub(super) fn detach(whose: &Whose, bring_back: bool) -> Result<u8, Failure> {
    let chosen = chosen(whose)?;
    let pages = match manager(&chosen.tenant)? {
        None if bring_back => daemon::reclaim::bring_back(chosen)?,
        managed => {
            let tenant = managed.map_or(chosen.tenant, |managed| managed.tenant);
            match ask(&tenant, &Request::Detach { bring_back }, LONG)? {
                Response::Detached { pages } => pages,
                _ => return Err(unexpected()),
            }
        }
    };
    if bring_back {
        let mut out = std::io::stdout().lock();
        writeln!(out, "asked back in: {} pages", count(pages))?;
    }
    Ok(0)
}

/// An answer to another question.
pub(super) fn unexpected() -> Failure {
    Failure::new(
        "cannot understand the manager: it answered another question",
        "use the pagetide command of the same version",
    )
}
