//! What people ask of tenants: figures and limits.
//!
//! Invariant: nothing is told of a tenant that is gone (ENODEV), as a control group's open file would; what the kernel
//! counts is told as it counts it, what only the engine knows is told under the kernel's names.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use engine::memcg::MemcgId;
use engine::memory_stat::MemoryStat;
use engine::vmstat::VmEvent;
use engine::{Bytes, FolioType, Limit};
use rustix::io::Errno;

use super::super::minder::Minder;
use super::super::noreuse::{Noreuse, NoreuseFiles};
use super::super::options::Limits;
use super::super::stall::{Stalls, swap_ins};
use super::group_share;
use super::tenant::Tenant;
use super::{NoreuseOfTenants, Tenants};
use crate::ages::MemoryKind;
use crate::report::{LimitsReport, Report};
use crate::system::cgroup::{Cache, Version};
use crate::system::pressure::{Pressure, parse};
use crate::system::{Identity, PathPattern};
use crate::wall::Wall;

/// Processes by the tenant that they are in.
#[derive(Debug, Default)]
pub struct MembersOf(BTreeMap<MemcgId, Vec<Identity>>);

/// What the kernel counts of a tenant's group, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// All that is charged.
    pub current: u64,
    /// The most that ever was; none where the kernel does not count it (version 2 before Linux 5.19, and its first group).
    pub peak: Option<u64>,
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
    /// Of the file bytes, those that nobody maps: their ages are estimates.
    pub estimated: Vec<u64>,
}

