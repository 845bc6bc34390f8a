//! The keys of an experiment file. Every one that is not listed here is an error.

use super::policy::PolicyOf;
use super::recorded::Recorded;
use super::values::{Rate, Share, Size, Time};
use serde::Deserialize;
use std::sync::Arc;
use toml::{Spanned, Table};

/// A whole file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct File {
    /// Its name; the file's, if it has none.
    pub name: Option<String>,
    /// One line about it.
    #[serde(default)]
    pub about: String,
    /// The machine and the time.
    #[serde(default)]
    pub run: Run,
    /// Who runs on it.
    #[serde(default)]
    pub tenant: Vec<Spanned<Tenant>>,
    /// Writes to memory.reclaim.
    #[serde(default)]
    pub reclaim: Vec<Spanned<Reclaim>>,
    /// Values to try, all combinations: `"run.memory" = ["1G", "2G"]`.
    #[serde(default)]
    pub sweep: Table,
}

/// `[run]`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Run {
    /// Simulated time.
    pub duration: Time,
    /// Touches of one step are made tenant by tenant.
    pub step: Time,
    /// Seed of everything random.
    pub seed: u64,
    /// Which LRU.
    pub policy: PolicyName,
    /// How reclaim of the root chooses; see [`Run::global`].
    pub global: Option<Global>,
    /// How classic lists go on once a pass has reached its aim.
    pub scan_reduction: ScanReductionName,
    /// Reclaimers that are at work at once when the machine is full.
    pub reclaimers: u8,
    /// Memory of the machine; direct reclaim of the root when it is full.
    pub memory: Option<Size>,
    /// Swap of the machine.
    pub swap: Option<Size>,
    /// Shadows are bounded by nodes, as where they cost memory.
    pub bound_shadows: bool,
    /// Passes are made at whose priority nobody has a page to give, as the kernel makes them.
    pub vain_passes: bool,
    /// All tenants are aged so often, whether reclaim needs it or not; their policies are asked then.
    pub age_every: Option<Time>,
    /// What a page that comes back makes its program wait, microseconds: what `pressure` goes by.
    pub refault_us: u64,
    /// Where accessed bits are kept.
    pub accessed_bits: AccessedBits,
    /// With page tables: eviction looks around, and walks keep to the Bloom filters.
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
    /// How reclaim of the root chooses, unless the file says otherwise: as the kernel does under that policy.
    #[must_use]
    pub fn global(&self) -> Global {
        self.global.unwrap_or(if self.policy.is_classic() {
            Global::Iterator
        } else {
            Global::MemcgLru
        })
    }
}

/// `run.policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyName {
    /// Generations, as about v6.16.
    MultiGen,
    /// Generations, as about v6.3.
    #[serde(rename = "multi-gen-6.3")]
    MultiGen63,
    /// Active and inactive lists with workingset detection for anon.
    ActiveInactive,
    /// The same with workingset protection only.
    ActiveInactiveProtection,
    /// The same before both.
    ActiveInactiveBase,
    /// A yardstick, as those below: each tenant has a list of its own, as long as its memory-max.
    Lru,
    /// CLOCK.
    Clock,
    /// ARC.
    Arc,
    /// S3-FIFO.
    S3Fifo,
    /// SIEVE.
    Sieve,
    /// LIRS.
    Lirs,
    /// W-TinyLFU.
    WTinyLfu,
}

impl PolicyName {
    /// Active and inactive lists.
    #[must_use]
    pub const fn is_classic(self) -> bool {
        matches!(
            self,
            Self::ActiveInactive | Self::ActiveInactiveProtection | Self::ActiveInactiveBase
        )
    }
}

/// `run.global`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Global {
    /// The memcg LRU.
    MemcgLru,
    /// The hierarchy.
    Iterator,
}

/// `run.scan-reduction`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScanReductionName {
    /// After each turn, as current kernels.
    EachTurn,
    /// Once, as v5.8.
    Once,
}

/// `run.accessed-bits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessedBits {
    /// In the engine's own table: fast.
    Engine,
    /// In simulated page tables that the walk visits through VMAs (multi-gen only).
    PageTables,
}

