//! Requests of users about tenants: figures, limits and other settings.
//!
//! Invariant: a request about a tenant that is gone fails with ENODEV, as an open file of a removed
//! control group would. Counts of the kernel are reported unchanged. Counts that only the engine
//! has are reported under the kernel's names.

use std::collections::{BTreeMap, BTreeSet};

use engine::memcg::MemcgId;
use engine::memory_stat::MemoryStat;
use engine::units::PAGE_SIZE;
use engine::vmstat::VmEvent;
use engine::{Bytes, FolioType, Limit};
use rustix::io::Errno;

use super::super::noreuse::{Noreuse, NoreuseFiles};
use super::super::options::Limits;
use super::super::policy_runner::PolicyRunner;
use super::super::stall::{Stalls, swap_ins};
use super::group_share;
use super::tenant::Tenant;
use super::{NoreuseOfTenants, Tenants};
use crate::ages::MemoryKind;
use crate::hard_limit::HardLimit;
use crate::report::Report;
use crate::system::cgroup::{Cache, Version};
use crate::system::pressure::{Pressure, parse};
use crate::system::{Identity, PathPattern};

/// The processes of each tenant.
#[derive(Debug, Default)]
pub struct ProcessesByTenant(BTreeMap<MemcgId, Vec<Identity>>);

/// Memory of a tenant's group in bytes, as the kernel counts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// All memory that is charged to the group.
    pub current: u64,
    /// The highest charge so far; `None` where the kernel does not count it (version 2 before Linux
    /// 5.19, and the root group of version 2).
    pub peak: Option<u64>,
    /// Memory in swap.
    pub swap: u64,
}

/// Ages of a tenant's pages on each NUMA node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ages {
    /// Ages on each node, in the order of [`Tenants::nodes`].
    pub nodes: Vec<NodeAges>,
}

/// Ages of a tenant's pages on one NUMA node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeAges {
    /// The node's number.
    pub number: u32,
    /// Upper edges of all bins but the last, in milliseconds, ascending.
    pub edges: Vec<u64>,
    /// For each bin: bytes of anonymous memory, then of files.
    pub bytes: Vec<[u64; 2]>,
    /// For each bin: the bytes of files that are unmapped page cache, for which ages are estimates.
    pub estimated: Vec<u64>,
}

/// Memory of a tenant on one NUMA node, in bytes, in the classes of the kernel's memory.numa_stat.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeUsage {
    /// The node's number.
    pub number: u32,
    /// Private anonymous memory.
    pub anon: u64,
    /// Files, mapped or not, and shared memory.
    pub file: u64,
}

impl Tenants {
    /// Returns the kernel's counters of a tenant. For the root they include the host's groups, if
    /// these count towards the root's budget.
    ///
    /// # Errors
    /// ENODEV: the tenant is gone.
    pub fn usage(&self, memcg: MemcgId) -> Result<Usage, Errno> {
        let own = &self.tenant(memcg)?.hard_limit;
        let host = self.budget_of_host().filter(|_| memcg == MemcgId::ROOT);
        let hard_limit = host.unwrap_or(own);
        let usage = match self.groups.usage(hard_limit.group()) {
            Err(error) => return Err(error.lack().unwrap_or(Errno::NODEV)),
            Ok(usage) => usage.ok_or(Errno::NODEV)?,
        };
        let current = usage.current.or_else(|| hard_limit.charged().ok());
        // The root group of version 2 has no counters; its swap is all swap of the host.
        let is_first = self.groups.version == Version::V2 && usage.current.is_none();
        let of_host = || {
            let memory = self.driver.watch.proc().memory().ok().filter(|_| is_first);
            memory.map(|memory| memory.swap_total.saturating_sub(memory.swap_free))
        };
        Ok(Usage {
            current: current.unwrap_or(0),
            peak: usage.peak,
            swap: usage.swap.or_else(of_host).unwrap_or(0),
        })
    }

