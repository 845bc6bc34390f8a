//! Figures of all tenants at once, as of the last scan, for metrics and the dashboard.
//!
//! Invariant: a tenant's figures include all tenants below it. Each address space is read once,
//! however deep the tree is. Bytes by age plus bytes of unknown age are the resident bytes. A value
//! that the kernel does not report is `None`, not 0.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use engine::FolioType;
use engine::age_bins::{self, BINS};
use engine::memcg::MemcgId;
use engine::units::PAGE_SIZE;
use engine::vmstat::VmEvent;

pub use super::super::spent::{WALK_EDGES_MS, Walks};
use super::Tenants;
use super::left_out::LeftOut;
use crate::ages::MemoryKind;
use crate::system::Identity;
use crate::system::own_cpu;
use crate::system::pressure::{self, Pressure};

/// Upper edges of all age bins but the last, in milliseconds: the edges of a report without edge 0.
pub const EDGES_MS: &[u64] = age_bins::EDGES_MS.split_at(1).1;

/// Figures of all tenants after a scan.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Figures {
    /// Number of scans since the start.
    pub scans: u64,
    /// Figures of each tenant, parents before their children; the root is first.
    pub tenants: Vec<TenantFigures>,
    /// Processes and groups that scans do not include.
    pub left_out: LeftOut,
    /// Durations of page-table walks.
    pub walks: Walks,
    /// Processor time of this process by purpose; the parts add up to all of it.
    pub cpu: Cpu,
}

/// Processor time of this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cpu {
    /// Scans: reading, clearing, the age table, updating the engine.
    pub scan: Duration,
    /// Reclaim: choosing, the kernel's calls, verifying what was reclaimed.
    pub page_out: Duration,
    /// Everything else: files, requests, metrics.
    pub other: Duration,
}

/// Figures of one tenant, with all tenants below it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TenantFigures {
    /// Path of the tenant below the root; empty for the root.
    pub path: PathBuf,
    /// Resident memory on each NUMA node, in the order of [`Tenants::nodes`].
    pub nodes: Vec<NodeFigures>,
    /// Bytes in swap: the larger of the kernel's count for the group and the count in the page
    /// tables of the tenant's processes.
    pub swapped: u64,
    /// Bytes that the kernel charges to the tenant's group.
    pub charged: Option<u64>,
    /// Number of refaulted pages: of anonymous memory, then of files.
    pub refaults: [u64; 2],
    /// Number of reclaimed pages by kind of reclaim, under the kernel's names. The last is kernel
    /// reclaim, counted from pages that scans found gone.
    pub steals: [(&'static str, u64); 4],
    /// Number of control groups below the tenant that have no figures of their own and are part of
    /// the tenant's, as far as known.
    pub left_out_groups: u64,
    /// Age of the tenant's last scan when the last scan of all tenants ended, in seconds. `None`
    /// unless the tenant is scanned late, because its scans cost more than their share.
    pub late_seconds: Option<u64>,
    /// Resident bytes of processes that are not read because pagetide's own memory is limited.
    pub unread: u64,
    /// Time for which the tenant's tasks waited for memory; `None` if unknown.
    pub pressure: Option<Pressure>,
}

/// A tenant's resident bytes on one NUMA node; in each pair, anonymous memory is first, then files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeFigures {
    /// Bytes by age: a bin's age is at most its edge in [`EDGES_MS`] and above the edge before. The
    /// last bin is of ages above all edges.
    pub ages: [[u64; BINS]; 2],
    /// Bytes of unknown age.
    pub unknown: [u64; 2],
}

impl NodeFigures {
    /// Returns the resident bytes of memory type `ty`: 0 for anonymous memory, 1 for files.
    #[must_use]
    pub fn resident(&self, ty: usize) -> u64 {
        self.ages[ty].iter().sum::<u64>() + self.unknown[ty]
    }

    /// Adds the bytes of another tenant on the same node.
    fn add(&mut self, other: &NodeFigures) {
        for ty in 0..2 {
            self.unknown[ty] += other.unknown[ty];
            let bins = self.ages[ty].iter_mut().zip(&other.ages[ty]);
            bins.for_each(|(sum, bytes)| *sum += bytes);
        }
    }
}

