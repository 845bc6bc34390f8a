//! Figures of all tenants at once, as the last look left them: what metrics and the dashboard show.
//!
//! Invariant: a tenant's figures are of it and all below it; each address space is gone through once, however deep the
//! tree. Bytes by age and bytes of unknown age are together what is resident. What the kernel does not tell is none, not 0.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use engine::FolioType;
use engine::memcg::MemcgId;
use engine::vmstat::VmEvent;

pub use super::super::spent::{WALK_EDGES_MS, Walks};
use super::Tenants;
use super::left_out::LeftOut;
use crate::ages::MemoryKind;
use crate::report::AGE_EDGES_MS;
use crate::system::own_cpu;
use crate::system::pressure::{self, Pressure};

const PAGE: u64 = 4096;

/// Upper edges of ages, milliseconds, of all bins but the last: those of a report without its 0.
pub const EDGES_MS: &[u64] = AGE_EDGES_MS.split_at(1).1;
/// Bins of ages.
pub const BINS: usize = AGE_EDGES_MS.len();

/// All tenants after a look.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Figures {
    /// Looks until then.
    pub looks: u64,
    /// Those above come first; the root is the first of all.
    pub tenants: Vec<TenantFigures>,
    /// What looks leave out.
    pub left_out: LeftOut,
    /// How long readings of tables took.
    pub walks: Walks,
    /// Processor time of this process by what it was for; together all of it.
    pub cpu: Cpu,
}

/// Processor time of this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cpu {
    /// Looks: reading, clearing, books, telling the engine.
    pub look: Duration,
    /// Reclaim: choosing, the kernel's calls, finding out what left.
    pub page_out: Duration,
    /// Everything else: files, questions, metrics.
    pub other: Duration,
}

/// One tenant, with all below it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TenantFigures {
    /// Its path below the root; empty for the root.
    pub path: PathBuf,
    /// What is in memory, in the order of [`Tenants::nodes`].
    pub nodes: Vec<NodeFigures>,
    /// In swap, bytes: the kernel's count for its group, or what its processes' tables say where that is more.
    pub swapped: u64,
    /// What the kernel charges to its group, bytes.
    pub charged: Option<u64>,
    /// Pages that came back, by type (anonymous, file).
    pub refaults: [u64; 2],
    /// Pages that left, by who asked, under the kernel's names; the last are those that the kernel took by itself, as looks
    /// found them gone.
    pub steals: [(&'static str, u64); 4],
    /// Control groups below it that have no figures of their own and are part of it, as far as they
    /// are known.
    pub left_out_groups: u64,
    /// How long before the last look the last scan of the tenant itself was, whole seconds, if its scans cost more than their
    /// share and it was late.
    pub late_seconds: Option<u64>,
    /// How long its tasks waited for memory.
    pub pressure: Option<Pressure>,
}

/// What of a tenant is in the memory of one node, bytes, by type (anonymous, file).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeFigures {
    /// By age: no older than each of [`EDGES_MS`] and older than the one before; the last is older than all.
    pub ages: [[u64; BINS]; 2],
    /// Of unknown age.
    pub unknown: [u64; 2],
}

impl NodeFigures {
    /// All of a type.
    #[must_use]
    pub fn resident(&self, ty: usize) -> u64 {
        self.ages[ty].iter().sum::<u64>() + self.unknown[ty]
    }

    fn add(&mut self, other: &NodeFigures) {
        for ty in 0..2 {
            self.unknown[ty] += other.unknown[ty];
            let bins = self.ages[ty].iter_mut().zip(&other.ages[ty]);
            bins.for_each(|(sum, bytes)| *sum += bytes);
        }
    }
}

/// Who asks for memory, as memory.stat calls it, in its order; then the kernel's own reclaim.
const STEALS: [(&str, VmEvent); 4] = [
    ("kswapd", VmEvent::PgstealKswapd),
    ("direct", VmEvent::PgstealDirect),
    ("proactive", VmEvent::PgstealProactive),
    ("kernel", VmEvent::PgstealKernel),
];
const REFAULTS: [VmEvent; 2] = [
    VmEvent::WorkingsetRefaultAnon,
    VmEvent::WorkingsetRefaultFile,
];

impl Tenants {
    /// Looks until now: figures change with each.
    #[must_use]
    pub fn looks(&self) -> u64 {
        self.driver.looks()
    }

    /// Figures of all tenants.
    pub fn figures(&mut self) -> Figures {
        let all = self.below(MemcgId::ROOT);
        let mut nodes = self.by_node(&all);
        let mut swapped = self.swapped_by_tables(&all);
        // Once for all of them.
        self.driver.machine.flush_stats();
        let tenants = all.into_iter().filter_map(|memcg| {
            let nodes = nodes.remove(&memcg).unwrap_or_default();
            let swapped = swapped.remove(&memcg).unwrap_or(0);
            self.figures_of(memcg, nodes, swapped)
        });
        let tenants = tenants.collect();
        let spent = self.driver.spent();
        Figures {
            looks: self.looks(),
            tenants,
            left_out: self.left_out.clone(),
            walks: spent.walks,
            cpu: Cpu {
                look: spent.look,
                page_out: spent.page_out,
                other: own_cpu().saturating_sub(spent.look + spent.page_out),
            },
        }
    }

