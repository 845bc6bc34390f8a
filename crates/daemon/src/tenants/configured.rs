//! What the configuration gives single tenants when they come into being: by its own hand, or by anybody's mkdir later.
//!
//! Invariant: a tenant that is made has its limits before whoever made it is answered. (The story, of a reading: a runner removed its tenant and made it anew
//! for each job, and from the second one on nothing held it.)

use std::collections::BTreeMap;
use std::path::Path;

use engine::Bytes;
use engine::memcg::MemcgId;
use host::manage::tenants::Tenants;
use rustix::io::Errno;

use super::config::{Tenant, is_of_host};

/// By path below the root; the host's own groups, which are not made here, are not among them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Configured {
    tenants: BTreeMap<String, Tenant>,
    /// The memory of the host, of which shares are.
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

    /// Those that are to be there.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.tenants.keys().map(String::as_str)
    }

    /// Gives a tenant its limits, if it has any here; those that are left out stay.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn give(
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
