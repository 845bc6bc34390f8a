//! What a user may ask for: limits and policy. Plain values, checked once, then never again.
//!
//! Invariant: an [`Options`] that passed [`Options::check`] contradicts itself nowhere; the manager
//! need not look for impossible combinations. Nothing here knows a process or a clock.

use std::time::Duration;

use engine::policy::Settings;
pub use engine::units::{Bytes, Limit, Millis, Pages, Swappiness};
use serde::{Deserialize, Serialize};

pub mod evict_by;
mod units;
mod write_back;

pub use evict_by::EvictBy;
pub use units::{CpuShare, Percent, Size, UnitError, bytes, millis};
pub use write_back::WriteBack;

/// The memory limits of one target, with the meaning of cgroup v2's files of the same names
/// (`--memory-max` and its kin).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Limits {
    /// Never reclaimed for another tenant below this.
    pub min: Size,
    /// Reclaimed below this only when nothing else is left.
    pub low: Size,
    /// Above this the target is reclaimed and slowed.
    pub high: Size,
    /// Resident bytes never stay above this.
    pub max: Size,
    /// At most so many bytes of the target are in swap.
    pub swap_max: Size,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            min: Size::ZERO,
            low: Size::ZERO,
            high: Size::Max,
            max: Size::Max,
            swap_max: Size::Max,
        }
    }
}

/// Which reclaim engine orders the pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// The multi-gen LRU.
    #[default]
    MultiGen,
    /// The classic pair of lists.
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
    pub age_every: Duration,
    /// What leaves even when no limit asks for it.
    pub evict_by: Option<EvictBy>,
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
            age_every: Duration::from_secs(10),
            evict_by: None,
            swappiness: 60,
            dry_run: false,
        }
    }
}

/// All that a user may ask of the manager of one target.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Options {
    /// How much memory.
    pub limits: Limits,
    /// Which pages go, and when.
    pub policy: Policy,
    /// What of it that is out goes on to a disk.
    pub write_back: Option<WriteBack>,
    /// The longest that a clearing of accessed bits may hold a process up; none for what suits the pace.
    pub max_wait: Option<Duration>,
    /// Go on with less than was asked for, and say so.
    pub best_effort: bool,
}

/// A combination that cannot be meant.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OptionsError {
    /// A program cannot run in nothing.
    #[error("--memory-{0} {1}: a program needs some resident memory to run")]
    TooSmall(&'static str, Bytes),
    /// Less than a page, and not nothing.
    #[error("--swap-max {0}: that is less than a page")]
    NoPage(Bytes),
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
    #[error("--policy active-inactive with --evict-older-than or --evict-by: it knows no ages")]
    NoAges,
    /// Page cache is watched for tenants alone.
    #[error("cold-age: `cache-older-than` is for tenants of `pagetide serve`")]
    CacheOfTenants,
    /// A number of a policy that cannot be meant.
    #[error("{policy}: `{key}` must be {must}")]
    Policy {
        /// Its name.
        policy: &'static str,
        /// Which number.
        key: &'static str,
        /// What it must be.
        must: &'static str,
    },
    /// Outside the kernel's range.
    #[error("--swappiness {0}: it goes from 0 (only file pages) to {SWAPPINESS_MAX} (only anon)")]
    Swappiness(u8),
}

impl OptionsError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            OptionsError::TooSmall(name, _) => {
                format!(
                    "give at least {MAX_LEAST}, e.g. `--memory-{name} 64M`: a number alone is bytes"
                )
            }
            OptionsError::NoPage(_) => {
                "write 0, or e.g. `--swap-max 512M`: a number alone is bytes".to_owned()
            }
            OptionsError::Crossed { lower, upper } => {
                format!("lower --memory-{lower}, or raise --memory-{upper} above it")
            }
            OptionsError::ZeroPeriod(name) => format!("write e.g. `--{name} 10s`"),
            OptionsError::Policy { policy, .. } => {
                format!("`--evict-by {policy}` alone is a good start")
            }
            OptionsError::NoAges => {
                "leave out one of them; multi-gen is the policy that knows ages".to_owned()
            }
            OptionsError::CacheOfTenants => {
                "leave it out: where a limit is, page cache goes first anyway".to_owned()
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
        for (name, limit) in [("max", self.limits.max), ("high", self.limits.high)] {
            let least = match limit {
                Size::Bytes(_) => MAX_LEAST,
                // Of something; what it comes to is known later.
                _ => Bytes(1),
            };
            let bytes = limit.bytes_of(1 << 40).map_or(Bytes(u64::MAX), Bytes);
            if bytes < least {
                return Err(OptionsError::TooSmall(name, bytes));
            }
        }
        if let Size::Bytes(bytes) = self.limits.swap_max
            && (1..4096).contains(&bytes.0)
        {
            return Err(OptionsError::NoPage(bytes));
        }
        self.limits.check_order()?;
        if self.policy.age_every.is_zero() {
            return Err(OptionsError::ZeroPeriod("age-every"));
        }
        if self
            .write_back
            .as_ref()
            .is_some_and(|asked| asked.older_than.is_zero())
        {
            return Err(OptionsError::ZeroPeriod("write-back-older-than"));
        }
        if let Some(EvictBy(settings)) = self.policy.evict_by {
            check_policy(&settings)?;
            if self.policy.policy == Algorithm::ActiveInactive {
                return Err(OptionsError::NoAges);
            }
            if settings.cache_older_than().is_some() {
                return Err(OptionsError::CacheOfTenants);
            }
        }
        if self.policy.swappiness > SWAPPINESS_MAX {
            return Err(OptionsError::Swappiness(self.policy.swappiness));
        }
        Ok(())
    }
}

