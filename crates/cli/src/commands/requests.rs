//! Commands that send a request to the manager of a target (`stat` and `detach`), and the search
//! for that manager.

use std::io::Write;
use std::time::Duration;

use daemon::control::{
    ControlError, Managed, Request, Response, Tenant, TenantAsk, ask, find_begun, is_anothers,
    manager_of,
};
use daemon::preflight::{self, Chosen};
use host::system::Proc;

use crate::args::{ProcessOrTenant, TargetArg, TargetArgs, Tree};
use crate::failure::Failure;
use crate::view::count;
use crate::view::text::{json_line, plain};

/// Timeout of a short request: a manager responds between two scans.
pub(super) const SHORT_TIMEOUT: Duration = Duration::from_secs(20);
/// Timeout of a request that may swap in or page out gigabytes.
pub(super) const LONG_TIMEOUT: Duration = Duration::from_secs(600);

/// Resolves the target that the command line names.
pub(super) fn chosen(whose: &TargetArgs) -> Result<Chosen, Failure> {
    match (whose.pid, &whose.cgroup) {
        (Some(pid), _) => Ok(preflight::process(pid)?),
        (None, Some(path)) => Ok(preflight::group(&path.to_string_lossy())?),
        (None, None) => Err(Failure::usage(
            "cannot tell whose memory is meant: no process is given",
            "give a PID or --cgroup PATH",
        )),
    }
}

/// The target of a command: all processes of one manager, or a target without a manager.
pub(super) enum TargetFound {
    Managed(Managed),
    Alone(Chosen),
}

/// Finds the target of a command. Looks for a manager first, as a manager may outlive the process
/// that the target is named after.
pub(super) fn find_target(whose: &TargetArgs) -> Result<TargetFound, Failure> {
    let Some(pid) = whose.pid else {
        let chosen = chosen(whose)?;
        let managed = find_running_manager(&chosen.tenant)?;
        return Ok(managed.map_or(TargetFound::Alone(chosen), TargetFound::Managed));
    };
    let Some(managed) = find_running_manager(&Tenant::Pid(pid))? else {
        return Ok(TargetFound::Alone(chosen(whose)?));
    };
    if managed.tenant != Tenant::Pid(pid) {
        // Goes to standard error, beside the result, which is about all processes of the manager. A
        // failed write is no error.
        let _ = writeln!(
            std::io::stderr(),
            "pid {pid} is managed together with {} (by pid {}): all that is managed so is meant",
            managed.tenant,
            managed.manager
        );
    }
    Ok(TargetFound::Managed(managed))
}

/// Finds the manager of a tenant, and checks that it can respond.
fn find_running_manager(tenant: &Tenant) -> Result<Option<Managed>, Failure> {
    let managed = find_begun(tenant)?;
    managed.as_ref().map(check_awake).transpose()?;
    Ok(managed)
}

/// Fails if a manager is stopped (SIGSTOP, ^Z), as it would never respond.
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

/// Sends a request to the manager of a target; fails with a message if the target has no manager.
fn request_manager(
    whose: &TargetArgs,
    request: &Request,
    within: Duration,
) -> Result<Response, Failure> {
    let tenant = match find_target(whose)? {
        TargetFound::Managed(managed) => managed.tenant,
        TargetFound::Alone(chosen) if is_anothers(&chosen.tenant) => {
            let tenant = chosen.tenant;
            return Err(ControlError::NotManaged { tenant }.into());
        }
        // The target has no manager, so the request fails with a message.
        TargetFound::Alone(chosen) => chosen.tenant,
    };
    Ok(ask(&tenant, request, within)?)
}

/// Returns the process or control group that the command line names; neither if it names a tenant.
pub(super) fn target_args(target: &TargetArg) -> TargetArgs {
    TargetArgs {
        pid: match target.target {
            Some(ProcessOrTenant::Pid(pid)) => Some(pid),
            _ => None,
        },
        cgroup: target.cgroup.clone(),
    }
}

/// Sends a request about a tenant to `pagetide serve`.
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

pub(super) fn stat(target: &TargetArg, tree: &Tree, json: bool) -> Result<u8, Failure> {
    let answer = match &target.target {
        Some(ProcessOrTenant::Tenant(path)) => {
            of_tenant(tree, path, TenantAsk::Stat, SHORT_TIMEOUT)?
        }
        _ => request_manager(&target_args(target), &Request::Stat {}, SHORT_TIMEOUT)?,
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

/// Prints counters of a tenant and of each tenant below it.
pub(super) fn stats(target: &TargetArg, tree: &Tree, json: bool) -> Result<u8, Failure> {
    let Some(ProcessOrTenant::Tenant(path)) = &target.target else {
        return Err(Failure::usage(
            "--all is of tenants, and none is given",
            "give one as /PATH, or / for all of them",
        ));
    };
    let Response::Stats(stats) = of_tenant(tree, path, TenantAsk::Stats, SHORT_TIMEOUT)? else {
        return Err(unexpected());
    };
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", json_line(&stats))?;
        return Ok(0);
    }
    // A format that `column -t`, awk and the like can read.
    writeln!(out, "tenant {}", stats.names.join(" "))?;
    for (name, row) in stats.tenants {
        let row: Vec<String> = row.iter().map(u64::to_string).collect();
        writeln!(out, "/{} {}", field(&name), row.join(" "))?;
    }
    Ok(0)
}

/// Returns a name as one word, safe for a terminal: owners of control groups choose their names.
fn field(name: &str) -> String {
    plain(name, false).replace(' ', "?")
}

pub(super) fn detach(whose: &TargetArgs, bring_back: bool, json: bool) -> Result<u8, Failure> {
    let pages = match find_target(whose)? {
        TargetFound::Managed(managed) => {
            // The manager may just be reclaiming, so the timeout is long.
            match ask(
                &managed.tenant,
                &Request::Detach { bring_back },
                LONG_TIMEOUT,
            )? {
                Response::Detached { pages } => pages,
                _ => return Err(unexpected()),
            }
        }
        TargetFound::Alone(chosen) if bring_back => daemon::reclaim::bring_back(chosen)?,
        TargetFound::Alone(chosen) => {
            let what = format!("cannot detach {}: no pagetide manages it", chosen.tenant);
            let hint = "`--bring-back` reads all of its swapped-out memory back in, also without a manager";
            return Err(Failure::new(what, hint));
        }
    };
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", json_line(&serde_json::json!({ "pages": pages })))?;
    } else if bring_back {
        writeln!(out, "read back requested: {} pages", count(pages))?;
    }
    Ok(0)
}

/// Returns the failure for a response whose kind does not fit the request.
pub(super) fn unexpected() -> Failure {
    Failure::new(
        "cannot understand the manager: it sent another kind of response",
        "use the pagetide command of the same version",
    )
}
