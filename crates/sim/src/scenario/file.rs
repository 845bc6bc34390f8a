//! The keys of an experiment file, as Rust types. Every key that is not listed here is an error.

use super::policy::PolicyOf;
use super::recorded::Recorded;
use super::values::{Rate, Share, Size, Time};
use serde::Deserialize;
use std::sync::Arc;
use toml::{Spanned, Table};

/// The content of a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct File {
    /// Name of the experiment; by default, the name of the file.
    pub name: Option<String>,
    /// Description in one line.
    #[serde(default)]
    pub about: String,
    /// The machine and the time.
    #[serde(default)]
    pub run: Run,
    /// The tenants that run on it.
    #[serde(default)]
    pub tenant: Vec<Spanned<Tenant>>,
    /// Writes to memory.reclaim.
    #[serde(default)]
    pub reclaim: Vec<Spanned<Reclaim>>,
    /// Values to try, in all combinations: `"run.memory" = ["1G", "2G"]`.
    #[serde(default)]
    pub sweep: Table,
}

/// The table `[run]`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Run {
    /// Duration of the run, simulated time.
    pub duration: Time,
    /// Length of a step, simulated time. In each step, the tenants make their touches one after the
    /// other.
    pub step: Time,
    /// Seed of all random numbers.
    pub seed: u64,
    /// The LRU policy of the machine, or a baseline policy.
    pub policy: PolicyName,
    /// How reclaim of the root chooses among memcgs; the default is that of [`Run::global`].
    pub global: Option<Global>,
    /// Whether the reclaim of a kernel or that of `pagetide serve` is simulated.
    pub reclaim: ReclaimName,
    /// The kernel version that the memcg LRU follows.
    pub memcg_lru: MemcgLruName,
    /// How a reclaim from active and inactive lists continues after it has reached its goal.
    pub scan_reduction: ScanReductionName,
    /// Number of reclaimers that run at the same time when the machine is full.
    pub reclaimers: u8,
    /// Memory of the machine. When it is full, the root group is reclaimed from directly.
    pub memory: Option<Size>,
    /// Swap of the machine.
    pub swap: Option<Size>,
    /// Whether the number of shadow entries is limited as in a kernel, where they cost memory.
    pub bound_shadows: bool,
    /// Whether reclaim makes passes also at priorities at which no tenant has a page to evict, as
    /// the kernel does.
    pub vain_passes: bool,
    /// Interval at which all tenants are aged, whether reclaim needs it or not. The tenants'
    /// policies decide at the same times.
    pub age_every: Option<Time>,
    /// Time that a refault makes its program wait, microseconds: the input of the policy
    /// `pressure`.
    pub refault_us: u64,
    /// Where accessed bits are kept.
    pub accessed_bits: AccessedBits,
    /// Only with page tables: whether eviction checks the neighbours of young pages (look-around),
    /// and walks skip tables that are not in the Bloom filter, as in the kernel.
    pub look_around: bool,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            duration: Time(60_000),
            step: Time(100),
            seed: 1,
            policy: PolicyName::MultiGen,
            global: None,
            reclaim: ReclaimName::Kernel,
            memcg_lru: MemcgLruName::Newer,
            scan_reduction: ScanReductionName::EachTurn,
            reclaimers: 1,
            memory: None,
            swap: None,
            bound_shadows: false,
            vain_passes: false,
            age_every: None,
            refault_us: 20,
            accessed_bits: AccessedBits::Engine,
            look_around: true,
        }
    }
}

impl Run {
    /// Returns how reclaim of the root chooses among memcgs. The default is what the kernel does
    /// with this LRU policy.
    #[must_use]
    pub fn global(&self) -> Global {
        self.global.unwrap_or(if self.policy.is_classic() {
            Global::Iterator
        } else {
            Global::MemcgLru
        })
    }
}