/// Kinds of reclaim, in the order of memory.stat: name, then event. The last kind is kernel
/// reclaim.
const STEALS: [(&str, VmEvent); 4] = [
    ("kswapd", VmEvent::PgstealKswapd),
    ("direct", VmEvent::PgstealDirect),
    ("proactive", VmEvent::PgstealProactive),
    ("kernel", VmEvent::PgstealKernel),
];
/// Events of refaults: of anonymous memory, then of files.
const REFAULTS: [VmEvent; 2] = [
    VmEvent::WorkingsetRefaultAnon,
    VmEvent::WorkingsetRefaultFile,
];

impl Tenants {
    /// Returns the number of scans so far; figures change with each scan.
    #[must_use]
    pub fn scans(&self) -> u64 {
        self.driver.scans()
    }

    /// Returns the figures of all tenants.
    pub fn figures(&mut self) -> Figures {
        let all = self.below(MemcgId::ROOT);
        let mut nodes = self.by_node(&all);
        let mut swapped = self.swapped_by_tables(&all);
        let unread = self.unread_bytes(&all);
        // One flush of the engine's counters serves all tenants.
        self.driver.machine.flush_stats();
        let tenants = all.into_iter().filter_map(|memcg| {
            let nodes = nodes.remove(&memcg).unwrap_or_default();
            let swapped = swapped.remove(&memcg).unwrap_or(0);
            let unread = unread.get(&memcg).copied().unwrap_or(0);
            self.figures_of(memcg, nodes, (swapped, unread))
        });
        let tenants = tenants.collect();
        let spent = self.driver.spent();
        Figures {
            scans: self.scans(),
            tenants,
            left_out: self.left_out.clone(),
            walks: spent.walks,
            cpu: Cpu {
                scan: spent.scan,
                page_out: spent.page_out,
                other: own_cpu().saturating_sub(spent.scan + spent.page_out),
            },
        }
    }

    /// Returns the figures of one tenant with all tenants below it.
    fn figures_of(
        &mut self,
        memcg: MemcgId,
        nodes: Vec<NodeFigures>,
        (swapped, unread): (u64, u64),
    ) -> Option<TenantFigures> {
        // The root's figures are of all tenants. If the host's groups are tenants, the root's own
        // group is below the topmost of them, and the kernel's counters of the topmost group
        // include all.
        let host = self.host.as_ref().filter(|_| memcg == MemcgId::ROOT);
        let host = host.map(|host| host.memcg);
        let whole = host.unwrap_or(memcg);
        let usage = self.usage(whole).ok();
        let pressure = self.pressure(whole).ok();
        let stat = self.driver.machine.memory_stat(memcg);
        let tenant = self.tenants.get(&memcg)?;
        let count = |event| stat.events.get(event);
        Some(TenantFigures {
            path: tenant.path.clone(),
            nodes,
            // If the group contains made tenants, the kernel's count includes them, and is not
            // used.
            swapped: match host.is_none() && self.root_below(tenant).is_some() {
                false => usage.map_or(0, |usage| usage.swap).max(swapped),
                true => self.swapped(tenant, swapped),
            },
            charged: usage.map(|usage| usage.current),
            refaults: REFAULTS.map(count),
            steals: STEALS.map(|(name, event)| (name, count(event))),
            left_out_groups: tenant.left_out,
            late_seconds: self.late_seconds(memcg),
            unread,
            pressure: pressure.and_then(|text| pressure::parse(&text)),
        })
    }

    /// Returns [`TenantFigures::late_seconds`] of a tenant.
    fn late_seconds(&self, memcg: MemcgId) -> Option<u64> {
        let serial = self.serial(memcg)?;
        self.driver.watch.late().get(&serial)?;
        let ages = self.driver.watch.ages();
        let owners = self.driver.tenant_map().ids(memcg).owners().into_iter();
        let known = owners.map(|owner| ages.known_ms(owner)).min();
        let now = self.driver.watch.ended_ms();
        Some(now.saturating_sub(known.unwrap_or(0)) / 1000)
    }

