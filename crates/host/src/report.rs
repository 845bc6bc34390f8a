//! What is known about the memory of the watched processes, as data: for `report --json` and `top`.
//!
//! Invariant: field names are those of `docs/interfaces.md`; scripts rely on them. Fields may be
//! added, but a field never changes its meaning. Names include units. If the kernel has a figure
//! for the same quantity as one of ours, both are reported (`kernel_says`).

mod curve;
mod part;
mod price;
mod quantile;
mod recording;
mod saving;
mod write_back;

mod needed;

use serde::{Deserialize, Serialize};

#[cfg(test)]
pub(crate) use curve::HELD_PER_MILLE;
pub use curve::{Curve, CurvePoint, REFAULTS_FLOOR, REFAULTS_PER_MILLE, Recommended};
pub use needed::{Beside, Budget, COST_PERCENT, Confidence, Needed, Suggestion};
pub use part::Part;
pub use price::Price;
pub use quantile::AgeQuantile;
pub use recording::RecordingReport;
pub use saving::{GroupStore, KnownBy, Saving, SwapStore};
pub use write_back::WriteBackReport;

/// Source of ages (`interfaces.md`, `age_source`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgeSource {
    /// The accessed bits of page tables: an age for each page.
    PageTables,
    /// `/sys/kernel/mm/page_idle/bitmap`: an age for each frame.
    IdleBitmap,
    /// `Referenced` of `/proc/PID/smaps`: a whole mapping is as young as its youngest page.
    Referenced,
    /// Sizes only: all ages are unknown.
    #[default]
    None,
}

/// Unit of memory that has one age.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgeGrain {
    /// One page, of the size that it has in the page tables (4 KiB or a huge page).
    Page,
    /// One mapping.
    Mapping,
    /// No ages are known.
    #[default]
    None,
}

