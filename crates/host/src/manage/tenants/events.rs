//! Events of tenants, under the names of memory.events.
//!
//! Invariant: what the kernel counts is told as it counts it; the engine's counts stand for what it has none of.

use std::io;

use engine::memcg::{MemcgEvent, MemcgId};
use rustix::io::Errno;

use super::Tenants;
use crate::system::cgroup::Version;
use crate::system::text::flat;
use crate::wall::Wall;

impl Tenants {
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
        let kernels = match self.groups.version {
            Version::V1 => None,
            Version::V2 => self.tenant(memcg)?.wall.file(file).ok(),
        };
        // Version 1 counts these of each group alone. (The engine's own count of the limit is of pages that a look finds before it finds which have
        // gone: no charge met it.)
        let of = match (self.groups.version, is_local) {
            (Version::V2, _) => Vec::new(),
            (Version::V1, true) => vec![memcg],
            (Version::V1, false) => self.below(memcg),
        };
        let sum = |count: &dyn Fn(&Wall) -> io::Result<u64>| -> u64 {
            let walls = of.iter().filter_map(|id| self.tenants.get(id));
            walls.filter_map(|tenant| count(&tenant.wall).ok()).sum()
        };
        let (kills, hits) = (sum(&Wall::oom_kills), sum(&Wall::limit_hits));
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
            (MemcgEvent::OomKill, None) => kills,
            (MemcgEvent::Max, None) => hits,
            (event, None) => events.get(event),
        };
        Ok(of_memory.map(|event| (event.name(), count(event))).to_vec())
    }
}
