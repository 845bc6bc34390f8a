//! Events of tenants, under the names of memory.events.
//!
//! Invariant: counts of the kernel are reported unchanged. An event that the kernel does not count
//! is reported as the engine counts it.

use engine::memcg::{MemcgEvent, MemcgId};
use rustix::io::Errno;

use super::Tenants;
use super::tenant::{Tenant, V1EventCounts};
use crate::system::cgroup::Version;
use crate::system::text::flat;

impl Tenants {
    /// Stores version 1's counts of this tenant alone. They are needed when the group and the
    /// kernel's files of it are gone.
    pub(super) fn note_events(&mut self, memcg: MemcgId) {
        if self.groups.version == Version::V2 {
            return;
        }
        if let Some(tenant) = self.tenants.get_mut(&memcg) {
            tenant.counted = V1EventCounts::of(&tenant.hard_limit).unwrap_or(tenant.counted);
        }
    }

    /// Adds the events of a tenant that is gone to its parent. An agent that started a job must see
    /// that the job was killed, even after the job's group was removed.
    pub(super) fn hand_up_events(&mut self, memcg: MemcgId, tenant: &Tenant) {
        let above = self.driver.machine.tree().parent(memcg);
        if let Some(above) = above.and_then(|above| self.tenants.get_mut(&above)) {
            above.of_gone.add(tenant.counted);
            above.of_gone.add(tenant.of_gone);
        }
    }

    /// Returns a tenant's memory.events by name: of the tenant alone if `is_local`, otherwise with
    /// all tenants below it. Version 2 has counts of the kernel for all events. Version 1 has them
    /// only for kills and for charges that met the limit; its other events are the engine's.
    /// Reclaim below memory.low is the sum of the kernel's and of pagetide's.
    ///
    /// # Errors
    /// ENODEV: the tenant is gone.
    pub fn events(
        &mut self,
        memcg: MemcgId,
        is_local: bool,
    ) -> Result<Vec<(&'static str, u64)>, Errno> {
        let file = match is_local {
            true => "memory.events.local",
            false => "memory.events",
        };
        let hard_limit = &self.tenant(memcg)?.hard_limit;
        let (kernels, is_reported) = match self.groups.version {
            Version::V1 => (None, V1EventCounts::of(hard_limit).is_some()),
            Version::V2 => {
                let reported = hard_limit.file(file).ok();
                let is_reported = reported.is_some();
                (reported, is_reported)
            }
        };
        // A group that other programs removed is dropped only by the next scan. Until then the
        // caller gets ENODEV: counts of 0 would not wake a client that waits for a kill. (The root
        // group of version 2 exists and has no such file.)
        if !is_reported && !hard_limit.is_there() {
            return Err(Errno::NODEV);
        }
        // Version 1 counts these events for each group alone. The engine's own count of limit
        // events is not used: a scan adds new pages before it removes those that are gone, so the
        // engine counts events that no charge caused.
        let of = match (self.groups.version, is_local) {
            (Version::V2, _) => Vec::new(),
            (Version::V1, true) => vec![memcg],
            (Version::V1, false) => self.below(memcg),
        };
        let mut counted = V1EventCounts::default();
        for tenant in of.iter().filter_map(|id| self.tenants.get(id)) {
            counted.add(V1EventCounts::of(&tenant.hard_limit).unwrap_or(tenant.counted));
            if !is_local {
                counted.add(tenant.of_gone);
            }
        }
        let machine = &mut self.driver.machine;
        let events = match is_local {
            true => *machine.memory_events_local(memcg),
            false => machine.memory_events(memcg),
        };
        let of_memory = [
            MemcgEvent::Low,
            MemcgEvent::High,
            MemcgEvent::Max,
            MemcgEvent::Oom,
            MemcgEvent::OomKill,
            MemcgEvent::OomGroupKill,
        ];
        let kernels = |event: MemcgEvent| flat(kernels.as_deref()?, event.name());
        let count = |event: MemcgEvent| match (event, kernels(event)) {
            (MemcgEvent::Low, kernels) => events.get(event) + kernels.unwrap_or(0),
            (_, Some(kernels)) => kernels,
            (MemcgEvent::OomKill, None) => counted.kills,
            (MemcgEvent::Max, None) => counted.hits,
            (event, None) => events.get(event),
        };
        Ok(of_memory.map(|event| (event.name(), count(event))).to_vec())
    }
}