/// A report on the processes of one target: a PID with its descendants, a control group, or all
/// processes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// The target's PID; `None` if the target is a control group or all processes.
    pub pid: Option<u32>,
    /// The target in words: a command line, a control group's path, or `all processes`.
    pub command: String,
    /// Time since the watch began, milliseconds.
    pub wall_ms: u64,
    /// Exit status as a shell shows it; `None` while a process runs or if the kernel did not report
    /// it.
    pub exit: Option<i32>,
    /// Resident memory: anonymous, mapped file and shared memory. Each frame counts once.
    pub resident_bytes: u64,
    /// `memory.current` (v1: `memory.usage_in_bytes`) of the target's own control group; `None` if
    /// the target has no group of its own.
    pub charged_bytes: Option<u64>,
    /// The kernel's peak of `charged_bytes`: `memory.peak` (v1: `memory.max_usage_in_bytes`). Does
    /// not include memory that was charged to another group before, such as a library that was in
    /// memory already.
    pub charged_peak_bytes: Option<u64>,
    /// The larger of `charged_peak_bytes` and `resident_bytes`. If the target has no group of its
    /// own: the most resident memory that a scan has found.
    pub resident_peak_bytes: u64,
    /// Memory in swap. Private memory is counted by its swap entries; shared memory by the kernel's
    /// smaps, each file once, and as rarely as `kernel_says`.
    pub swapped_bytes: u64,
    /// What the swapped-out memory saves: `swapped_bytes`, less the memory that its compressed
    /// copies take.
    pub saving: Saving,
    /// The swapped-out memory of the whole host, and the memory that its compressed copies take;
    /// `None` if unknown.
    pub host_swap: Option<SwapStore>,
    /// Pages swapped out since the watch began. If the target is all processes: the kernel's count.
    /// Otherwise: the growth of the target's swap plus its refaults, at most the host's count.
    pub evicted_pages: u64,
    /// Pages swapped in since the watch began. If the target is all processes: the kernel's count.
    /// Otherwise: the target's major faults (also those on file pages), at most the host's count.
    pub refaulted_pages: u64,
    /// Managed targets: pages that kernel reclaim took, not pagetide.
    pub left_by_kernel_pages: u64,
    /// Managed targets: pages that were chosen for reclaim and stayed resident, by reason.
    pub kept_pages: KeptPages,
    /// Managed targets: the limits that are set.
    pub limits: LimitsReport,
    /// Managed targets: the policy and what it did; `None` without a policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyReport>,
    /// Managed targets: writeback from zram to a disk; `None` if it is not enabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_back: Option<WriteBackReport>,
    /// Managed targets: the latest actions for limits, policy and commands, each with its reason.
    /// In a dry run they were only decided. Of actions that differ only in numbers, only the last
    /// is listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<String>,
    /// Resident bytes by age, one entry for each NUMA node. The sum of all bins and
    /// `unknown_age_bytes` is `resident_bytes`.
    pub page_age: Vec<NodeAge>,
    /// Resident bytes of unknown age. Possible causes: a secondary MMU, accessed bits that cannot
    /// be cleared without stalling the process, or no source of ages.
    pub unknown_age_bytes: u64,
    /// Reasons for unknown ages, each with its bytes, largest first; empty if all ages are known.
    pub unknown_because: Vec<Unknown>,
    /// Where ages come from.
    pub age_source: AgeSource,
    /// Unit of memory that one age stands for.
    pub age_grain: AgeGrain,
    /// Time between two scans, milliseconds.
    pub interval_ms: u64,
    /// Number of completed scans.
    pub walks: u64,
    /// Pages that were accessed again, by the age that they had before (the promotion histogram).
    pub reaccessed: Vec<Reaccess>,
    /// How much memory the target needs, at what cost, with what confidence, and which limits to
    /// set; `None` before the second scan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needed: Option<Needed>,
    /// The age up to which a requested share of the memory was accessed; `None` if no share was
    /// requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantile: Option<AgeQuantile>,
    /// How many refaults the target would have with less memory; `None` before the second scan, or
    /// if it was not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub curve: Option<Curve>,
    /// Managed targets: state of the recording; `None` without `--record`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recording: Option<RecordingReport>,
    /// Unmapped page cache of the target's control group; `None` without a group of its own.
    pub unmapped_cache_bytes: Option<u64>,
    /// The part of `unmapped_cache_bytes` that was accessed more than once (the kernel's active
    /// list). Page tables do not show its ages, so all of this page cache counts as needed. `None`
    /// without a group of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_cache_bytes: Option<u64>,
    /// Kernel memory of the target's control group (stacks, page tables, slab); `None` without a
    /// group of its own.
    pub kernel_bytes: Option<u64>,
    /// `charged_bytes` less what the report knows of it: resident and secret memory, unmapped page
    /// cache, kernel memory. If negative, other groups are charged for resident memory of the
    /// target. `None` without a group of its own.
    pub charged_rest_bytes: Option<i64>,
    /// Memory in hugetlb pages. It has no age, and is not part of `resident_bytes`, as it is not
    /// part of the kernel's Rss.
    pub hugetlb_bytes: u64,
    /// Resident secret memory (memfd_secret(2)). The kernel counts it in Rss; it is not part of
    /// `resident_bytes`, has no age, and is never swapped out. Read as rarely as `kernel_says`.
    pub secret_bytes: u64,
    /// Resident memory of mapped devices and rings (packet sockets, io_uring, perf), which is
    /// neither anonymous memory nor page cache. As `secret_bytes`.
    pub device_bytes: u64,
    /// Size of mappings of device memory that the kernel counts in no Rss (`VM_PFNMAP`).
    pub pfn_bytes: u64,
    /// The kernel's own figures for the same processes, for comparison.
    pub kernel_says: KernelSays,
    /// Processes that ended since the watch began.
    pub ended: Ended,
    /// Time and memory that the watch itself has used.
    pub overhead: Overhead,
    /// The target divided into named parts (systemd units, containers, ...); empty unless
    /// requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// All processes of the target, the one with the largest resident memory first.
    pub processes: Vec<Process>,
    /// Notes for the user: processes that could not be read, sources of ages that are missing.
    pub notes: Vec<String>,
}

impl Report {
    /// Sets the target's curve, after adding to it the kernel memory and shared memory that no
    /// limit reduces.
    pub fn set_curve(&mut self, curve: Option<Curve>) {
        let (kernel, shared) = (self.kernel_bytes, self.kernel_says.shared_bytes);
        let cache = self.used_cache_bytes;
        self.curve = curve.map(|curve| curve.beside(kernel, shared).with_cache(cache));
    }

    /// Sets the part of the charge that is none of the report's other figures.
    pub fn set_charged_rest(&mut self) {
        let known = [self.unmapped_cache_bytes, self.kernel_bytes];
        let mapped = self.resident_bytes.saturating_add(self.secret_bytes);
        let known = known
            .into_iter()
            .flatten()
            .fold(mapped, u64::saturating_add);
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let charged = self.charged_bytes.map(signed);
        self.charged_rest_bytes = charged.map(|bytes| bytes.saturating_sub(signed(known)));
    }