/// Values of `run.policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyName {
    /// Multi-gen LRU, as in about v6.16.
    MultiGen,
    /// Multi-gen LRU, as in about v6.3.
    #[serde(rename = "multi-gen-6.3")]
    MultiGen63,
    /// Active and inactive lists with workingset detection for anon.
    ActiveInactive,
    /// Active and inactive lists with workingset protection only.
    ActiveInactiveProtection,
    /// Active and inactive lists before workingset protection and detection.
    ActiveInactiveBase,
    /// Least recently used. This policy and the following ones are baselines: each tenant has a
    /// list of its own pages, as long as its memory-max.
    Lru,
    /// CLOCK with one reference bit.
    Clock,
    /// ARC: recency and frequency, in shares that adapt.
    Arc,
    /// S3-FIFO: a small queue before a CLOCK.
    S3Fifo,
    /// SIEVE: a queue with a hand that moves over it.
    Sieve,
    /// LIRS: inter-reference recency.
    Lirs,
    /// W-TinyLFU: counted frequency decides which pages enter the memory.
    WTinyLfu,
}

impl PolicyName {
    /// Returns whether the policy has active and inactive lists.
    #[must_use]
    pub const fn is_classic(self) -> bool {
        matches!(
            self,
            Self::ActiveInactive | Self::ActiveInactiveProtection | Self::ActiveInactiveBase
        )
    }
}

/// Values of `run.global`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Global {
    /// The memcg LRU.
    MemcgLru,
    /// A walk over the hierarchy of memcgs.
    Iterator,
    /// Heat levels: cold memcgs first.
    HeatLevel,
}

/// Values of `run.reclaim`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReclaimName {
    /// The reclaim of a kernel: at a fault that finds no free memory.
    Kernel,
    /// The reclaim of `pagetide serve` on a host: before limits are reached, in large batches.
    Host,
}

/// Values of `run.memcg-lru`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemcgLruName {
    /// As in the patch series that added the memcg LRU: two slots, and the size of a memcg is
    /// checked first.
    Seed,
    /// As in current kernels: three slots.
    Newer,
}

/// Values of `run.scan-reduction`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScanReductionName {
    /// The scan goals of the lists are reduced after each batch, as in current kernels.
    EachTurn,
    /// The scan goals are reduced only once, as in v5.8.
    Once,
}

/// Values of `run.accessed-bits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessedBits {
    /// In the engine's own table: fast.
    Engine,
    /// In simulated page tables that the walk visits through VMAs (multi-gen only).
    PageTables,
}

/// A table `[[tenant]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tenant {
    /// Name of the tenant in the results.
    pub name: String,
    /// Name of the parent; by default, the root.
    pub parent: Option<String>,
    /// Number of instances of this tenant below each instance of the parent.
    #[serde(default = "one")]
    pub count: u32,
    /// memory.max.
    pub memory_max: Option<Size>,
    /// memory.high.
    pub memory_high: Option<Size>,
    /// memory.low.
    pub memory_low: Option<Size>,
    /// memory.min.
    pub memory_min: Option<Size>,
    /// memory.soft_limit.
    pub soft_limit: Option<Size>,
    /// memory.swap.max.
    pub swap_max: Option<Size>,
    /// memory.swap.high.
    pub swap_high: Option<Size>,
    /// memory.swappiness.
    pub swappiness: Option<u8>,
    /// If given, the tenant is a guest (a virtual machine): pages idle for this long go into its
    /// balloon.
    pub balloon_older_than: Option<Time>,
    /// Interval at which the guest's host requests a report.
    pub balloon_every: Option<Time>,
    /// Policy that pages out the tenant's memory although no limit requires it.
    pub policy: Option<PolicyOf>,
    /// Time when the tenant arrives.
    #[serde(default)]
    pub arrive: Time,
    /// Time when the tenant departs and its memory is freed.
    pub depart: Option<Time>,
    /// The works of the tenant: what it touches.
    #[serde(default)]
    pub work: Vec<Spanned<Work>>,
}

const fn one() -> u32 {
    1
}

