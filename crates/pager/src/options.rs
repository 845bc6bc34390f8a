//! What a user may ask for: limits, policy, store. Plain values, checked once, then never again.
//!
//! Invariant: an [`Options`] that passed [`Options::check`] contradicts itself nowhere; the manager
//! need not look for impossible combinations. Nothing here knows a process or a clock.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub mod units;

pub use units::{Bytes, Limit, Millis, Percent, UnitError};

/// The memory limits of one target, with the meaning of cgroup v2's files of the same names
/// (`interfaces.md`, LIMITS).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Limits {
    /// Never reclaimed for another tenant below this.
    pub min: Limit,
    /// Reclaimed below this only when nothing else is left.
    pub low: Limit,
    /// Above this the target is reclaimed and slowed.
    pub high: Limit,
    /// Resident bytes never stay above this.
    pub max: Limit,
    /// At most so many bytes of the target live in the store.
    pub swap_max: Limit,
}

impl Default for Limits {
    fn default() -> Limits {
        let none = Limit::Bytes(Bytes(0));
        Limits {
            min: none,
            low: none,
            high: Limit::Max,
            max: Limit::Max,
            swap_max: Limit::Max,
        }
    }
}

/// Which reclaim engine orders the pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// The multi-gen LRU (`spec/lru-gen.md`).
    #[default]
    MultiGen,
    /// The classic pair of lists (`spec/classic-lru.md`).
    ActiveInactive,
}

impl Algorithm {
    /// The name users write.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::MultiGen => "multi-gen",
            Algorithm::ActiveInactive => "active-inactive",
        }
    }
}

/// When and how pages age and leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Policy {
    /// Which engine.
    pub policy: Algorithm,
    /// A new generation is made this often; 10 s unless told.
    pub age_every: Millis,
    /// Pages untouched for longer leave even when no limit asks for it.
    pub evict_older_than: Option<Millis>,
    /// How often pages are evicted by age; 40 s unless told.
    pub every: Millis,
    /// Anon against file, `0..=200`; 60 unless told (the kernel's default).
    pub swappiness: u8,
    /// Decide, explain, and touch nothing.
    pub dry_run: bool,
}

/// Upper end of [`Policy::swappiness`].
pub const SWAPPINESS_MAX: u8 = 200;

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            policy: Algorithm::MultiGen,
            age_every: Millis(10_000),
            evict_older_than: None,
            every: Millis(40_000),
            swappiness: 60,
            dry_run: false,
        }
    }
}

/// Where evicted bytes live.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StorePlace {
    /// A memory pool of the target's own.
    #[default]
    Mem,
    /// An unlinked file in this directory, under a small memory pool.
    Dir(PathBuf),
}

/// How evicted pages are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compress {
    /// lz4, but zstd for pages that were put out because they were old.
    #[default]
    Tiered,
    /// Fast.
    Lz4,
    /// Smaller, slower.
    Zstd,
    /// Not at all (same-filled pages are still free).
    None,
}

impl Compress {
    /// The name users write.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Compress::Tiered => "tiered",
            Compress::Lz4 => "lz4",
            Compress::Zstd => "zstd",
            Compress::None => "none",
        }
    }
}

/// The store of one target.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct StoreOptions {
    /// Where.
    pub place: StorePlace,
    /// How.
    pub compress: Compress,
}

/// All that a user may ask of the manager of one target.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Options {
    /// How much memory.
    pub limits: Limits,
    /// Which pages go, and when.
    pub policy: Policy,
    /// Where they go.
    pub store: StoreOptions,
    /// Time between two looks at the target: the delay within which a limit holds.
    pub interval: Millis,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            limits: Limits::default(),
            policy: Policy::default(),
            store: StoreOptions::default(),
            interval: Millis(50),
        }
    }
}

/// A combination that cannot be meant.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OptionsError {
    /// A program cannot run in nothing.
    #[error("--memory-max {0}: a program needs some resident memory to run")]
    MaxTooSmall(Bytes),
    /// A lower limit above an upper one.
    #[error("--memory-{lower} is above --memory-{upper}: both cannot hold")]
    Crossed {
        /// Name of the limit that should be the lower one.
        lower: &'static str,
        /// Name of the limit that should be the upper one.
        upper: &'static str,
    },
    /// A period of zero would spin.
    #[error("--{0} 0: a period must be longer than nothing")]
    ZeroPeriod(&'static str),
    /// The classic lists know no ages.
    #[error("--policy active-inactive with --evict-older-than: it knows no ages")]
    NoAges,
    /// Outside the kernel's range.
    #[error("--swappiness {0}: it goes from 0 (only file pages) to {SWAPPINESS_MAX} (only anon)")]
    Swappiness(u8),
}

