//! Simulates reclaim as `pagetide serve` does it on a host (`reclaim = "host"`): before limits are
//! reached, after a scan, with the host's settings ([`engine::MachineConfig::of_host`]) and
//! decisions ([`Headroom`]).
//!
//! A host measures usage every 2 to 200 ms; here it is measured at each fault. If a fault reaches a
//! limit all the same, the kernel's reclaim runs, as on a host (`reclaim.rs`).
//!
//! Invariant: all decisions are made by code of the engine, which a host runs, too.

use super::World;
use crate::scenario::file::{ReclaimName, Tenant};
use crate::scenario::values::Size;
use engine::machine::{HOST_SCANS_APART, Ongoing};
use engine::vmscan::{Headroom, PAGES_PER_MEASUREMENT};
use engine::{Limit, MemcgId, Memory, Millis, Pages, ScanReason};
use std::collections::BTreeMap;

/// The state that a host keeps between two reclaims.
#[derive(Debug, Default)]
pub(super) struct HostReclaim {
    /// Time of the last scan, milliseconds.
    scanned: u64,
    /// For each memcg with a limit: how well reclaim works, and the time of the next measurement of
    /// usage, milliseconds.
    headroom: BTreeMap<MemcgId, (Headroom, u64)>,
}

impl HostReclaim {
    /// Forgets a memcg whose tenant departs, because its number may be used again.
    pub(super) fn forget(&mut self, id: MemcgId) {
        self.headroom.remove(&id);
    }
}

impl World {
    /// Whether the file says `reclaim = "host"`.
    pub(super) fn is_host(&self) -> bool {
        self.file.run.reclaim == ReclaimName::Host
    }

    /// Reclaims if usage comes too close to a limit of tenant `n`, of a tenant above it, or of the
    /// machine.
    pub(super) fn hold_limits(&mut self, n: usize) {
        let mut at = Some(n);
        while let Some(guest) = at.map(|at| &self.guests[at]) {
            at = guest.parent;
            let tenant = self.file.tenant[guest.group].get_ref();
            if let Some(id) = guest.memcg {
                self.hold(id, limits(tenant));
            }
        }
        let memory = Size::limit(self.file.run.memory);
        self.hold(MemcgId::ROOT, (memory, Limit::Max));
    }

    fn hold(&mut self, id: MemcgId, limits: (Limit, Limit)) {
        let usage = self.machine.tree().get(id).usage();
        let wanted = Headroom::wanted(limits, usage);
        let Some(wanted) = wanted.filter(|wanted| wanted.pages > Pages(0)) else {
            return;
        };
        let next = self.host.headroom.get(&id).map_or(0, |(_, next)| *next);
        if self.now < next {
            return;
        }
        let most = Pages(wanted.pages.0.min(PAGES_PER_MEASUREMENT));
        self.scan_before_reclaim();
        let request = self.request(ScanReason::Direct, most, None);
        let mut ongoing = Ongoing::once(id, request);
        while !self
            .machine
            .resume(&mut ongoing, Millis(self.now), &mut self.spaces)
        {}
        let (room, next) = self.host.headroom.entry(id).or_default();
        let reclaimed = ongoing.reclaimed();
        room.note(reclaimed, most);
        let wait = room.wait_after((reclaimed, most), (usage, wanted.left));
        *next = self.now + u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    }

    /// Scans all tenants before a reclaim if the last scan was too long ago ([`HOST_SCANS_APART`]).
    /// Opens no generation.
    pub(super) fn scan_before_reclaim(&mut self) {
        if self.now >= self.host.scanned + HOST_SCANS_APART.0 {
            self.scan_host();
        }
    }

    /// Scans: finds the pages of all tenants that were accessed since the last scan.
    pub(super) fn scan_host(&mut self) {
        self.host.scanned = self.now;
        for guest in &self.guests {
            if let Some(id) = guest.memcg {
                self.spaces.walk_all(id, self.machine.lruvec_mut(id));
            }
        }
    }
}

/// Returns a tenant's memory.max and memory.high.
fn limits(tenant: &Tenant) -> (Limit, Limit) {
    (
        Size::limit(tenant.memory_max),
        Size::limit(tenant.memory_high),
    )
}