/// A table `[[tenant.work]]`: a separate mapping, and touches in it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Work {
    /// How the next page to touch is chosen.
    pub pattern: PatternName,
    /// Size of the mapping; not for a recording, which has a size of its own.
    pub size: Option<Size>,
    /// Touches per second; not for a recording, which has times of its own.
    pub rate: Option<Rate>,
    /// Only for recordings: path of the file, relative to the folder of the experiment file.
    pub file: Option<String>,
    /// Only for recordings: content of the file.
    #[serde(skip)]
    pub recorded: Option<Arc<Recorded>>,
    /// Only for zipf, fio-zipf and ebizzy: the exponent.
    pub exponent: Option<f64>,
    /// Only for hot-cold: the hot share of the mapping.
    pub hot: Option<Share>,
    /// Only for hot-cold: the share of the touches that go to hot pages.
    pub hot_touches: Option<Share>,
    /// Only for hot-cold: time until another part of the mapping becomes hot.
    pub phase: Option<Time>,
    /// Only for ebizzy: size of the chunk that one operation searches.
    pub chunk: Option<Size>,
    /// Kind of memory.
    #[serde(default)]
    pub memory: Kind,
    /// How the memory is accessed.
    #[serde(default)]
    pub access: Access,
    /// Advice to the kernel about the memory.
    #[serde(default)]
    pub advice: AdviceName,
    /// The memory node (NUMA) of the memory.
    #[serde(default)]
    pub node: u8,
    /// Time when the work starts, after the tenant's arrival.
    #[serde(default)]
    pub start: Time,
    /// Time when the work stops, after the tenant's arrival.
    pub stop: Option<Time>,
}

impl Work {
    /// Returns the number of pages of the mapping.
    #[must_use]
    pub fn pages(&self) -> u64 {
        match &self.recorded {
            Some(recorded) => recorded.pages().into(),
            None => self.size.map_or(0, Size::pages),
        }
    }

    /// Returns the number of touches per second; 0 for a recording.
    #[must_use]
    pub fn rate(&self) -> u64 {
        self.rate.map_or(0, |rate| rate.0)
    }
}

/// Values of the key `pattern`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PatternName {
    /// Random pages, all equally likely.
    Uniform,
    /// Random pages with a Zipf distribution.
    Zipf,
    /// All pages in order, once.
    Scan,
    /// All pages in order, again and again.
    Loop,
    /// Mostly pages of the hot part, which moves.
    HotCold,
    /// `fio --rw=randrw --random_distribution=random`, as in source document 000
    /// (docs/experiments.md).
    FioRandrw,
    /// `fio --rw=randrw --random_distribution=zipf:EXPONENT`.
    FioZipf,
    /// ebizzy: a random chunk, all its pages in order, as in source document 002
    /// (docs/experiments.md).
    Ebizzy,
    /// A recording of a real program (`pagetide run --record`), replayed once.
    Recording,
}

/// Values of the key `memory` of a work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Anonymous memory.
    #[default]
    Anon,
    /// Memory of a file.
    File,
}

/// Values of the key `access`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Through page tables (mmap).
    #[default]
    Mapped,
    /// Through a file descriptor (read and write).
    Descriptor,
}

/// Values of the key `advice`: what a program advises the kernel (madvise(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdviceName {
    /// No advice.
    #[default]
    Normal,
    /// MADV_SEQUENTIAL.
    Sequential,
    /// MADV_RANDOM.
    Random,
    /// POSIX_FADV_NOREUSE (files).
    Noreuse,
}

/// A table `[[reclaim]]`: a write to memory.reclaim.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Reclaim {
    /// Amount to reclaim.
    pub size: Size,
    /// Name of the tenant to reclaim from; by default, the root.
    pub tenant: Option<String>,
    /// Time of the first write.
    #[serde(default)]
    pub start: Time,
    /// Interval at which the write is repeated; by default, there is one write.
    pub every: Option<Time>,
    /// Value that replaces memory.swappiness for this write.
    pub swappiness: Option<u8>,
    /// The only memory node to reclaim from; by default, all.
    pub node: Option<u8>,
}