    /// Returns a tenant's limits. For a group of the host they include the kernel's own limits of
    /// that group.
    ///
    /// # Errors
    /// ENODEV: the tenant is gone.
    pub fn limits(&self, memcg: MemcgId) -> Result<Limits, Errno> {
        let tenant = self.tenant(memcg)?;
        let mut limits = tenant.limits;
        if tenant.of_host {
            let of_kernel = tenant.hard_limit.kernel_limits();
            let ours = [&mut limits.max, &mut limits.high, &mut limits.swap_max];
            for (limit, of_kernel) in ours.into_iter().zip(of_kernel) {
                if *limit == Limit::Max {
                    *limit = of_kernel;
                }
            }
            // The kernel's protection now, even if proactive reclaim does not have to respect it.
            let protection = tenant.hard_limit.kernel_protection();
            for (limit, bytes) in [&mut limits.min, &mut limits.low]
                .into_iter()
                .zip(protection)
            {
                let kept = Limit::from((bytes < u64::MAX).then_some(Bytes(bytes)));
                if limit.pages() < kept.pages() {
                    *limit = kept;
                }
            }
        }
        Ok(limits)
    }

    /// Replaces a tenant's limits. They take effect now, and are stored on the tenant's group.
    ///
    /// # Errors
    /// ENODEV: the tenant is gone. EPERM: the group is the host's and may not be changed. Otherwise
    /// the kernel's error for the group.
    pub fn set_limits(&mut self, memcg: MemcgId, limits: Limits) -> Result<(), Errno> {
        self.may_change(memcg)?;
        let reported = self.limits(memcg)?;
        let tenant = self.tenants.get_mut(&memcg).ok_or(Errno::NODEV)?;
        let refused = tenant.set_limits(&reported, limits)?;
        let reported = tenant.refusals_in_words(&refused);
        let limits = tenant.for_engine(true);
        self.driver.machine.set_limits(memcg, limits);
        reported.into_iter().for_each(|what| self.act(what));
        self.protect();
        Ok(())
    }

    /// Returns a tenant's memory.soft_limit.
    ///
    /// # Errors
    /// ENODEV: the tenant is gone.
    pub fn soft_limit(&self, memcg: MemcgId) -> Result<Limit, Errno> {
        Ok(self.tenant(memcg)?.soft)
    }

    /// Replaces a tenant's soft limit. When all tenants are reclaimed from, those above their soft
    /// limits come first.
    /// spec: reclaim-control.md 3.
    ///
    /// # Errors
    /// ENODEV: the tenant is gone. EPERM: the group is the host's and may not be changed. Otherwise
    /// the kernel's error for the group.
    pub fn set_soft_limit(&mut self, memcg: MemcgId, soft: Limit) -> Result<(), Errno> {
        self.may_change(memcg)?;
        let tenant = self.tenants.get_mut(&memcg).ok_or(Errno::NODEV)?;
        tenant.set_soft(soft)?;
        let limits = tenant.for_engine(true);
        self.driver.machine.set_limits(memcg, limits);
        // The excess depends on the usage of this tenant and of those above it, so only these are
        // measured now; each scan measures all.
        let above: Vec<MemcgId> = self.driver.machine.tree().ancestors(memcg).collect();
        for one in above {
            self.measure_one(one);
        }
        Ok(())
    }

    /// Sets which files are used only once, and drops earlier settings. Files that programs declare
    /// so themselves (POSIX_FADV_NOREUSE) need no setting. `paths` holds for all processes;
    /// `of_tenants` holds for the tenants at its paths and those below them.
    pub fn set_noreuse(&mut self, paths: Vec<PathPattern>, of_tenants: NoreuseOfTenants) {
        self.noreuse = of_tenants;
        let of = |one: &Tenant| Some((one.memcg, self.noreuse_of(one)?));
        let tenants = self.tenants.values().filter_map(of).collect();
        self.driver.set_noreuse(Noreuse { paths, tenants });
    }