/// `[[tenant]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tenant {
    /// Its name in the results.
    pub name: String,
    /// The tenant that it is below; none: the root.
    pub parent: Option<String>,
    /// So many alike, below each of its parent.
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
    /// It is a guest: what was idle for so long goes into its balloon.
    pub balloon_older_than: Option<Time>,
    /// How often its host asks.
    pub balloon_every: Option<Time>,
    /// What leaves it though no limit asks for it.
    pub policy: Option<PolicyOf>,
    /// When it comes.
    #[serde(default)]
    pub arrive: Time,
    /// When it goes, and its memory with it.
    pub depart: Option<Time>,
    /// What it does.
    #[serde(default)]
    pub work: Vec<Spanned<Work>>,
}

const fn one() -> u32 {
    1
}

/// `[[tenant.work]]`: a mapping of its own and touches in it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Work {
    /// How the next page is chosen.
    pub pattern: PatternName,
    /// Size of the mapping; a recording has its own.
    pub size: Option<Size>,
    /// How often it touches; a recording has its own times.
    pub rate: Option<Rate>,
    /// recording: the file, from the folder of this one.
    pub file: Option<String>,
    /// What is in it.
    #[serde(skip)]
    pub recorded: Option<Arc<Recorded>>,
    /// zipf, fio-zipf, ebizzy: the exponent.
    pub exponent: Option<f64>,
    /// hot-cold: the hot part of the mapping.
    pub hot: Option<Share>,
    /// hot-cold: the part of the touches that goes there.
    pub hot_touches: Option<Share>,
    /// hot-cold: how long until another part is hot.
    pub phase: Option<Time>,
    /// ebizzy: what is searched in one go.
    pub chunk: Option<Size>,
    /// What kind of memory.
    #[serde(default)]
    pub memory: Kind,
    /// How it is accessed.
    #[serde(default)]
    pub access: Access,
    /// What was advised about it.
    #[serde(default)]
    pub advice: AdviceName,
    /// When it starts, after the tenant's arrival.
    #[serde(default)]
    pub start: Time,
    /// When it stops.
    pub stop: Option<Time>,
}

impl Work {
    /// Pages of its mapping.
    #[must_use]
    pub fn pages(&self) -> u64 {
        match &self.recorded {
            Some(recorded) => recorded.pages().into(),
            None => self.size.map_or(0, Size::pages),
        }
    }

    /// Touches a second; none of a recording.
    #[must_use]
    pub fn rate(&self) -> u64 {
        self.rate.map_or(0, |rate| rate.0)
    }
}

/// `pattern`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PatternName {
    /// Any page, all alike.
    Uniform,
    /// Any page, few of them most often.
    Zipf,
    /// One page after the other, once.
    Scan,
    /// One page after the other, again and again.
    Loop,
    /// Mostly the hot part, which moves.
    HotCold,
    /// `fio --rw=randrw --random_distribution=random`, as in document 000.
    FioRandrw,
    /// `fio --rw=randrw --random_distribution=zipf:EXPONENT`.
    FioZipf,
    /// ebizzy: a random chunk, then all its pages, as in document 002.
    Ebizzy,
    /// What a real program did, once (`pagetide run --record`).
    Recording,
}

/// `memory` of a work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Anonymous.
    #[default]
    Anon,
    /// Of a file.
    File,
}

/// `access`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Through page tables.
    #[default]
    Mapped,
    /// By read and write.
    Descriptor,
}

/// `advice`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdviceName {
    /// None.
    #[default]
    Normal,
    /// MADV_SEQUENTIAL.
    Sequential,
    /// MADV_RANDOM.
    Random,
    /// POSIX_FADV_NOREUSE (files).
    Noreuse,
}

/// `[[reclaim]]`: a write to memory.reclaim.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Reclaim {
    /// How much.
    pub size: Size,
    /// Of whom; of the root, if not given.
    pub tenant: Option<String>,
    /// The first time.
    #[serde(default)]
    pub start: Time,
    /// Again and again.
    pub every: Option<Time>,
    /// Overrides memory.swappiness.
    pub swappiness: Option<u8>,
}
