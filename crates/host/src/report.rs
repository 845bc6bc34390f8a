//! What is known about the memory of some processes, as data: `report --json`, and what `top` shows.
//!
//! Invariant: names are those of `interfaces.md`; scripts rely on them. Fields are added and never
//! change their meaning. Units are in the names. The kernel's own figure stands beside each of ours
//! that has one (`kernel_says`).

mod curve;
mod needed;
mod part;
mod recording;
mod write_back;

use serde::{Deserialize, Serialize};

#[cfg(test)]
pub(crate) use curve::HELD_PER_MILLE;
pub use curve::{Curve, CurvePoint, REFAULTS_FLOOR, REFAULTS_PER_MILLE, Recommended};
pub use needed::{Beside, Budget, COST_PERCENT, Confidence, Needed, Price, Suggestion};
pub use part::Part;
pub use recording::RecordingReport;
pub use write_back::WriteBackReport;

/// Edges of bins, milliseconds: fine where policies are, coarse where only the order matters.
pub const AGE_EDGES_MS: [u64; 18] = [
    0,
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    30_000,
    60_000,
    120_000,
    300_000,
    600_000,
    1_800_000,
    3_600_000,
    7_200_000,
    21_600_000,
    43_200_000,
    86_400_000,
    604_800_000,
];

/// Where ages come from (`interfaces.md`, `age_source`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgeSource {
    /// The accessed bits of page tables: each page.
    PageTables,
    /// `/sys/kernel/mm/page_idle/bitmap`: each page, by frame.
    IdleBitmap,
    /// `Referenced` of `/proc/PID/smaps`: a whole mapping is as young as its youngest page.
    Referenced,
    /// Sizes only: all ages are unknown.
    #[default]
    None,
}

/// What one age stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgeGrain {
    /// One page, of whatever size the tables have it in.
    Page,
    /// One mapping.
    Mapping,
    /// Nothing is known.
    #[default]
    None,
}

/// One report: the processes of one target (a pid with its descendants, a control group, or all).
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// The pid that was asked for; none for a control group or for all.
    pub pid: Option<u32>,
    /// Its command line, the control group's path, or `all processes`.
    pub command: String,
    /// Time since watching began, milliseconds.
    pub wall_ms: u64,
    /// How it ended, if the processes are all gone and the kernel told: as a shell gives it.
    pub exit: Option<i32>,
    /// Each frame once: anonymous, mapped file and shared memory.
    pub resident_bytes: u64,
    /// `memory.current` (v1: `memory.usage_in_bytes`) of the target's own control group; none if it has none.
    pub charged_bytes: Option<u64>,
    /// The highest that was, as the kernel tells it: `memory.peak` (v1: `memory.max_usage_in_bytes`). What was charged to other groups before (a
    /// library that was in memory already) is not in it.
    pub charged_peak_bytes: Option<u64>,
    /// The larger one of that and of `resident_bytes`; without a group of its own the highest that a look saw.
    pub resident_peak_bytes: u64,
    /// In swap: entries of private memory, and shared memory by the kernel's smaps (asked for as rarely as
    /// `kernel_says`), each file's once.
    pub swapped_bytes: u64,
    /// Pages that went to swap while we watched: of all processes, the kernel's count; of some, what more is in
    /// swap and what came back, no more than the host's count.
    pub evicted_pages: u64,
    /// Pages that came back from swap while we watched: of all processes, the kernel's count; of some, their
    /// faults that needed reading (files' among them), no more than the host's count.
    pub refaulted_pages: u64,
    /// Of a managed target: pages that the kernel's own reclaim took.
    pub left_by_kernel_pages: u64,
    /// Of a managed target: pages that were to leave and did not, by reason.
    pub kept_pages: KeptPages,
    /// Of a managed target: its limits.
    pub limits: LimitsReport,
    /// Of a managed target with a policy: which, and what it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyReport>,
    /// Of a managed target whose oldest pages go on to a disk: how many did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_back: Option<WriteBackReport>,
    /// Of a managed target: the latest of what was done for its limits, its policy and commands, or would have been, and why; of lines
    /// that differ in numbers alone the last one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<String>,
    /// Bytes by age, one entry a node. All bins and `unknown_age_bytes` together are `resident_bytes`.
    pub page_age: Vec<NodeAge>,
    /// Resident bytes whose age is not known (secondary MMU, no clearing without a stall, no source).
    pub unknown_age_bytes: u64,
    /// Why, in words with bytes, largest first; empty if nothing is unknown.
    pub unknown_because: Vec<Unknown>,
    /// Where ages come from.
    pub age_source: AgeSource,
    /// What one age stands for.
    pub age_grain: AgeGrain,
    /// Time between two readings, milliseconds.
    pub interval_ms: u64,
    /// Readings so far.
    pub walks: u64,
    /// Pages that were accessed again, by the age they had before (the promotion histogram).
    pub reaccessed: Vec<Reaccess>,
    /// How much memory it needs, at what cost, how sure that is, and what to set; none before two looks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needed: Option<Needed>,
    /// What less memory would cost; none before two looks, and where nobody asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub curve: Option<Curve>,
    /// Of a managed target: what is recorded of it; none without `--record`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recording: Option<RecordingReport>,
    /// Page cache of the control group that nobody maps; none without a group.
    pub unmapped_cache_bytes: Option<u64>,
    /// Kernel memory of the control group (stacks, tables, slab); none without a group.
    pub kernel_bytes: Option<u64>,
    /// hugetlb pages: outside resident_bytes as they are outside the kernel's Rss; no age.
    pub hugetlb_bytes: u64,
    /// What the kernel itself says, for comparison.
    pub kernel_says: KernelSays,
    /// Processes that ended while we watched.
    pub ended: Ended,
    /// What watching cost.
    pub overhead: Overhead,
    /// What is watched by parts that people have names for; empty unless that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// Each process, largest resident first.
    pub processes: Vec<Process>,
    /// Things a reader should know: processes that could not be read, sources that are missing.
    pub notes: Vec<String>,
}