    /// Returns the setting of files used only once that applies to a tenant; `None` if there is
    /// none.
    pub(super) fn noreuse_of(&self, tenant: &Tenant) -> Option<NoreuseFiles> {
        tenant.given(&self.noreuse, self.may_change_host()).cloned()
    }

    /// Stores the report settings `text` of a tenant on its group; an empty text removes them. If
    /// the group is the host's and may not be changed, the settings are stored on the tree's root.
    ///
    /// # Errors
    /// ENODEV: the tenant is gone. Otherwise the kernel's error.
    pub fn note_reports(&mut self, memcg: MemcgId, text: &str) -> Result<(), Errno> {
        if self.may_change(memcg).is_ok() {
            return self.tenant(memcg)?.hard_limit.note_reports(text);
        }
        let path = self.tenant(memcg)?.path.clone();
        let by_path = &self.by_path;
        self.host_notes
            .note(&path, text, |path| by_path.contains_key(path));
        let root = self.tenant(MemcgId::ROOT)?;
        let done = root
            .hard_limit
            .note_reports_of_others(&self.host_notes.parts());
        // If the file system has no attributes at all, users expect that nothing is stored.
        if let Err(errno) = done
            && errno != Errno::OPNOTSUPP
            && !std::mem::replace(&mut self.are_notes_refused, true)
        {
            self.act(format!(
                "report settings of the host's groups will be lost when serve ends: they cannot be stored on the tenants' root ({errno})"
            ));
        }
        done
    }

    /// Returns the stored report settings of a tenant; `None` if there are none.
    #[must_use]
    pub fn noted_reports(&self, memcg: MemcgId) -> Option<String> {
        let tenant = self.tenant(memcg).ok()?;
        if self.may_change(memcg).is_ok() {
            return tenant.hard_limit.reports();
        }
        self.host_notes.of(&tenant.path).map(str::to_owned)
    }

    /// Moves a process to a tenant, like a write of `pid` to cgroup.procs.
    ///
    /// # Errors
    /// ENODEV: the tenant is gone. EPERM: the group is the host's and may not be changed. Otherwise
    /// the kernel's error.
    pub fn take(&mut self, memcg: MemcgId, pid: &str) -> Result<(), Errno> {
        self.may_change(memcg)?;
        let tenant = self.tenant(memcg)?;
        match tenant.hard_limit.take(pid) {
            // Version 2: the memory controller is still enabled for children of this group, but it
            // has no children any more.
            Err(Errno::BUSY) if !tenant.of_host => {
                tenant.hard_limit.disable_memory();
                tenant.hard_limit.take(pid)
            }
            done => done,
        }
    }

    /// Whether a tenant, or one below it, has a process.
    ///
    /// # Errors
    /// ENODEV: the tenant is gone.
    pub fn is_populated(&self, memcg: MemcgId) -> Result<bool, Errno> {
        let pids = self.tenant(memcg)?.hard_limit.pids();
        Ok(!pids.map_err(|_| Errno::NODEV)?.is_empty())
    }

    /// Whether a tenant is one of the host's own groups.
    ///
    /// # Errors
    /// ENODEV: the tenant is gone.
    pub fn is_of_host(&self, memcg: MemcgId) -> Result<bool, Errno> {
        Ok(self.tenant(memcg)?.of_host)
    }

    /// Returns the content of one of the kernel's files of the tenant's group.
    ///
    /// # Errors
    /// ENODEV: the tenant is gone. Otherwise the kernel's error.
    pub fn kernel_file(&self, memcg: MemcgId, name: &str) -> Result<Vec<u8>, Errno> {
        self.tenant(memcg)?.hard_limit.file(name)
    }

    /// Returns the text of a tenant's memory.pressure, from the kernel. If the kernel has none, it
    /// is an estimate from swap-ins, which begins at the first request and averages over the time
    /// between requests.
    ///
    /// # Errors
    /// ENODEV: the tenant is gone. Otherwise the kernel's error.
    pub fn pressure(&mut self, memcg: MemcgId) -> Result<Vec<u8>, Errno> {
        match self.kernel_pressure(memcg)? {
            Some(reported) => Ok(reported),
            None => Ok(self.estimate(memcg)?.to_string().into_bytes()),
        }
    }

