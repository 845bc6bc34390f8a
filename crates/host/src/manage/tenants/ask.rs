//! What people ask of tenants: figures, limits, memory.
//!
//! Invariant: nothing is told of a tenant that is gone (ENODEV), as a control group's open file would; what the kernel
//! counts is told as it counts it, what only the engine knows is told under the kernel's names.

use std::collections::BTreeSet;

use engine::machine::ReclaimRequest;
use engine::memcg::{MemcgEvent, MemcgId};
use engine::memory_stat::MemoryStat;
use engine::{FolioType, Pages, ScanReason, Swappiness};
use rustix::io::Errno;

use super::super::driver::How;
use super::super::options::Limits;
use super::Tenants;
use super::tenant::for_engine;
use crate::ages::MemoryKind;

/// What the kernel counts of a tenant's group, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// All that is charged.
    pub current: u64,
    /// The most that ever was.
    pub peak: u64,
    /// In swap.
    pub swap: u64,
}

/// How old a tenant's pages are, on each node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ages {
    /// All nodes.
    pub nodes: Vec<NodeAges>,
}

/// The same of one node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeAges {
    /// Its number.
    pub number: u32,
    /// Upper edges of all bins but the last, milliseconds, ascending.
    pub edges: Vec<u64>,
    /// For each bin, anonymous and file bytes.
    pub bytes: Vec<[u64; 2]>,
}

impl Tenants {
    /// What the kernel counts.
    ///
    /// # Errors
    /// ENODEV.
    pub fn usage(&self, memcg: MemcgId) -> Result<Usage, Errno> {
        let wall = &self.tenant(memcg)?.wall;
        let usage = self.groups.usage(wall.group()).ok().flatten();
        let usage = usage.ok_or(Errno::NODEV)?;
        Ok(Usage {
            current: usage.current.unwrap_or(0),
            peak: usage.peak.unwrap_or(0),
            swap: usage.swap.unwrap_or(0),
        })
    }

    /// Its limits.
    ///
    /// # Errors
    /// ENODEV.
    pub fn limits(&self, memcg: MemcgId) -> Result<Limits, Errno> {
        Ok(self.tenant(memcg)?.limits)
    }

    /// Replaces its limits: they hold from now on, and stand on its group.
    ///
    /// # Errors
    /// ENODEV; the kernel's for the group.
    pub fn set_limits(&mut self, memcg: MemcgId, limits: Limits) -> Result<(), Errno> {
        let tenant = self.tenants.get_mut(&memcg).ok_or(Errno::NODEV)?;
        tenant.set_limits(limits)?;
        self.driver.machine.set_limits(memcg, for_engine(&limits));
        Ok(())
    }

    /// Moves a process in, as the kernel does for the same words.
    ///
    /// # Errors
    /// ENODEV; the kernel's.
    pub fn take(&mut self, memcg: MemcgId, pid: &str) -> Result<(), Errno> {
        self.tenant(memcg)?.wall.take(pid)
    }

    /// Whether there is a process in it or below it.
    ///
    /// # Errors
    /// ENODEV.
    pub fn is_populated(&self, memcg: MemcgId) -> Result<bool, Errno> {
        let pids = self.tenant(memcg)?.wall.pids();
        Ok(!pids.map_err(|_| Errno::NODEV)?.is_empty())
    }

    /// A file of its group as the kernel has it.
    ///
    /// # Errors
    /// ENODEV; the kernel's.
    pub fn kernel_file(&self, memcg: MemcgId, name: &str) -> Result<Vec<u8>, Errno> {
        self.tenant(memcg)?.wall.file(name)
    }

    /// memory.stat, of it and all below it or of it alone.
    ///
    /// # Errors
    /// ENODEV.
    pub fn stat(&mut self, memcg: MemcgId, is_local: bool) -> Result<MemoryStat, Errno> {
        self.tenant(memcg)?;
        let machine = &mut self.driver.machine;
        // A reader wants what is, not what was up to two seconds ago.
        machine.flush_stats();
        Ok(match is_local {
            true => machine.memory_stat_local(memcg),
            false => machine.memory_stat(memcg),
        })
    }

    /// memory.events by name, of it and all below it or of it alone. Kills are the kernel's to count.
    ///
    /// # Errors
    /// ENODEV.
    pub fn events(
        &mut self,
        memcg: MemcgId,
        is_local: bool,
    ) -> Result<Vec<(&'static str, u64)>, Errno> {
        let kills = self.tenant(memcg)?.wall.oom_kills().unwrap_or(0);
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
        let count = |event: MemcgEvent| match event {
            MemcgEvent::OomKill => kills,
            event => events.get(event),
        };
        Ok(of_memory.map(|event| (event.name(), count(event))).to_vec())
    }

    /// memory.reclaim: of the root by the memcg LRU.
    ///
    /// # Errors
    /// ENODEV; EAGAIN when less could be had.
    pub fn reclaim(
        &mut self,
        memcg: MemcgId,
        bytes: u64,
        swappiness: Option<Swappiness>,
    ) -> Result<(), Errno> {
        self.tenant(memcg)?;
        self.look_if_worth_it().map_err(|_| Errno::IO)?;
        let request = ReclaimRequest {
            reason: ScanReason::Proactive,
            nr: Pages(bytes / 4096),
            swappiness,
            now: self.now(),
        };
        let (tally, got) = self.driver.page_out(How::default(), |machine, kernel| {
            machine.proactive_reclaim(memcg, request, kernel)
        });
        let path = self.tenant(memcg)?.path.display().to_string();
        self.act(format!(
            "paged out {} pages of /{path}: {bytes} bytes were asked for (memory.reclaim)",
            tally.evicted
        ));
        got.map(drop).map_err(|_| Errno::AGAIN)
    }

    /// How old its pages are, with those of all below it, in bins with these upper edges (milliseconds, ascending) and a
    /// last one for what is older. Pages of unknown age are in the first. spec: workingset-report.md 2, 4.
    ///
    /// # Errors
    /// ENODEV.
    pub fn page_age(&mut self, memcg: MemcgId, edges: &[u64]) -> Result<Ages, Errno> {
        self.tenant(memcg)?;
        let tree = self.driver.machine.tree();
        let below: BTreeSet<MemcgId> = tree.pre_order(memcg).into_iter().collect();
        let now = self.driver.watch.elapsed_ms();
        let ages = self.driver.watch.ages();
        let of_node = |node: &u32| NodeAges {
            number: *node,
            edges: edges.to_vec(),
            bytes: vec![[0, 0]; edges.len() + 1],
        };
        let mut found: Vec<NodeAges> = ages.nodes().iter().map(of_node).collect();
        let mut add = |class, bin: usize, pages: u64| {
            let (kind, node) = MemoryKind::of(class);
            let node = node.min(found.len() - 1);
            let ty = match kind {
                MemoryKind::File => FolioType::File,
                MemoryKind::Anon | MemoryKind::Shmem => FolioType::Anon,
            };
            found[node].bytes[bin][ty.index()] += pages * 4096;
        };
        let homes = self.driver.homes().all();
        for (owner, _) in homes.filter(|(_, home)| below.contains(home)) {
            for (class, last, pages) in ages.books().ages(owner) {
                let age = now.saturating_sub(last);
                // A bin holds what is no older than its edge.
                add(class, edges.partition_point(|edge| *edge < age), pages);
            }
            for class in MemoryKind::classes() {
                add(class, 0, ages.books().unknown(owner, class));
            }
        }
        Ok(Ages { nodes: found })
    }
}