/// `--evict-older-than` and `--every` are two numbers of a policy, and known by their own names.
fn check_policy(settings: &Settings) -> Result<(), OptionsError> {
    settings
        .check()
        .map_err(|(key, must)| match (settings, key) {
            (Settings::ColdAge(_), "every") => OptionsError::ZeroPeriod("every"),
            (Settings::ColdAge(_), _) => OptionsError::ZeroPeriod("evict-older-than"),
            _ => OptionsError::Policy {
                policy: settings.name(),
                key,
                must,
            },
        })
}

impl Limits {
    /// Whether anything is to hold the program's memory down.
    #[must_use]
    pub fn hold(&self) -> bool {
        self.max != Size::Max || self.high != Size::Max
    }

    /// Whether swap alone has a limit: we keep to it, and the kernel does where a group of version 2 can be had. (The story: no group was
    /// made, and the kernel swapped as ever.)
    #[must_use]
    pub fn bound_swap_alone(&self) -> bool {
        !self.hold() && self.swap_max != Size::Max
    }

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
            let explicit = low != Size::Max;
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
        options.limits.max = Size::Bytes(Bytes(1 << 20));
        options.limits.high = Size::Bytes(Bytes(2 << 20));
        let error = options.check().unwrap_err();
        assert_eq!(
            error.to_string(),
            "--memory-high is above --memory-max: both cannot hold"
        );
        assert!(error.hint().contains("raise --memory-max"));
        options.limits.high = Size::Max;
        assert_eq!(options.check(), Ok(()), "no high limit is no contradiction");
    }

    #[test]
    fn nothing_and_never_are_refused() {
        let mut options = Options::default();
        options.limits.max = Size::Bytes(Bytes(0));
        assert!(matches!(
            options.check(),
            Err(OptionsError::TooSmall("max", _))
        ));
        // (The story: `--memory-high 512`, in bytes, and the program crawled.)
        let mut options = Options::default();
        options.limits.high = Size::Bytes(Bytes(512));
        let error = options.check().unwrap_err();
        assert!(error.to_string().contains("--memory-high 512"), "{error}");
        options.limits.high = "0%".parse().expect("a share");
        assert!(options.check().is_err(), "nothing of anything");
        options.limits.high = "1%".parse().expect("a share");
        assert!(options.check().is_ok());
        let mut options = Options::default();
        options.limits.swap_max = Size::Bytes(Bytes(0));
        assert!(options.limits.bound_swap_alone() && options.check().is_ok());
        options.limits.swap_max = Size::Bytes(Bytes(512));
        let error = options.check().unwrap_err();
        assert!(error.to_string().contains("--swap-max 512"), "{error}");
        let mut options = Options::default();
        let cold_age =
            |older_than, every| Some(EvictBy::cold_age(Millis(older_than), Millis(every)));
        options.policy.evict_by = cold_age(1, 0);
        assert_eq!(options.check(), Err(OptionsError::ZeroPeriod("every")));
        options.policy.evict_by = cold_age(0, 1);
        let told = Err(OptionsError::ZeroPeriod("evict-older-than"));
        assert_eq!(options.check(), told);
        let mut options = Options::default();
        options.policy.swappiness = 201;
        assert_eq!(options.check(), Err(OptionsError::Swappiness(201)));
    }
}
