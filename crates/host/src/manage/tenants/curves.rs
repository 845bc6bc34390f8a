//! Refault curves: how many refaults each tenant, with all tenants below it, would have with less
//! memory.
//!
//! Invariant: a tenant's curve begins when the tenant is made. If a process moves to another
//! tenant, its pages count there from then on; what they added to the former tenant's curve stays
//! in it.

use std::collections::BTreeMap;

use engine::Millis;
use engine::memcg::MemcgId;
use engine::vmstat::VmEvent;
use rustix::io::Errno;

use super::Tenants;
use crate::report::Curve;
use crate::watch::curve::{Seen, report_of};

impl Tenants {
    /// Updates the curves of all tenants after a scan.
    pub(super) fn note_curves(&mut self) {
        let now_ms = self.driver.watch.scanned_ms();
        let order = self.below(MemcgId::ROOT);
        let mut all: BTreeMap<MemcgId, Seen> =
            order.iter().map(|id| (*id, Seen::default())).collect();
        for (owner, home) in self.driver.tenant_map().all() {
            if let Some(seen) = all.get_mut(&home) {
                seen.add(self.driver.watch.ages().age_table(), owner);
            }
        }
        for (identity, home) in &self.tenant_map {
            if let Some(seen) = all.get_mut(home) {
                seen.add_unread(self.driver.watch.unread_pages(*identity));
            }
        }
        // Each address space is read once; then the sums are added up the tree.
        self.sum_up(&order, &mut all, Seen::merge);
        self.driver.machine.flush_stats();
        for (memcg, tenant) in &mut self.tenants {
            let stat = self.driver.machine.memory_stat(*memcg);
            // A file page that is read again is a new page for the engine, so its refault is
            // unknown (docs/known-gaps.md).
            let refaults = stat.events.get(VmEvent::WorkingsetRefaultAnon);
            let back = refaults.saturating_sub(tenant.refaults);
            tenant.refaults = refaults;
            let seen = all.remove(memcg).unwrap_or_default();
            let age_table = self.driver.watch.ages().age_table();
            tenant
                .curve
                .rename_begin(|begin| Millis(age_table.representative_ms(begin.0)));
            tenant.curve.scan(seen.into_scan(now_ms, back));
        }
    }

    /// Returns a tenant's curve; `None` if the scans so far do not show it. `kernel`: bytes of the
    /// group's charge that are the kernel's own memory ([`Tenants::kernels_part`]), to which a
    /// limit applies, too.
    ///
    /// # Errors
    /// ENODEV: the tenant is gone.
    pub fn curve(&self, memcg: MemcgId, kernel: Option<u64>) -> Result<Option<Curve>, Errno> {
        let curve = report_of(&self.tenant(memcg)?.curve);
        Ok(curve.map(|curve| curve.beside(kernel, None)))
    }
}
