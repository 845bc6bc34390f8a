//! Requests about tenants at the control socket.
//!
//! Invariant: the figures are those of the tenants' files, and come from the same calls. The tree's
//! thread serves one request at a time.

use std::path::Path;

use engine::memcg::MemcgId;
use host::manage::Reclaimed;
use host::manage::tenants::{ProcessesByTenant, ReclaimFrom, Tenants};
use host::report::Report;
use host::swap::Swap;
use rustix::io::Errno;

use super::request_queue::Tree;
use crate::control::{Answer, Done, Pong, Request, Response, Stat, Stats, TenantAsk, TenantRow};
use crate::error::Error;

/// Serves one request. The response to a reclaim follows when the reclaim has ended
/// ([`reclaimed`]).
pub(super) fn answer(tree: &mut Tree, request: Request) -> Answer {
    let Request::Tenant {
        path,
        ask: TenantAsk::Reclaim(ask),
    } = request
    else {
        return Answer::Now(answer_now(tree, request));
    };
    let found = find(tree, &path);
    let begun = found.and_then(|memcg| {
        let begun = tree.tenants.reclaim(memcg, ask, ReclaimFrom::default());
        begun.map_err(|errno| refused(&path, errno))
    });
    match begun {
        Ok(number) => Answer::Later(number),
        Err(error) => Answer::Now(Response::Error(error)),
    }
}

/// Returns the response for a reclaim that has ended.
pub(super) fn reclaimed(got: Result<Reclaimed, Errno>) -> Response {
    match got {
        Ok(got) => Response::Reclaimed(Done::from(got)),
        Err(Errno::NODEV) => Response::Error(Error::failed(
            "the tenant was removed before all of the requested memory was reclaimed",
            "`pagetide top --by tenant` shows those that there are",
        )),
        Err(errno) => Response::Error(Error::failed(
            format!("the reclaim ended: {errno}"),
            "see the log of `pagetide serve`",
        )),
    }
}

/// Returns the response to clients that still wait when the manager ends.
pub(super) fn ending() -> Response {
    Response::Error(Error::failed(
        "`pagetide serve` has ended before all of the requested memory was reclaimed",
        "repeat the request when it runs again",
    ))
}

fn find(tree: &Tree, path: &str) -> Result<MemcgId, Error> {
    let name = path.trim_matches('/');
    tree.tenants.find(Path::new(name)).ok_or_else(|| {
        let what = format!("there is no tenant /{name}");
        Error::failed(
            what,
            "`pagetide top --by tenant` shows those that there are",
        )
    })
}

fn answer_now(tree: &mut Tree, request: Request) -> Response {
    match request {
        Request::Ping {} => Response::Pong(Pong {
            manager: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }),
        Request::Manages { .. } => Response::Manages(false),
        Request::Tenant { path, ask } => of_tenant(tree, &path, ask),
        _ => Response::Error(Error::failed(
            "cannot answer that for a tree of tenants",
            "name one of its tenants by its path",
        )),
    }
}

fn of_tenant(tree: &mut Tree, path: &str, ask: TenantAsk) -> Response {
    let memcg = match find(tree, path) {
        Ok(memcg) => memcg,
        Err(error) => return Response::Error(error),
    };
    let answer = match ask {
        TenantAsk::Stat => stat(&mut tree.tenants, memcg).map(Response::Stat),
        TenantAsk::Stats => stats(&mut tree.tenants, memcg).map(Response::Stats),
        TenantAsk::Report => report(&mut tree.tenants, memcg).map(Response::Report),
        TenantAsk::Rows => rows(&mut tree.tenants, memcg).map(Response::Tenants),
        // Not here: the response follows when the reclaim has ended.
        TenantAsk::Reclaim(_) => Err(Errno::INVAL),
    };
    answer.unwrap_or_else(|errno| Response::Error(refused(path, errno)))
}

fn refused(path: &str, errno: Errno) -> Error {
    let name = path.trim_matches('/');
    let hint = match errno {
        Errno::PERM => "it is a group of the host: serve with --manage-host, or manage-host = true",
        Errno::NODEV => "the tenant no longer exists",
        _ => "see the log of `pagetide serve`",
    };
    Error::failed(format!("cannot do that for tenant /{name}: {errno}"), hint)
}

fn stat(tenants: &mut Tenants, memcg: MemcgId) -> Result<Stat, Errno> {
    let stat = tenants.stat(memcg, false)?;
    Ok(stat
        .lines()
        .map(|(name, value)| (name.to_owned(), value))
        .collect())
}

fn stats(tenants: &mut Tenants, memcg: MemcgId) -> Result<Stats, Errno> {
    let mut all = Stats::default();
    for (one, stat) in tenants.stats(memcg)? {
        if all.names.is_empty() {
            all.names = stat.lines().map(|(name, _)| name.to_owned()).collect();
        }
        let path = tenants.path(one)?.to_string_lossy().into_owned();
        let row = stat.lines().map(|(_, value)| value).collect();
        all.tenants.push((path, row));
    }
    Ok(all)
}

/// Returns a tenant's report, with the curve and the kernel's own memory, which rows do not have.
fn report(tenants: &mut Tenants, memcg: MemcgId) -> Result<Box<Report>, Errno> {
    let mut report = tenants.report(memcg)?;
    [report.kernel_bytes, report.unmapped_cache_bytes] = tenants.kernels_part(memcg)?;
    report.curve = tenants.curve(memcg, report.kernel_bytes)?;
    report.set_saving(Swap::system().store(), None);
    Ok(Box::new(report))
}

fn rows(tenants: &mut Tenants, memcg: MemcgId) -> Result<Vec<TenantRow>, Errno> {
    let all = tenants.below(memcg).into_iter();
    // A group that has gone since the last scan has no row. That is an error only for the requested
    // group.
    let members = tenants.members();
    let reported = all.filter_map(|one| match row(tenants, one, &members) {
        Err(Errno::NODEV) if one != memcg => None,
        reported => Some(reported),
    });
    reported.collect()
}

fn row(
    tenants: &mut Tenants,
    memcg: MemcgId,
    members: &ProcessesByTenant,
) -> Result<TenantRow, Errno> {
    let report = tenants.report_among(memcg, members)?;
    Ok(TenantRow {
        processes: report.processes.len() as u64,
        of_host: tenants.is_of_host(memcg)?,
        tenant: report.command,
        charged_bytes: report.charged_bytes.unwrap_or(0),
        resident_bytes: report.resident_bytes,
        swapped_bytes: report.swapped_bytes,
        limits: report.limits,
        page_age: report.page_age,
        unknown_age_bytes: report.unknown_age_bytes,
        young_bytes: report.processes.iter().map(|one| one.young_bytes).sum(),
        wall_ms: report.wall_ms,
        interval_ms: report.interval_ms,
        age_source: report.age_source,
    })
}