/// What of a tenant is on a node, bytes, as the kernel's memory.numa_stat sorts it.
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
    /// What the kernel counts; of the root with the host's groups, where they give for its budget.
    ///
    /// # Errors
    /// ENODEV.
    pub fn usage(&self, memcg: MemcgId) -> Result<Usage, Errno> {
        let own = &self.tenant(memcg)?.wall;
        let host = self.budget_of_host().filter(|_| memcg == MemcgId::ROOT);
        let wall = host.unwrap_or(own);
        let usage = match self.groups.usage(wall.group()) {
            Err(error) => return Err(error.lack().unwrap_or(Errno::NODEV)),
            Ok(usage) => usage.ok_or(Errno::NODEV)?,
        };
        let current = usage.current.or_else(|| wall.charged().ok());
        // The first group of version 2 has no counters: all that is in swap is its.
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

    /// Its limits.
    ///
    /// # Errors
    /// ENODEV.
    pub fn limits(&self, memcg: MemcgId) -> Result<Limits, Errno> {
        let tenant = self.tenant(memcg)?;
        let mut limits = tenant.limits;
        if tenant.of_host {
            let of_kernel = tenant.wall.kernel_limits();
            let ours = [&mut limits.max, &mut limits.high, &mut limits.swap_max];
            for (limit, of_kernel) in ours.into_iter().zip(of_kernel) {
                if let (Limit::Max, Some(bytes)) = (*limit, of_kernel) {
                    *limit = Limit::Bytes(Bytes(bytes));
                }
            }
            // As they are now, whether or not they bind us.
            let protection = tenant.wall.kernel_protection();
            for (limit, bytes) in [&mut limits.min, &mut limits.low]
                .into_iter()
                .zip(protection)
            {
                let kept = match bytes {
                    u64::MAX => Limit::Max,
                    bytes => Limit::Bytes(Bytes(bytes)),
                };
                if limit.pages() < kept.pages() {
                    *limit = kept;
                }
            }
        }
        Ok(limits)
    }

    /// Replaces its limits: they hold from now on, and stand on its group.
    ///
    /// # Errors
    /// ENODEV; the kernel's for the group.
    pub fn set_limits(&mut self, memcg: MemcgId, limits: Limits) -> Result<(), Errno> {
        self.may_change(memcg)?;
        let told = self.limits(memcg)?;
        let tenant = self.tenants.get_mut(&memcg).ok_or(Errno::NODEV)?;
        let refused = tenant.set_limits(&told, limits)?;
        let told = tenant.refusals_in_words(&refused);
        let limits = tenant.for_engine(true);
        self.driver.machine.set_limits(memcg, limits);
        told.into_iter().for_each(|what| self.act(what));
        self.protect();
        Ok(())
    }

    /// memory.soft_limit.
    ///
    /// # Errors
    /// ENODEV.
    pub fn soft_limit(&self, memcg: MemcgId) -> Result<Limit, Errno> {
        Ok(self.tenant(memcg)?.soft)
    }

    /// Replaces it: above this a tenant gives first when all are reclaimed. spec: reclaim-control.md 3.
    ///
    /// # Errors
    /// ENODEV; the kernel's for the group.
    pub fn set_soft_limit(&mut self, memcg: MemcgId, soft: Limit) -> Result<(), Errno> {
        self.may_change(memcg)?;
        let tenant = self.tenants.get_mut(&memcg).ok_or(Errno::NODEV)?;
        tenant.set_soft(soft)?;
        let limits = tenant.for_engine(true);
        self.driver.machine.set_limits(memcg, limits);
        // What is above it is of it and those above alone: thousands are not measured for one. (All are by each look.)
        let above: Vec<MemcgId> = self.driver.machine.tree().ancestors(memcg).collect();
        for one in above {
            self.measure_one(one);
        }
        Ok(())
    }

    /// Says which files are used once, as POSIX_FADV_NOREUSE does, which cannot be seen from outside: those with such `paths`, and of
    /// tenants and those below them these; no others from now on.
    pub fn set_noreuse(&mut self, paths: Vec<PathPattern>, of_tenants: NoreuseOfTenants) {
        self.noreuse = of_tenants;
        let of = |one: &Tenant| Some((one.memcg, self.noreuse_of(one)?));
        let tenants = self.tenants.values().filter_map(of).collect();
        self.driver.set_noreuse(Noreuse { paths, tenants });
    }

    /// What is said of a tenant's files.
    pub(super) fn noreuse_of(&self, tenant: &Tenant) -> Option<NoreuseFiles> {
        tenant.given(&self.noreuse, self.may_change_host()).cloned()
    }

    /// Remembers what was asked of its reports: on its group, or, of a group of the host that may not be changed, on the tree's root. An
    /// empty text is nothing.
    ///
    /// # Errors
    /// ENODEV; the kernel's.
    pub fn note_reports(&mut self, memcg: MemcgId, text: &str) -> Result<(), Errno> {
        if self.may_change(memcg).is_ok() {
            return self.tenant(memcg)?.wall.note_reports(text);
        }
        let path = self.tenant(memcg)?.path.clone();
        let by_path = &self.by_path;
        self.host_notes
            .note(&path, text, |path| by_path.contains_key(path));
        let root = self.tenant(MemcgId::ROOT)?;
        let done = root.wall.note_reports_of_others(&self.host_notes.parts());
        // (Where groups take no notes at all nobody expects it.)
        if let Err(errno) = done
            && errno != Errno::OPNOTSUPP
            && !std::mem::replace(&mut self.are_notes_refused, true)
        {
            self.act(format!(
                "what is asked of reports of the host's groups is forgotten when serve ends: it cannot be noted on its root ({errno})"
            ));
        }
        done
    }

    /// What was remembered, if anything.
    #[must_use]
    pub fn noted_reports(&self, memcg: MemcgId) -> Option<String> {
        let tenant = self.tenant(memcg).ok()?;
        if self.may_change(memcg).is_ok() {
            return tenant.wall.reports();
        }
        self.host_notes.of(&tenant.path).map(str::to_owned)
    }

    /// Moves a process in, as the kernel does for the same words.
    ///
    /// # Errors
    /// ENODEV; the kernel's.
    pub fn take(&mut self, memcg: MemcgId, pid: &str) -> Result<(), Errno> {
        self.may_change(memcg)?;
        let tenant = self.tenant(memcg)?;
        match tenant.wall.take(pid) {
            // Version 2: memory was handed down to who is below it, and nobody is any more.
            Err(Errno::BUSY) if !tenant.of_host => {
                tenant.wall.hand_down_no_more();
                tenant.wall.take(pid)
            }
            done => done,
        }
    }

    /// Whether there is a process in it or below it.
    ///
    /// # Errors
    /// ENODEV.
    pub fn is_populated(&self, memcg: MemcgId) -> Result<bool, Errno> {
        let pids = self.tenant(memcg)?.wall.pids();
        Ok(!pids.map_err(|_| Errno::NODEV)?.is_empty())
    }

    /// Whether it is one of the host's own groups.
    ///
    /// # Errors
    /// ENODEV.
    pub fn is_of_host(&self, memcg: MemcgId) -> Result<bool, Errno> {
        Ok(self.tenant(memcg)?.of_host)
    }

    /// A file of its group as the kernel has it.
    ///
    /// # Errors
    /// ENODEV; the kernel's.
    pub fn kernel_file(&self, memcg: MemcgId, name: &str) -> Result<Vec<u8>, Errno> {
        self.tenant(memcg)?.wall.file(name)
    }

    /// memory.pressure: the group's own, or where the kernel has none an estimate from pages that came back from swap,
    /// since it was asked for first, averaged between questions.
    ///
    /// # Errors
    /// ENODEV; the kernel's.
    pub fn pressure(&mut self, memcg: MemcgId) -> Result<Vec<u8>, Errno> {
        match self.kernel_pressure(memcg)? {
            Some(told) => Ok(told),
            None => Ok(self.estimate(memcg)?.to_string().into_bytes()),
        }
    }

    /// The same as numbers.
    pub(super) fn stalls(&mut self, memcg: MemcgId) -> Result<Pressure, Errno> {
        match self.kernel_pressure(memcg)? {
            Some(told) => parse(&told).ok_or(Errno::IO),
            None => self.estimate(memcg),
        }
    }

    /// As the kernel tells it, if it does.
    fn kernel_pressure(&self, memcg: MemcgId) -> Result<Option<Vec<u8>>, Errno> {
        match self.tenant(memcg)?.wall.file("memory.pressure") {
            Err(Errno::NOENT | Errno::OPNOTSUPP) => Ok(None),
            told => told.map(Some),
        }
    }

    fn estimate(&mut self, memcg: MemcgId) -> Result<Pressure, Errno> {
        let (now, version) = (Instant::now(), self.groups.version);
        let stat = self.tenant(memcg)?.wall.file("memory.stat")?;
        let swap_ins = swap_ins(&stat, version);
        let cost = self.swap_in_cost.get(self.driver.watch.proc());
        let tenant = self.tenants.get_mut(&memcg).ok_or(Errno::NODEV)?;
        let begin = || Stalls::new(swap_ins, now);
        let stalls = tenant.stalls.get_or_insert_with(begin);
        Ok(stalls.update(swap_ins, cost, now))
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

    /// memory.stat of it and of each tenant below it, those above first, all as of one moment.
    ///
    /// # Errors
    /// ENODEV.
    pub fn stats(&mut self, memcg: MemcgId) -> Result<Vec<(MemcgId, MemoryStat)>, Errno> {
        self.tenant(memcg)?;
        let all = self.below(memcg).into_iter();
        let machine = &mut self.driver.machine;
        machine.flush_stats();
        Ok(all.map(|one| (one, machine.memory_stat(one))).collect())
    }

    /// All that is known of it and all below it.
    ///
    /// # Errors
    /// ENODEV.
    pub fn report(&mut self, memcg: MemcgId) -> Result<Report, Errno> {
        let members = self.members();
        self.report_among(memcg, &members)
    }

    /// Who is in each tenant, as of the last look: for reports of several.
    #[must_use]
    pub fn members(&self) -> MembersOf {
        let mut members = MembersOf::default();
        for (identity, home) in &self.homes {
            members.0.entry(*home).or_default().push(*identity);
        }
        members
    }

    /// The same as [`Tenants::report`], by [`Tenants::members`].
    ///
    /// # Errors
    /// ENODEV.
    pub fn report_among(&mut self, memcg: MemcgId, members: &MembersOf) -> Result<Report, Errno> {
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
        let hard = |limit: Limit| match limit {
            Limit::Max => None,
            limit => Some(limit.pages().bytes().0),
        };
        let soft = |limit: Limit| hard(limit).filter(|bytes| *bytes > 0);
        report.limits = LimitsReport {
            min_bytes: soft(limits.min),
            low_bytes: soft(limits.low),
            high_bytes: hard(limits.high),
            max_bytes: hard(limits.max),
            swap_max_bytes: hard(limits.swap_max),
        };
        report.policy = self.tenant(memcg)?.minder.as_ref().map(Minder::report);
        report.charged_bytes = Some(usage.current);
        report.charged_peak_bytes = usage.peak;
        // What a process that was moved in had been charged before stayed where it was.
        report.resident_peak_bytes = usage.peak.unwrap_or(0).max(report.resident_bytes);
        report.swapped_bytes = self.swapped(self.tenant(memcg)?, report.swapped_bytes);
        // By whoever asked; the same pages stand once more by type.
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
            report
                .notes
                .push("the first scan is not over: what it has not come to is missing".to_owned());
        }
        let host = self.host.as_ref().map(|host| host.memcg);
        if memcg == MemcgId::ROOT || host == Some(memcg) {
            report.notes.extend(self.left_out.notes());
        }
        Ok(report)
    }

    /// What the kernel has of a tenant's charge itself, and page cache that nobody maps, bytes; of a group of the host without what made tenants have.
    ///
    /// # Errors
    /// ENODEV.
    pub fn kernels_part(&self, memcg: MemcgId) -> Result<[Option<u64>; 2], Errno> {
        let tenant = self.tenant(memcg)?;
        let of = |wall: &Wall| {
            let usage = self.groups.usage(wall.group()).ok().flatten();
            let cache = usage.as_ref().and_then(|usage| usage.cache);
            let kernel = usage.and_then(|usage| usage.kernel);
            [kernel, cache.map(|cache| cache.unmapped())]
        };
        // The root's budget is then held against the whole of the host's groups.
        let of_host = self.budget_of_host().filter(|_| memcg == MemcgId::ROOT);
        let mut both = of(of_host.unwrap_or(&tenant.wall));
        if let Some(made) = self.made_below(tenant) {
            for (whole, made) in both.iter_mut().zip(of(made)) {
                *whole = whole.map(|bytes| bytes.saturating_sub(made.unwrap_or(0)));
            }
        }
        Ok(both)
    }

    /// How old its pages are, with those of all below it, on each node in bins with these upper edges (milliseconds,
    /// ascending; none for nodes behind the last) and a last one for what is older. Pages of unknown age are in the first.
    /// spec: workingset-report.md 2, 4.
    ///
    /// # Errors
    /// ENODEV.
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
        // A bin holds what is no older than its edge.
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
            found[place].bytes[bin][ty.index()] += pages * 4096;
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

    /// What of it and of all below it is on each node.
    ///
    /// # Errors
    /// ENODEV; the kernel's for the group.
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
            *sum += pages * 4096;
        });
        Ok(found)
    }

    /// Pages of it and of all below it: their kind and node's place, when they were accessed last (none where nobody
    /// knows), and how many.
    fn each_class(
        &self,
        memcg: MemcgId,
        mut tell: impl FnMut((MemoryKind, usize), Option<u64>, u64),
    ) {
        let tree = self.driver.machine.tree();
        let below: BTreeSet<MemcgId> = tree.pre_order(memcg).into_iter().collect();
        let books = self.driver.watch.ages().books();
        let homes = self.driver.homes().all();
        for (owner, _) in homes.filter(|(_, home)| below.contains(home)) {
            for (class, last, pages) in books.ages(owner) {
                tell(MemoryKind::of(class), Some(last), pages);
            }
            for class in MemoryKind::classes() {
                tell(MemoryKind::of(class), None, books.unknown(owner, class));
            }
        }
    }
}
