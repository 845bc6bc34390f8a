//! The tenants of `pagetide serve` as rows of a table.

use daemon::control::{Response, TenantAsk, TenantRow};
use host::swap::Swap;

use crate::args::Tree;
use crate::failure::Failure;
use crate::view::top::{Row, Watched};

use super::requests::{SHORT_TIMEOUT, of_tenant, unexpected};

/// Returns the rows of all tenants, parents before children, and how the tenants are watched. Each
/// row contains the sums of all tenants below it.
///
/// # Errors
/// No `serve` runs, or it does not respond to this user.
pub(super) fn tenant_rows(tree: &Tree) -> Result<(Vec<Row>, Watched), Failure> {
    match of_tenant(tree, "/", TenantAsk::Rows, SHORT_TIMEOUT)? {
        Response::Tenants(tenants) => {
            let rows = tenants.iter().map(row).collect();
            Ok((rows, tenants.first().map(watched).unwrap_or_default()))
        }
        _ => Err(unexpected()),
    }
}

/// Returns how a tenant is watched, which is the same for all tenants, as one manager watches them
/// all.
fn watched(tenant: &TenantRow) -> Watched {
    Watched {
        wall_ms: tenant.wall_ms,
        interval_ms: tenant.interval_ms,
        age_source: tenant.age_source,
        host_swap: Swap::system().store(),
    }
}

fn row(tenant: &TenantRow) -> Row {
    let bins = || tenant.page_age.iter().flat_map(|node| &node.bins);
    let older = |ms: u64| {
        let old = bins().filter(|bin| bin.older_than_ms >= ms);
        old.fold(0, |sum: u64, bin| sum.saturating_add(bin.bytes()))
    };
    Row {
        pid: None,
        uid: None,
        command: None,
        cgroup: Some(tenant.tenant.clone()),
        processes: tenant.processes,
        resident_bytes: tenant.resident_bytes,
        swapped_bytes: tenant.swapped_bytes,
        young_bytes: tenant.young_bytes,
        older_than_10s_bytes: older(10_000),
        older_than_1m_bytes: older(60_000),
        older_than_10m_bytes: older(600_000),
        unknown_age_bytes: tenant.unknown_age_bytes,
        ..Row::default()
    }
}

#[cfg(test)]
mod tests {
    use host::report::{AgeBin, NodeAge};

    use super::*;

    #[test]
    fn bins_become_ages() {
        let bin = |older_than_ms, anon_bytes| AgeBin {
            older_than_ms,
            anon_bytes,
            file_bytes: 1,
        };
        let tenant = TenantRow {
            tenant: "/a".to_owned(),
            young_bytes: 42,
            page_age: vec![NodeAge {
                node: 0,
                bins: vec![bin(0, 100), bin(10_000, 20), bin(59_000, 7), bin(70_000, 3)],
            }],
            ..TenantRow::default()
        };
        let row = row(&tenant);
        assert_eq!((row.older_than_10s_bytes, row.older_than_1m_bytes), (33, 4));
        assert_eq!(row.young_bytes, 42);
    }
}
