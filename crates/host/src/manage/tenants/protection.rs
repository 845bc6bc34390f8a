//! Protection of made tenants from the kernel's own reclaim, where it knows any (version 2).
//!
//! Invariant: what was asked for a tenant stands on its group ([`super::tenant`]). No group has more of it than those above it, so the tree's own root
//! claims together what those right below it use of theirs: all of that is dealt out, and nothing is left over for who has none. Above the
//! root, and of the host's own groups, nothing is written.

use engine::memcg::MemcgId;

use super::Tenants;
use super::tenant::Tenant;
use crate::system::cgroup::Version;

/// What the root claims.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// Of min and of low, bytes, as it stands on its group; none where that is not known.
    stands: Option<[u64; 2]>,
    /// It was said that a group above has less.
    is_told: bool,
}

impl Tenants {
    /// Has the root claim what is used now. Between two of these, what a tenant has just grown by is protected in part.
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
        if self.claims.stands == Some(sum) || root.wall.set_protection(sum.map(Some)).is_err() {
            return;
        }
        self.claims.stands = Some(sum);
        let above = root.wall.protection_above();
        let is_short = (0..2).any(|which| above[which] < sum[which]);
        if is_short && !std::mem::replace(&mut self.claims.is_told, true) {
            let above = root.wall.group().path.parent();
            let above = above.map_or_else(String::new, |above| above.display().to_string());
            self.act(format!(
                "the kernel's own reclaim keeps to memory.min and memory.low of tenants as far as {above} and those above it have them: less than is \
                 claimed"
            ));
        }
    }

    /// The same where somebody who claimed something is gone.
    pub(super) fn protect_without(&mut self, gone: &Tenant) {
        if gone.is_protected() && !gone.of_host {
            self.protect();
        }
    }
}

/// What a tenant uses of min and of low, bytes.
fn used_of_claims(tenant: &Tenant) -> [u64; 2] {
    let claims = [tenant.limits.min, tenant.limits.low].map(|limit| limit.pages().bytes().0);
    match claims {
        [0, 0] => claims,
        claims => {
            let charged = tenant.wall.charged().unwrap_or(0);
            claims.map(|claim| claim.min(charged))
        }
    }
}

fn sum(one: [u64; 2], other: [u64; 2]) -> [u64; 2] {
    [0, 1].map(|which| one[which].saturating_add(other[which]))
}