impl Report {
    /// Tells a curve of the same target, with what of its memory stays beside.
    pub fn tell_curve(&mut self, curve: Option<Curve>) {
        let (kernel, shared) = (self.kernel_bytes, self.kernel_says.shared_bytes);
        self.curve = curve.map(|curve| curve.beside(kernel, shared));
    }

    /// Says how much memory the target needs, from the curve that was told, within this budget and at these prices.
    pub fn tell_needed(&mut self, budget: Budget, price: &Price) {
        let beside = Beside {
            resident_bytes: self.resident_bytes,
            unknown_bytes: self.unknown_age_bytes,
        };
        let curve = self.curve.as_ref();
        self.needed = curve.and_then(|curve| Needed::of(curve, beside, budget, price));
    }
}

/// Pages that were to leave and did not. A page counts each time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KeptPages {
    /// Mapped by another process, too.
    pub shared: u64,
    /// Locked in memory.
    pub locked: u64,
    /// Given back by their program (`MADV_FREE`): the kernel frees them when memory is short.
    pub lazyfree: u64,
    /// Accessed meanwhile.
    pub referenced: u64,
    /// For another reason: being written, pinned, no free swap.
    pub busy: u64,
}

/// A policy, and what it did until now.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PolicyReport {
    /// `cold-age`, `promotion-rate`, `pressure` or `fit`.
    pub name: String,
    /// It decides, and nothing leaves.
    pub dry_run: bool,
    /// What was not accessed for so long leaves, milliseconds; none of a policy that goes by size, or has not chosen yet.
    pub threshold_ms: Option<u64>,
    /// What is above this leaves; none of a policy that goes by age, or has not chosen yet.
    pub limit_bytes: Option<u64>,
    /// How often it ordered that something leaves.
    pub orders: u64,
    /// Pages that left for it.
    pub evicted_pages: u64,
    /// Pages of files that nobody maps that were dropped for it.
    pub dropped_pages: u64,
    /// Pages that came back, whoever had made them leave.
    pub came_back_pages: u64,
    /// The latest of what it did, each with its reason.
    pub actions: Vec<ActionReport>,
}

/// Something that a policy did.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ActionReport {
    /// When, milliseconds since watching began.
    pub at_ms: u64,
    /// Pages that left, or would have.
    pub pages: u64,
    /// They would have.
    pub is_dry: bool,
    /// Why.
    pub why: String,
}