    /// Returns a tenant's pressure as numbers, from the same source as [`Tenants::pressure`].
    pub(super) fn stalls(&mut self, memcg: MemcgId) -> Result<Pressure, Errno> {
        match self.kernel_pressure(memcg)? {
            Some(reported) => parse(&reported).ok_or(Errno::IO),
            None => self.estimate(memcg),
        }
    }

    /// Returns the kernel's memory.pressure of the group; `None` if the kernel has none.
    fn kernel_pressure(&self, memcg: MemcgId) -> Result<Option<Vec<u8>>, Errno> {
        match self.tenant(memcg)?.hard_limit.file("memory.pressure") {
            Err(Errno::NOENT | Errno::OPNOTSUPP) => Ok(None),
            reported => reported.map(Some),
        }
    }

    /// Updates the estimate of a tenant's pressure from its swap-ins, and returns it.
    fn estimate(&mut self, memcg: MemcgId) -> Result<Pressure, Errno> {
        let (now, version) = (self.now(), self.groups.version);
        let stat = self.tenant(memcg)?.hard_limit.file("memory.stat")?;
        let swap_ins = swap_ins(&stat, version);
        let cost = self.swap_in_cost.get(self.driver.watch.proc());
        let tenant = self.tenants.get_mut(&memcg).ok_or(Errno::NODEV)?;
        let begin = || Stalls::new(swap_ins, now);
        let stalls = tenant.stalls.get_or_insert_with(begin);
        Ok(stalls.update(swap_ins, cost, now))
    }

    /// Returns a tenant's memory.stat: of the tenant alone if `is_local`, otherwise with all
    /// tenants below it.
    ///
    /// # Errors
    /// ENODEV: the tenant is gone.
    pub fn stat(&mut self, memcg: MemcgId, is_local: bool) -> Result<MemoryStat, Errno> {
        self.tenant(memcg)?;
        let machine = &mut self.driver.machine;
        // The engine's counters may be up to two seconds old, so they are flushed.
        machine.flush_stats();
        Ok(match is_local {
            true => machine.memory_stat_local(memcg),
            false => machine.memory_stat(memcg),
        })
    }

    /// Returns the memory.stat of a tenant and of each tenant below it, all as of the same moment.
    /// Parents come first.
    ///
    /// # Errors
    /// ENODEV: the tenant is gone.
    pub fn stats(&mut self, memcg: MemcgId) -> Result<Vec<(MemcgId, MemoryStat)>, Errno> {
        self.tenant(memcg)?;
        let all = self.below(memcg).into_iter();
        let machine = &mut self.driver.machine;
        machine.flush_stats();
        Ok(all.map(|one| (one, machine.memory_stat(one))).collect())
    }

    /// Returns the report of a tenant, with all tenants below it.
    ///
    /// # Errors
    /// ENODEV: the tenant is gone.
    pub fn report(&mut self, memcg: MemcgId) -> Result<Report, Errno> {
        let members = self.members();
        self.report_among(memcg, &members)
    }

    /// Returns the processes of each tenant as of the last scan, for [`Tenants::report_among`].
    #[must_use]
    pub fn members(&self) -> ProcessesByTenant {
        let mut members = ProcessesByTenant::default();
        for (identity, home) in &self.tenant_map {
            members.0.entry(*home).or_default().push(*identity);
        }
        members
    }