    fn figures_of(
        &mut self,
        memcg: MemcgId,
        nodes: Vec<NodeFigures>,
        swapped: u64,
    ) -> Option<TenantFigures> {
        // The root is all: where the host's groups are followed, its own group lies below the first of them, and what the
        // kernel says of that one is of the whole.
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
            // What the kernel counts for a group with the made tenants in it is of both.
            swapped: match host.is_none() && self.made_below(tenant).is_some() {
                false => usage.map_or(0, |usage| usage.swap).max(swapped),
                true => self.swapped(tenant, swapped),
            },
            charged: usage.map(|usage| usage.current),
            refaults: REFAULTS.map(count),
            steals: STEALS.map(|(name, event)| (name, count(event))),
            left_out_groups: tenant.left_out,
            late_seconds: self.late_seconds(memcg),
            pressure: pressure.and_then(|text| pressure::parse(&text)),
        })
    }

    /// See [`TenantFigures::late_seconds`].
    fn late_seconds(&self, memcg: MemcgId) -> Option<u64> {
        let serial = self.serial(memcg)?;
        self.driver.watch.late().get(&serial)?;
        let ages = self.driver.watch.ages();
        let owners = self.driver.homes().ids(memcg).owners().into_iter();
        let known = owners.map(|owner| ages.known_ms(owner)).min();
        let now = self.driver.watch.ended_ms();
        Some(now.saturating_sub(known.unwrap_or(0)) / 1000)
    }

    /// What is in memory, of each with all below it.
    fn by_node(&self, all: &[MemcgId]) -> BTreeMap<MemcgId, Vec<NodeFigures>> {
        let ages = self.driver.watch.ages();
        let (now, nodes) = (self.driver.watch.ended_ms(), ages.nodes().len().max(1));
        let none = || vec![NodeFigures::default(); nodes];
        let mut found: BTreeMap<MemcgId, Vec<NodeFigures>> =
            all.iter().map(|memcg| (*memcg, none())).collect();
        for (owner, home) in self.driver.homes().all() {
            let Some(of) = found.get_mut(&home) else {
                continue;
            };
            let known = now.min(ages.known_ms(owner));
            for (class, last, pages) in ages.books().ages(owner) {
                let age = known.saturating_sub(last);
                let bin = EDGES_MS.partition_point(|edge| *edge < age);
                let (ty, node) = place(class, nodes);
                of[node].ages[ty][bin] += pages * PAGE;
            }
            for class in MemoryKind::classes() {
                let (ty, node) = place(class, nodes);
                of[node].unknown[ty] += ages.books().unknown(owner, class) * PAGE;
            }
        }
        self.sum_up(all, &mut found, |above, below| {
            let both = above.iter_mut().zip(below);
            both.for_each(|(above, below)| above.add(below));
        });
        found
    }

    /// Entries of private memory that are in swap, bytes, of each with all below it.
    fn swapped_by_tables(&self, all: &[MemcgId]) -> BTreeMap<MemcgId, u64> {
        let mut found: BTreeMap<MemcgId, u64> = all.iter().map(|memcg| (*memcg, 0)).collect();
        for (identity, home) in &self.homes {
            let space = self.driver.watch.ages().space(*identity);
            if let (Some(sum), Some(space)) = (found.get_mut(home), space) {
                *sum += space.found.swapped * PAGE;
            }
        }
        self.sum_up(all, &mut found, |above, below| *above += below);
        found
    }

    /// Adds what each has to whoever is above it.
    pub(super) fn sum_up<T: Clone>(
        &self,
        all: &[MemcgId],
        found: &mut BTreeMap<MemcgId, T>,
        add: impl Fn(&mut T, &T),
    ) {
        // Those above come first, so from the end on all below one are summed up before it.
        for memcg in all.iter().rev() {
            let above = self.driver.machine.tree().parent(*memcg);
            let below = found.get(memcg).cloned();
            if let (Some(above), Some(below)) = (above.and_then(|id| found.get_mut(&id)), below) {
                add(above, &below);
            }
        }
    }
}

/// Anonymous (0) or of a file (1), and which node's.
fn place(class: crate::books::Class, nodes: usize) -> (usize, usize) {
    let (kind, node) = MemoryKind::of(class);
    let ty = match kind {
        MemoryKind::File => FolioType::File,
        MemoryKind::Anon | MemoryKind::Shmem => FolioType::Anon,
    };
    (ty.index(), node.min(nodes - 1))
}