impl OptionsError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            OptionsError::MaxTooSmall(_) => {
                format!("give at least {MAX_LEAST}, e.g. `--memory-max 64M`")
            }
            OptionsError::Crossed { lower, upper } => {
                format!("lower --memory-{lower}, or raise --memory-{upper} above it")
            }
            OptionsError::ZeroPeriod(name) => format!("write e.g. `--{name} 10s`"),
            OptionsError::NoAges => {
                "leave out one of them; multi-gen is the policy that knows ages".to_owned()
            }
            OptionsError::Swappiness(_) => "60 is the kernel's default".to_owned(),
        }
    }
}

/// The smallest `memory.max` that is accepted: 64 pages, some thread stacks and their TLS.
pub const MAX_LEAST: Bytes = Bytes(256 << 10);

impl Options {
    /// Refuses what contradicts itself. Percentages are compared only with percentages: what they
    /// come to is known later.
    ///
    /// # Errors
    /// The first contradiction found.
    pub fn check(&self) -> Result<(), OptionsError> {
        if let Limit::Bytes(max) = self.limits.max
            && max < MAX_LEAST
        {
            return Err(OptionsError::MaxTooSmall(max));
        }
        self.limits.check_order()?;
        let periods = [
            ("age-every", self.policy.age_every),
            ("every", self.policy.every),
            ("interval", self.interval),
        ];
        if let Some((name, _)) = periods.iter().find(|(_, period)| period.0 == 0) {
            return Err(OptionsError::ZeroPeriod(name));
        }
        let by_age = self.policy.evict_older_than.is_some();
        if by_age && self.policy.policy == Algorithm::ActiveInactive {
            return Err(OptionsError::NoAges);
        }
        if self.policy.swappiness > SWAPPINESS_MAX {
            return Err(OptionsError::Swappiness(self.policy.swappiness));
        }
        Ok(())
    }
}

impl Limits {
    /// `min <= max`, `low <= max`, `high <= max`, `min <= high`: cgroup v2 lets these cross and lets
    /// the upper one win silently; a limit that is silently ignored is what we refuse.
    fn check_order(&self) -> Result<(), OptionsError> {
        let pairs = [
            ("min", self.min, "max", self.max),
            ("low", self.low, "max", self.max),
            ("high", self.high, "max", self.max),
            ("min", self.min, "high", self.high),
        ];
        for (lower, low, upper, high) in pairs {
            let explicit = low != Limit::Max;
            if explicit && low.surely_above(high) {
                return Err(OptionsError::Crossed { lower, upper });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_pass_and_round_trip_through_json() {
        let options = Options::default();
        assert_eq!(options.check(), Ok(()));
        let text = serde_json::to_string(&options).unwrap();
        assert_eq!(serde_json::from_str::<Options>(&text).unwrap(), options);
    }

    #[test]
    fn crossed_limits_are_named() {
        let mut options = Options::default();
        options.limits.max = Limit::Bytes(Bytes(1 << 20));
        options.limits.high = Limit::Bytes(Bytes(2 << 20));
        let error = options.check().unwrap_err();
        assert_eq!(
            error.to_string(),
            "--memory-high is above --memory-max: both cannot hold"
        );
        assert!(error.hint().contains("raise --memory-max"));
        options.limits.high = Limit::Max;
        assert_eq!(options.check(), Ok(()), "no high limit is no contradiction");
    }

    #[test]
    fn nothing_and_never_are_refused() {
        let mut options = Options::default();
        options.limits.max = Limit::Bytes(Bytes(0));
        assert!(matches!(options.check(), Err(OptionsError::MaxTooSmall(_))));
        let mut options = Options::default();
        options.policy.every = Millis(0);
        assert_eq!(options.check(), Err(OptionsError::ZeroPeriod("every")));
        let mut options = Options::default();
        options.policy.swappiness = 201;
        assert_eq!(options.check(), Err(OptionsError::Swappiness(201)));
    }
}
