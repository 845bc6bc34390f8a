//! Commands that ask the manager of a target: `stat` and `detach`, and whose it is.

use std::io::Write;
use std::time::Duration;

use daemon::control::{
    ControlError, Managed, Request, Response, Tenant, TenantAsk, ask, find_begun, is_anothers,
    manager_of,
};
use daemon::preflight::{self, Chosen};
use host::system::Proc;

use crate::args::{Told, Tree, Who, Whose};
use crate::failure::Failure;
use crate::view::count;
use crate::view::text::{json_line, plain};

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

/// Who is meant: all that a manager manages, or a target that nobody manages.
pub(super) enum Whole {
    Managed(Managed),
    Alone(Chosen),
}

/// Who is meant. Managers are asked first, for one outlives the first process of those that it manages.
pub(super) fn whose_manager(whose: &Whose) -> Result<Whole, Failure> {
    let Some(pid) = whose.pid else {
        let chosen = chosen(whose)?;
        let managed = awake(&chosen.tenant)?;
        return Ok(managed.map_or(Whole::Alone(chosen), Whole::Managed));
    };
    let Some(managed) = awake(&Tenant::Pid(pid))? else {
        return Ok(Whole::Alone(chosen(whose)?));
    };
    if managed.tenant != Tenant::Pid(pid) {
        // Beside the result, which is of all of them; no failure when nobody reads it.
        let _ = writeln!(
            std::io::stderr(),
            "pid {pid} is managed together with {} (by pid {}): all that is managed so is meant",
            managed.tenant,
            managed.manager
        );
    }
    Ok(Whole::Managed(managed))
}

/// Who manages a tenant, and can be asked.
fn awake(tenant: &Tenant) -> Result<Option<Managed>, Failure> {
    let managed = find_begun(tenant)?;
    managed.as_ref().map(check_awake).transpose()?;
    Ok(managed)
}

/// Who is stopped answers nobody, however long one waits. (The story: after ^Z in `attach`, `detach` said nothing for ten minutes.)
fn check_awake(managed: &Managed) -> Result<(), Failure> {
    let stat = Proc::system().and_then(|proc| proc.stat(managed.manager));
    let state = stat.ok().flatten().map(|stat| stat.state);
    if !matches!(state, Some(b'T' | b't')) {
        return Ok(());
    }
    let what = format!(
        "cannot ask the manager of {}: it is stopped (pid {})",
        managed.tenant, managed.manager
    );
    let pid = managed.manager;
    Err(Failure::new(
        what,
        format!("`fg` in its shell, or `kill -CONT {pid}`"),
    ))
}

/// Asks the manager of a target; a target that is not managed is a failure that says so.
fn question(whose: &Whose, request: &Request, within: Duration) -> Result<Response, Failure> {
    let tenant = match whose_manager(whose)? {
        Whole::Managed(managed) => managed.tenant,
        Whole::Alone(chosen) if is_anothers(&chosen.tenant) => {
            let tenant = chosen.tenant;
            return Err(ControlError::NotManaged { tenant }.into());
        }
        // It is not managed: to ask says why.
        Whole::Alone(chosen) => chosen.tenant,
    };
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
    let tenant = Tenant::Tree(tree.root.clone());
    if let Ok(Some(manager)) = manager_of(&tenant) {
        let tenant = tenant.clone();
        check_awake(&Managed { tenant, manager })?;
    }
    Ok(ask(&tenant, &request, within)?)
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
        writeln!(out, "{} {value}", field(&name))?;
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
        writeln!(out, "/{} {}", field(&name), row.join(" "))?;
    }
    Ok(0)
}

/// One word of a line, safe to show: names of control groups are their owners'.
fn field(name: &str) -> String {
    plain(name, false).replace(' ', "?")
}

pub(super) fn detach(whose: &Whose, bring_back: bool, json: bool) -> Result<u8, Failure> {
    let pages = match whose_manager(whose)? {
        Whole::Managed(managed) => {
            // It may be in the middle of a reclaim.
            match ask(&managed.tenant, &Request::Detach { bring_back }, LONG)? {
                Response::Detached { pages } => pages,
                _ => return Err(unexpected()),
            }
        }
        Whole::Alone(chosen) if bring_back => daemon::reclaim::bring_back(chosen)?,
        Whole::Alone(chosen) => {
            let what = format!("cannot let go of {}: no pagetide manages it", chosen.tenant);
            let hint = "`--bring-back` reads back in what is out, whoever put it there";
            return Err(Failure::new(what, hint));
        }
    };
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", json_line(&serde_json::json!({ "pages": pages })))?;
    } else if bring_back {
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