    /// Returns the resident memory on each node, of each tenant with all tenants below it.
    fn by_node(&self, all: &[MemcgId]) -> BTreeMap<MemcgId, Vec<NodeFigures>> {
        let ages = self.driver.watch.ages();
        let (now, nodes) = (
            self.driver.watch.ended_ms(),
            ages.nodes().all().len().max(1),
        );
        let none = || vec![NodeFigures::default(); nodes];
        let mut found: BTreeMap<MemcgId, Vec<NodeFigures>> =
            all.iter().map(|memcg| (*memcg, none())).collect();
        for (owner, home) in self.driver.tenant_map().all() {
            let Some(of) = found.get_mut(&home) else {
                continue;
            };
            let known = now.min(ages.known_ms(owner));
            for (class, last, pages) in ages.age_table().ages(owner) {
                let age = known.saturating_sub(last);
                let bin = EDGES_MS.partition_point(|edge| *edge < age);
                let (ty, node) = place(class, nodes);
                of[node].ages[ty][bin] += pages * PAGE_SIZE;
            }
            for class in MemoryKind::classes() {
                let (ty, node) = place(class, nodes);
                of[node].unknown[ty] += ages.age_table().unknown(owner, class) * PAGE_SIZE;
            }
        }
        self.sum_up(all, &mut found, |above, below| {
            let both = above.iter_mut().zip(below);
            both.for_each(|(above, below)| above.add(below));
        });
        found
    }

    /// Returns the swapped-out private bytes in page tables, of each tenant with all tenants below
    /// it.
    fn swapped_by_tables(&self, all: &[MemcgId]) -> BTreeMap<MemcgId, u64> {
        let ages = self.driver.watch.ages();
        let swapped = |(identity, home): (&Identity, &MemcgId)| {
            Some((*home, ages.space(*identity)?.found.swapped * PAGE_SIZE))
        };
        self.with_all_below(all, self.tenant_map.iter().filter_map(swapped))
    }

    /// Returns the resident bytes of processes that the last scan did not read, of each tenant with
    /// all tenants below it.
    fn unread_bytes(&self, all: &[MemcgId]) -> BTreeMap<MemcgId, u64> {
        let unread = self.unread().into_iter();
        self.with_all_below(
            all,
            unread.map(|(memcg, unread)| (memcg, unread.pages * PAGE_SIZE)),
        )
    }

    /// Returns, for each tenant in `all`, the sum of bytes of the tenant and of all tenants below
    /// it. A tenant may occur several times in the input, or not at all.
    fn with_all_below(
        &self,
        all: &[MemcgId],
        bytes: impl Iterator<Item = (MemcgId, u64)>,
    ) -> BTreeMap<MemcgId, u64> {
        let mut found: BTreeMap<MemcgId, u64> = all.iter().map(|memcg| (*memcg, 0)).collect();
        for (memcg, bytes) in bytes {
            if let Some(sum) = found.get_mut(&memcg) {
                *sum += bytes;
            }
        }
        self.sum_up(all, &mut found, |above, below| *above += below);
        found
    }

    /// Adds each tenant's value to that of its parent.
    pub(super) fn sum_up<T: Clone>(
        &self,
        all: &[MemcgId],
        found: &mut BTreeMap<MemcgId, T>,
        add: impl Fn(&mut T, &T),
    ) {
        // In `all` parents come first. In reverse order, a tenant's sum is complete before it is
        // added to its parent's.
        for memcg in all.iter().rev() {
            let above = self.driver.machine.tree().parent(*memcg);
            let below = found.get(memcg).cloned();
            if let (Some(above), Some(below)) = (above.and_then(|id| found.get_mut(&id)), below) {
                add(above, &below);
            }
        }
    }
}

/// Returns the index of the type (0 anonymous memory, 1 files), then the index of the node.
fn place(class: crate::age_table::Class, nodes: usize) -> (usize, usize) {
    let (kind, node) = MemoryKind::of(class);
    let ty = match kind {
        MemoryKind::File => FolioType::File,
        MemoryKind::Anon | MemoryKind::Shmem => FolioType::Anon,
    };
    (ty.index(), node.min(nodes - 1))
}
