//! What less memory would cost each tenant: its pages with those of all below it.
//!
//! Invariant: a tenant's curve begins when it is made; a process that is moved takes its pages along, and what they did before
//! stays where it was.

use std::collections::BTreeMap;

use engine::Millis;
use engine::memcg::MemcgId;
use engine::vmstat::VmEvent;
use rustix::io::Errno;

use super::Tenants;
use crate::report::Curve;
use crate::watch::curve::{Seen, report_of};

impl Tenants {
    /// After each look.
    pub(super) fn note_curves(&mut self) {
        let now_ms = self.driver.watch.looked_ms();
        let order = self.below(MemcgId::ROOT);
        let mut all: BTreeMap<MemcgId, Seen> =
            order.iter().map(|id| (*id, Seen::default())).collect();
        for (owner, home) in self.driver.homes().all() {
            if let Some(seen) = all.get_mut(&home) {
                seen.add(self.driver.watch.ages().books(), owner);
            }
        }
        // Each address space once, and then tenant by tenant up the tree.
        self.sum_up(&order, &mut all, Seen::merge);
        self.driver.machine.flush_stats();
        for (memcg, tenant) in &mut self.tenants {
            let stat = self.driver.machine.memory_stat(*memcg);
            // Those of files are new ones when they are read again, and nobody knows of it (docs/known-gaps.md).
            let refaults = stat.events.get(VmEvent::WorkingsetRefaultAnon);
            let back = refaults.saturating_sub(tenant.refaults);
            tenant.refaults = refaults;
            let seen = all.remove(memcg).unwrap_or_default();
            let books = self.driver.watch.ages().books();
            tenant
                .curve
                .begin_is(|begin| Millis(books.representative_ms(begin.0)));
            tenant.curve.look(seen.into_look(now_ms, back));
        }
    }

    /// What less memory would cost it, as far as looks know, and where the kernel has so much of its group's charge itself: a limit is held against all
    /// of that ([`Tenants::kernels_part`]).
    ///
    /// # Errors
    /// ENODEV.
    pub fn curve(&self, memcg: MemcgId, kernel: Option<u64>) -> Result<Option<Curve>, Errno> {
        let curve = report_of(&self.tenant(memcg)?.curve);
        Ok(curve.map(|curve| curve.beside(kernel, None)))
    }
}