/// Limits in bytes; none where there is no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitsReport {
    /// `--memory-min`.
    pub min_bytes: Option<u64>,
    /// `--memory-low`.
    pub low_bytes: Option<u64>,
    /// `--memory-high`.
    pub high_bytes: Option<u64>,
    /// `--memory-max`.
    pub max_bytes: Option<u64>,
    /// `--swap-max`.
    pub swap_max_bytes: Option<u64>,
}

/// The page-age histogram of one node (`spec/workingset-report.md`).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NodeAge {
    /// NUMA node.
    pub node: u32,
    /// By increasing age; the first bin's edge is 0.
    pub bins: Vec<AgeBin>,
}

/// Bytes last accessed longer ago than this and no longer than the next bin's edge.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AgeBin {
    /// Lower edge, milliseconds.
    pub older_than_ms: u64,
    /// Anonymous memory, private and shared (memfd, tmpfs, System V).
    pub anon_bytes: u64,
    /// Mapped pages of files.
    pub file_bytes: u64,
}

/// Accesses to pages that had been idle for at least so long.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Reaccess {
    /// Lower edge of the age before, milliseconds.
    pub older_than_ms: u64,
    /// Pages of 4 KiB.
    pub pages: u64,
}

/// A reason for unknown ages.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Unknown {
    /// In words: what hides the accesses.
    pub reason: String,
    /// How much of the resident bytes.
    pub bytes: u64,
}

/// The kernel's own sums over the same processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct KernelSays {
    /// Sum of `Pss` of `smaps_rollup`; none where it may not be read, or where that would hold a program up for too long.
    pub pss_bytes: Option<u64>,
    /// Sum of `SwapPss`.
    pub swap_pss_bytes: Option<u64>,
    /// What one of the processes has in memory that others map, too: of the one with the most.
    #[serde(default)]
    pub shared_bytes: Option<u64>,
    /// How long ago it was asked for these, milliseconds: it walks all tables for them, so it is asked for
    /// no more than a four-hundredth of the time.
    pub asked_ms_ago: u64,
    /// `memory.pressure` (or `/proc/pressure/memory`): some avg10, hundredths of a percent.
    pub pressure_some_avg10: Option<u32>,
}

/// Processes that came and went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Ended {
    /// How many ended while we watched.
    pub processes: u64,
    /// How many of them no look ever saw (they lived between two).
    pub unseen: u64,
    /// The largest resident peak among all that ended, as far as the kernel told, bytes.
    pub peak_resident_bytes: u64,
    /// Whether the kernel's events counted them; without, only looks did, and some may be missing.
    pub counted_by_events: bool,
}

/// What watching cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Overhead {
    /// Our CPU time, milliseconds.
    pub cpu_ms: u64,
    /// Reading tables, milliseconds.
    pub walk_ms: u64,
    /// Clearing accessed bits, milliseconds.
    pub clear_ms: u64,
    /// The longest that one clearing held a target's memory map, microseconds.
    pub clear_longest_us: u64,
    /// In kernel calls that page out, milliseconds; 0 unless the target is managed.
    pub page_out_ms: u64,
    /// Resident bytes of the books.
    pub memory_bytes: u64,
}

/// One process of the target.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Process {
    /// Its pid.
    pub pid: u32,
    /// Its command line, or its name where there is none.
    pub command: String,
    /// Its user.
    pub uid: u32,
    /// Its control group (memory controller), as a path below the mount.
    pub cgroup: String,
    /// Frames that it owns: those of all processes add up to the target's.
    pub resident_bytes: u64,
    /// All that it maps, shared or not (its Rss by our reading).
    pub mapped_bytes: u64,
    /// In swap.
    pub swapped_bytes: u64,
    /// Of resident_bytes: accessed within the last interval.
    pub young_bytes: u64,
    /// Of resident_bytes: not accessed for 10 s, 1 min, 10 min.
    pub older_than_10s_bytes: u64,
    /// See above.
    pub older_than_1m_bytes: u64,
    /// See above.
    pub older_than_10m_bytes: u64,
    /// Of resident_bytes: nobody knows.
    pub unknown_age_bytes: u64,
}
