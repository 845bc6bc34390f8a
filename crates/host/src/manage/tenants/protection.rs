//! Protects tenants made by pagetide from kernel reclaim, if the kernel has protection (version 2).
//!
//! Invariant: min and low of a tenant are set on its group ([`super::tenant`]). The kernel protects
//! a group by at most the protection of the groups above it. So the root's protection is the sum of
//! what its children use of theirs. Thus all of the root's protection is distributed, and children
//! without protection get none. Nothing is written above the root or to the host's own groups.

use engine::memcg::MemcgId;
use engine::{Bytes, Limit};

use super::Tenants;
use super::tenant::Tenant;
use crate::system::cgroup::Version;

/// Protection that is set on the root's group.
#[derive(Debug, Default)]
pub(super) struct RootProtection {
    /// Min, then low, as written to the root's group, in bytes; `None` if unknown.
    stands: Option<[u64; 2]>,
    /// Whether it was logged that a group above the root has less protection.
    is_reported: bool,
}

impl Tenants {
    /// Sets the root's protection to the sum that its children use now. If a tenant grows before
    /// the next call, the growth is only partly protected.
    pub(super) fn protect(&mut self) {
        if self.groups.version == Version::V1 {
            return;
        }
        let made = self.children(MemcgId::ROOT);
        let made = made.filter_map(|(_, id)| self.tenants.get(&id).filter(|one| !one.of_host));
        let sum = made.map(used_of_claims).fold([0; 2], sum);
        let Some(root) = self.tenants.get(&MemcgId::ROOT) else {
            return;
        };
        if self.claims.stands == Some(sum)
            || root
                .hard_limit
                .set_protection(sum.map(|bytes| Limit::Bytes(Bytes(bytes))))
                .is_err()
        {
            return;
        }
        self.claims.stands = Some(sum);
        let above = root.hard_limit.protection_above();
        let is_short = (0..2).any(|which| above[which] < sum[which]);
        if is_short && !std::mem::replace(&mut self.claims.is_reported, true) {
            let above = root.hard_limit.group().path.parent();
            let above = above.map_or_else(String::new, |above| above.display().to_string());
            self.act(format!(
                "the kernel protects memory.min and memory.low of tenants only up to the values \
                 of {above} and the groups above it: these are lower than the tenants' sum"
            ));
        }
    }

    /// Like [`Tenants::protect`], after the removal of a tenant that may have had protection.
    pub(super) fn protect_without(&mut self, gone: &Tenant) {
        if gone.is_protected() && !gone.of_host {
            self.protect();
        }
    }
}

/// Returns how many bytes of its min, then of its low, a tenant uses.
fn used_of_claims(tenant: &Tenant) -> [u64; 2] {
    let claims = [tenant.limits.min, tenant.limits.low].map(|limit| limit.pages().bytes().0);
    match claims {
        [0, 0] => claims,
        claims => {
            let charged = tenant.hard_limit.charged().unwrap_or(0);
            claims.map(|claim| claim.min(charged))
        }
    }
}

/// Adds two pairs of min and low, in bytes.
fn sum(one: [u64; 2], other: [u64; 2]) -> [u64; 2] {
    [0, 1].map(|which| one[which].saturating_add(other[which]))
}