    /// Sets what the swapped-out memory saves. `host` is the host's store of swapped-out memory,
    /// `group` the part that the kernel counts for the target.
    pub fn set_saving(&mut self, host: Option<SwapStore>, group: Option<GroupStore>) {
        self.host_swap = host;
        self.saving = Saving::of(self.swapped_bytes, host, group);
    }

    /// Sets the age up to which `percent` of the memory of this node, or of all nodes, was
    /// accessed.
    pub fn set_quantile(&mut self, percent: f64, node: Option<u32>) {
        let quantile = AgeQuantile::of(&self.page_age, self.interval_ms, (percent, node));
        self.quantile = Some(quantile);
    }

    /// Sets how much memory the target needs, from its curve, for this budget and these prices.
    pub fn set_needed(&mut self, budget: Budget, price: &Price) {
        let beside = Beside {
            resident_bytes: self.resident_bytes,
            unknown_bytes: self.unknown_age_bytes,
        };
        let curve = self.curve.as_ref();
        self.needed = curve.and_then(|curve| Needed::of(curve, beside, budget, price));
    }
}

/// Pages that were chosen for reclaim but stayed resident, by reason. A page counts each time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KeptPages {
    /// Pages that another process maps, too.
    pub shared: u64,
    /// Pages that are locked in memory (mlock(2)).
    pub locked: u64,
    /// Lazyfree pages (`MADV_FREE`): the kernel frees them when memory is short.
    pub lazyfree: u64,
    /// Pages that were accessed between the decision and the page-out.
    pub referenced: u64,
    /// Pages that stayed for another reason: under writeback, pinned, or no free swap.
    pub busy: u64,
}

/// A policy, and what it has done so far.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PolicyReport {
    /// Name of the policy: `cold-age`, `promotion-rate`, `pressure` or `fit`.
    pub name: String,
    /// Whether the policy only decides, and no page is reclaimed.
    pub dry_run: bool,
    /// Minimum idle time of pages that are reclaimed, milliseconds; `None` if the policy chooses by
    /// size, or has not chosen yet.
    pub threshold_ms: Option<u64>,
    /// Size above which memory is reclaimed; `None` if the policy chooses by age, or has not chosen
    /// yet.
    pub limit_bytes: Option<u64>,
    /// Number of reclaims that the policy requested.
    pub orders: u64,
    /// Pages that were paged out at the policy's request.
    pub evicted_pages: u64,
    /// Pages of unmapped page cache that were dropped at the policy's request.
    pub dropped_pages: u64,
    /// Refaulted pages, whether the policy or the kernel had reclaimed them.
    pub came_back_pages: u64,
    /// The latest actions of the policy, each with its reason.
    pub actions: Vec<ActionReport>,
}

/// One action of a policy.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ActionReport {
    /// Time of the action, milliseconds since the watch began.
    pub at_ms: u64,
    /// Pages that were reclaimed; in a dry run, pages that would have been.
    pub pages: u64,
    /// Whether this was a dry run: nothing was reclaimed.
    pub is_dry: bool,
    /// The reason for the action, in words.
    pub why: String,
}

/// Limits of a managed target in bytes; `None` where no limit is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitsReport {
    /// Value of `--memory-min`.
    pub min_bytes: Option<u64>,
    /// Value of `--memory-low`.
    pub low_bytes: Option<u64>,
    /// Value of `--memory-high`.
    pub high_bytes: Option<u64>,
    /// Value of `--memory-max`.
    pub max_bytes: Option<u64>,
    /// Value of `--swap-max`.
    pub swap_max_bytes: Option<u64>,
}

/// The page-age histogram of one node (`spec/workingset-report.md`).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NodeAge {
    /// Number of the NUMA node.
    pub node: u32,
    /// Bins in ascending order of age; the lower edge of the first bin is 0.
    pub bins: Vec<AgeBin>,
}

/// Bytes that were last accessed at least `older_than_ms` ago, and less than the next bin's
/// `older_than_ms` ago.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AgeBin {
    /// Lower edge of the bin, milliseconds.
    pub older_than_ms: u64,
    /// Anonymous memory, private and shared (memfd, tmpfs, System V).
    pub anon_bytes: u64,
    /// Mapped pages of files.
    pub file_bytes: u64,
}

impl AgeBin {
    /// Returns the bytes of anonymous and file memory together.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.anon_bytes.saturating_add(self.file_bytes)
    }
}

