//! Events of tenants, under the names of memory.events.
//!
//! Invariant: what the kernel counts is told as it counts it; the engine's counts stand for what it has none of.

use engine::memcg::{MemcgEvent, MemcgId};
use rustix::io::Errno;

use super::Tenants;
use super::tenant::{Counted, Tenant};
use crate::system::cgroup::Version;
use crate::system::text::flat;

impl Tenants {
    /// What version 1 counts of this tenant alone, for when its group is gone and the kernel's files with it.
    pub(super) fn note_events(&mut self, memcg: MemcgId) {
        if self.groups.version == Version::V2 {
            return;
        }
        if let Some(tenant) = self.tenants.get_mut(&memcg) {
            tenant.counted = Counted::of(&tenant.wall).unwrap_or(tenant.counted);
        }
    }

    /// Events of a tenant that is gone stay in the one above it. (The story: a job that was killed is removed next, and its kill was gone from
    /// the events of who had started it.)
    pub(super) fn hand_up_events(&mut self, memcg: MemcgId, tenant: &Tenant) {
        let above = self.driver.machine.tree().parent(memcg);
        if let Some(above) = above.and_then(|above| self.tenants.get_mut(&above)) {
            above.of_gone.add(tenant.counted);
            above.of_gone.add(tenant.of_gone);
        }
    }

    /// memory.events by name, of it and all below it or of it alone: what the kernel counts (version 2; by version 1 kills, and charges
    /// that met the limit), and what we do. Reclaim of what is under its low is both's to count; version 1 has no other events, and they are the engine's.
    ///
    /// # Errors
    /// ENODEV.
    pub fn events(
        &mut self,
        memcg: MemcgId,
        is_local: bool,
    ) -> Result<Vec<(&'static str, u64)>, Errno> {
        let file = match is_local {
            true => "memory.events.local",
            false => "memory.events",
        };
        let wall = &self.tenant(memcg)?.wall;
        let (kernels, is_told) = match self.groups.version {
            Version::V1 => (None, Counted::of(wall).is_some()),
            Version::V2 => {
                let told = wall.file(file).ok();
                let is_told = told.is_some();
                (told, is_told)
            }
        };
        // A group that somebody else has removed is dropped by the next look. (The story: until then it had counted nothing, and who waited for a kill
        // was not woken. The first group of version 2 has no such file, and is there.)
        if !is_told && !wall.is_there() {
            return Err(Errno::NODEV);
        }
        // Version 1 counts these of each group alone. (The engine's own count of the limit is of pages that a look finds before it finds which have
        // gone: no charge met it.)
        let of = match (self.groups.version, is_local) {
            (Version::V2, _) => Vec::new(),
            (Version::V1, true) => vec![memcg],
            (Version::V1, false) => self.below(memcg),
        };
        let mut counted = Counted::default();
        for tenant in of.iter().filter_map(|id| self.tenants.get(id)) {
            counted.add(Counted::of(&tenant.wall).unwrap_or(tenant.counted));
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