    /// Like [`Tenants::report`]; `members` is the result of [`Tenants::members`], which can serve
    /// several reports.
    ///
    /// # Errors
    /// ENODEV: the tenant is gone.
    pub fn report_among(
        &mut self,
        memcg: MemcgId,
        members: &ProcessesByTenant,
    ) -> Result<Report, Errno> {
        let stat = self.stat(memcg, false)?;
        let sum = |start: &str| {
            let of = stat
                .events
                .iter()
                .filter(|(name, _)| name.starts_with(start));
            of.map(|(_, count)| count).sum::<u64>()
        };
        let tenant = self.tenant(memcg)?;
        let (usage, limits) = (self.usage(memcg)?, self.limits(memcg)?);
        let below = self.below(memcg).into_iter();
        let who = below.filter_map(|one| members.0.get(&one)).flatten();
        let name = format!("/{}", tenant.path.display());
        let mut report = self.driver.watch.report_of(name, &mut who.copied());
        report.limits = limits.into();
        report.policy = self
            .tenant(memcg)?
            .policy_runner
            .as_ref()
            .map(PolicyRunner::report);
        report.charged_bytes = Some(usage.current);
        report.charged_peak_bytes = usage.peak;
        // Memory of a process that was moved here is still charged to its former group.
        report.resident_peak_bytes = usage.peak.unwrap_or(0).max(report.resident_bytes);
        report.swapped_bytes = self.swapped(self.tenant(memcg)?, report.swapped_bytes);
        // The counters by type count pages that the counters by kind of reclaim count, too, so they
        // are subtracted.
        let by_type = sum("pgsteal_anon") + sum("pgsteal_file");
        report.evicted_pages = sum("pgsteal_") - by_type;
        report.refaulted_pages = sum("workingset_refault_");
        report.left_by_kernel_pages = stat.events.get(VmEvent::PgstealKernel);
        let below = self.below(memcg);
        let in_exec = self.in_exec.iter();
        let in_exec = in_exec.filter(|(_, home)| below.contains(home));
        let note = self
            .driver
            .watch
            .note_in_exec(&mut in_exec.map(|(pid, _)| *pid));
        report.notes.extend(note);
        let left_out = below.into_iter();
        let left_out = left_out.filter_map(|one| Some(self.tenants.get(&one)?.left_out));
        let left_out: u64 = left_out.sum();
        if left_out > 0 {
            report.notes.push(format!(
                "{left_out} control groups below it or more have no figures of their own: {}",
                group_share::why()
            ));
        }
        if self.driver.watch.ended_ms() == 0 {
            report.notes.push(
                "the first scan is not finished: memory that it has not reached yet is missing"
                    .to_owned(),
            );
        }
        let host = self.host.as_ref().map(|host| host.memcg);
        if memcg == MemcgId::ROOT || host == Some(memcg) {
            report.notes.extend(self.left_out.notes());
        }
        Ok(report)
    }

    /// Returns two parts of a tenant's charge, in bytes: the kernel's own memory, then unmapped
    /// page cache. Each is `None` if the kernel does not report it. For a group of the host,
    /// tenants made by pagetide are not included.
    ///
    /// # Errors
    /// ENODEV: the tenant is gone.
    pub fn kernels_part(&self, memcg: MemcgId) -> Result<[Option<u64>; 2], Errno> {
        let tenant = self.tenant(memcg)?;
        let of = |hard_limit: &HardLimit| {
            let usage = self.groups.usage(hard_limit.group()).ok().flatten();
            let cache = usage.as_ref().and_then(|usage| usage.cache);
            let kernel = usage.and_then(|usage| usage.kernel);
            [kernel, cache.map(|cache| cache.unmapped())]
        };
        // If there is such a group, the root's budget applies to all of the host's groups.
        let of_host = self.budget_of_host().filter(|_| memcg == MemcgId::ROOT);
        let mut both = of(of_host.unwrap_or(&tenant.hard_limit));
        if let Some(made) = self.root_below(tenant) {
            for (whole, made) in both.iter_mut().zip(of(made)) {
                *whole = whole.map(|bytes| bytes.saturating_sub(made.unwrap_or(0)));
            }
        }
        Ok(both)
    }