/// Number of accesses to pages that had been idle for at least `older_than_ms` before the access.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Reaccess {
    /// Lower edge of the bin of idle times, milliseconds.
    pub older_than_ms: u64,
    /// Number of accesses, in pages of 4 KiB.
    pub pages: u64,
}

/// A reason why ages are unknown, with the bytes concerned.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Unknown {
    /// Why accesses are not known, in words.
    pub reason: String,
    /// Resident bytes of unknown age for this reason.
    pub bytes: u64,
}

/// The kernel's own figures for the same processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct KernelSays {
    /// Sum of `Pss` in the processes' `smaps_rollup`; `None` if we may not read it, or if reading
    /// it would delay a process for too long.
    pub pss_bytes: Option<u64>,
    /// Sum of `SwapPss` in the processes' `smaps_rollup`; `None` as for `pss_bytes`.
    pub swap_pss_bytes: Option<u64>,
    /// The largest amount of resident memory that a single process of the target shares with
    /// others.
    #[serde(default)]
    pub shared_bytes: Option<u64>,
    /// Age of the `smaps_rollup` figures, milliseconds. The kernel walks all page tables to compute
    /// them, so we spend at most 1/400 of the time on reading them.
    pub asked_ms_ago: u64,
    /// Part of the last 10 s in which some process waited for memory (PSI `some avg10`), in
    /// hundredths of a percent.
    pub pressure_some_avg10: Option<u32>,
    /// The processes whose waiting the pressure measures; `None` if the pressure is unknown.
    #[serde(default)]
    pub pressure_of: Option<PressureOf>,
}

/// The processes whose waiting for memory a pressure measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PressureOf {
    /// Processes of the target's own control group (`memory.pressure`).
    Group,
    /// All processes of the host (`/proc/pressure/memory`): those of the target may have waited
    /// less, or not at all.
    Host,
}

impl PressureOf {
    /// Returns `group` or `host`, as in JSON.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            PressureOf::Group => "group",
            PressureOf::Host => "host",
        }
    }

    /// Returns the words that name these processes in text output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            PressureOf::Group => "processes of its control group",
            PressureOf::Host => "processes of the whole host",
        }
    }
}

/// Processes of the target that ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Ended {
    /// Number of processes that ended since the watch began.
    pub processes: u64,
    /// Number of ended processes that no scan saw: they started and ended between two scans.
    pub unseen: u64,
    /// The largest peak of resident memory that the kernel reported for an ended process, bytes.
    pub peak_resident_bytes: u64,
    /// Whether the kernel's process events counted the ended processes. If not, only scans did, and
    /// short-lived processes are missing.
    pub counted_by_events: bool,
}

/// Time and memory that the watch itself has used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Overhead {
    /// Pagetide's CPU time, milliseconds.
    pub cpu_ms: u64,
    /// Time of reading page tables, milliseconds.
    pub walk_ms: u64,
    /// Time of clearing accessed bits, milliseconds.
    pub clear_ms: u64,
    /// Longest time for which clearing accessed bits held the mmap lock of one process,
    /// microseconds.
    pub clear_longest_us: u64,
    /// Time in system calls that page out, milliseconds; 0 if the target is not managed.
    pub page_out_ms: u64,
    /// Memory that the age table uses, bytes.
    pub memory_bytes: u64,
}

/// One process of the target.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Process {
    /// PID of the process.
    pub pid: u32,
    /// Command line of the process; its name if it has no command line.
    pub command: String,
    /// User ID of the process.
    pub uid: u32,
    /// Control group of the process (memory controller), as a path below the mount.
    pub cgroup: String,
    /// Resident memory that is counted for this process. A shared frame counts for one process
    /// only, so all processes add up to the target's `resident_bytes`.
    pub resident_bytes: u64,
    /// All resident memory that the process maps, shared or not (Rss, as our walks count it).
    pub mapped_bytes: u64,
    /// Private memory of the process that is swapped out.
    pub swapped_bytes: u64,
    /// The part of `resident_bytes` that was accessed within the last interval.
    pub young_bytes: u64,
    /// Part of `resident_bytes` that was not accessed for 10 s.
    pub older_than_10s_bytes: u64,
    /// Part of `resident_bytes` that was not accessed for 1 minute.
    pub older_than_1m_bytes: u64,
    /// Part of `resident_bytes` that was not accessed for 10 minutes.
    pub older_than_10m_bytes: u64,
    /// Part of `resident_bytes` of unknown age.
    pub unknown_age_bytes: u64,
}
