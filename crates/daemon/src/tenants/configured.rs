//! The configuration of single tenants, applied when a tenant is made: by `serve` itself, or by any
//! later mkdir.
//!
//! Invariant: a new tenant has its limits before the mkdir returns. So a tenant that is removed and
//! made again for each job always has them.

use std::collections::BTreeMap;
use std::path::Path;

use engine::Bytes;
use engine::memcg::MemcgId;
use host::manage::tenants::Tenants;
use rustix::io::Errno;

use super::config::{Tenant, is_of_host};

/// The configuration of tenants by path below the root, without the host's own groups, which
/// pagetide does not make.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Configured {
    tenants: BTreeMap<String, Tenant>,
    /// The host's memory in bytes: limits that are shares are shares of this.
    total: Bytes,
}

impl Configured {
    pub(super) fn new(tenants: &BTreeMap<String, Tenant>, total: Bytes) -> Configured {
        let made = tenants.iter().filter(|(path, _)| !is_of_host(path));
        Configured {
            tenants: made
                .map(|(path, one)| (path.clone(), one.clone()))
                .collect(),
            total,
        }
    }

    /// The paths of tenants to be made.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.tenants.keys().map(String::as_str)
    }

    /// Sets those limits of a tenant that the configuration has; its other limits stay as they are.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn set_limits(
        &self,
        tenants: &mut Tenants,
        (at, path): (MemcgId, &Path),
    ) -> Result<(), Errno> {
        let path = path.to_str().unwrap_or_default();
        let Some(given) = self.tenants.get(path) else {
            return Ok(());
        };
        let mut limits = tenants.limits(at)?;
        for (limit, size) in [
            (&mut limits.min, given.memory_min),
            (&mut limits.low, given.memory_low),
            (&mut limits.high, given.memory_high),
            (&mut limits.max, given.memory_max),
            (&mut limits.swap_max, given.swap_max),
        ] {
            if let Some(size) = size {
                *limit = size.of(self.total);
            }
        }
        tenants.set_limits(at, limits)?;
        if let Some(size) = given.soft_limit {
            tenants.set_soft_limit(at, size.of(self.total))?;
        }
        Ok(())
    }
}