    /// Returns the ages of the pages of a tenant, with all tenants below it, on each NUMA node.
    /// `edges` has for each node the upper edges of its bins, in milliseconds, ascending. A node
    /// without edges has one bin. The last bin of a node holds the pages older than all edges.
    /// Pages of unknown age are in the first bin.
    ///
    /// spec: workingset-report.md 2, 4.
    ///
    /// # Errors
    /// ENODEV: the tenant is gone.
    pub fn page_age(&mut self, memcg: MemcgId, edges: &[Vec<u64>]) -> Result<Ages, Errno> {
        self.tenant(memcg)?;
        let now = self.driver.watch.ended_ms();
        let of_node = |(place, node): (usize, &u32)| {
            let edges = edges.get(place).cloned().unwrap_or_default();
            NodeAges {
                number: *node,
                bytes: vec![[0, 0]; edges.len() + 1],
                estimated: vec![0; edges.len() + 1],
                edges,
            }
        };
        let nodes = self.nodes().iter();
        let mut found: Vec<NodeAges> = nodes.enumerate().map(of_node).collect();
        // A page belongs to the first bin whose edge is at least the page's age.
        let bin_of = |node: &NodeAges, last: u64| {
            let age = now.saturating_sub(last);
            node.edges.partition_point(|edge| *edge < age)
        };
        self.each_class(memcg, |(kind, place), last, pages| {
            let place = place.min(found.len() - 1);
            let bin = last.map_or(0, |last| bin_of(&found[place], last));
            let ty = match kind {
                MemoryKind::File => FolioType::File,
                MemoryKind::Anon | MemoryKind::Shmem => FolioType::Anon,
            };
            found[place].bytes[bin][ty.index()] += pages * PAGE_SIZE;
        });
        let caches = self.tenant(memcg)?.cache.iter().flatten();
        for (node, cache) in found.iter_mut().zip(caches) {
            for (since, bytes) in cache.all() {
                let bin = bin_of(node, since);
                node.bytes[bin][FolioType::File.index()] += bytes;
                node.estimated[bin] += bytes;
            }
        }
        Ok(Ages { nodes: found })
    }

    /// Returns the memory of a tenant, with all tenants below it, on each NUMA node.
    ///
    /// # Errors
    /// ENODEV: the tenant is gone. Otherwise the kernel's error for the group.
    pub fn numa_stat(&mut self, memcg: MemcgId) -> Result<Vec<NodeUsage>, Errno> {
        let caches = self.caches(self.tenant(memcg)?)?;
        let of_node = |(number, cache): (&u32, &Cache)| NodeUsage {
            number: *number,
            anon: 0,
            file: cache.unmapped(),
        };
        let nodes = self.nodes().iter().zip(&caches);
        let mut found: Vec<NodeUsage> = nodes.map(of_node).collect();
        self.each_class(memcg, |(kind, place), _, pages| {
            let node = &mut found[place.min(caches.len() - 1)];
            let sum = match kind {
                MemoryKind::Anon => &mut node.anon,
                MemoryKind::File | MemoryKind::Shmem => &mut node.file,
            };
            *sum += pages * PAGE_SIZE;
        });
        Ok(found)
    }

    /// Calls `tell` for the pages of a tenant, with all tenants below it. Its arguments: the kind
    /// of memory and the index of the NUMA node; the time of the last access, `None` if unknown;
    /// and the number of pages.
    fn each_class(
        &self,
        memcg: MemcgId,
        mut tell: impl FnMut((MemoryKind, usize), Option<u64>, u64),
    ) {
        let tree = self.driver.machine.tree();
        let below: BTreeSet<MemcgId> = tree.pre_order(memcg).into_iter().collect();
        let age_table = self.driver.watch.ages().age_table();
        let tenant_map = self.driver.tenant_map().all();
        for (owner, _) in tenant_map.filter(|(_, home)| below.contains(home)) {
            for (class, last, pages) in age_table.ages(owner) {
                tell(MemoryKind::of(class), Some(last), pages);
            }
            for class in MemoryKind::classes() {
                tell(MemoryKind::of(class), None, age_table.unknown(owner, class));
            }
        }
    }
}
