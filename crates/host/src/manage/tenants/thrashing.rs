//! A tenant that needs more than it may have, or takes memory faster than it could leave by our hand, is left to the kernel at its wall
//! ([`super::super::thrash`], [`super::super::outrun`]).
//!
//! Invariant: only while its limit stands there, and only where the kernel takes from nobody whom our hand would spare.
//!
//! (The story: two redis under one wall answered 64% of what they did under the kernel alone. What our hand took was wanted again at once.)

use std::time::{Duration, Instant};

use engine::Pages;
use engine::memcg::MemcgId;

use super::super::thrash::Thrash;
use super::Tenants;

impl Tenants {
    /// A tenant at its wall, of which so much is used, is to give: how long it is left to the kernel instead, if it thrashes.
    pub(super) fn left_to_wall(&mut self, memcg: MemcgId, usage: Pages) -> Option<Duration> {
        let now = Instant::now();
        let tenant = self.tenants.get_mut(&memcg)?;
        let wall = &tenant.wall;
        let outrun = tenant.outrun.left(now, || wall.times_met().ok());
        let left = outrun.or_else(|| self.thrashes(memcg, usage, now))?;
        let may = self.may_ask_kernel(memcg, self.tenants.get(&memcg)?);
        let tenant = self.tenants.get_mut(&memcg).filter(|_| may)?;
        tenant.next_hold = now + left;
        Some(left)
    }

    /// How long it is left alone for what comes back.
    fn thrashes(&mut self, memcg: MemcgId, usage: Pages, now: Instant) -> Option<Duration> {
        let tenant = self.tenants.get_mut(&memcg)?;
        match &mut tenant.thrash {
            Some(thrash) if !thrash.is_due(now) => {}
            Some(thrash) => thrash.measure(now, tenant.wall.majors().ok()?, usage),
            none => *none = Some(Thrash::since(now, tenant.wall.majors().ok()?)),
        }
        let left = tenant.thrash.as_ref()?.left(now)?;
        if let Some(times) = tenant.left_alone.add(1) {
            let path = tenant.path.display();
            let what = format!(
                "/{path} is left to the kernel at its memory.max ({times} times): more than a fifth of it came back from swap in a second"
            );
            self.act(what);
        }
        Some(left)
    }
}
