//! What a user can set for the manager of one target: limits and policy. Plain values, checked
//! once.
//!
//! Invariant: an [`Options`] that passed [`Options::check`] contains no contradiction; the manager
//! need not check for impossible combinations. Nothing here reads a process or a clock.

use std::time::Duration;

use engine::policy::PolicySettings;
pub use engine::units::{Bytes, Limit, Millis, PAGE_LEN, PAGE_SIZE, Pages, Swappiness};
use serde::{Deserialize, Serialize};

mod units;
mod write_back;

pub mod evict_by;

pub use evict_by::EvictBy;
pub use units::{CpuShare, Percent, Size, UnitError, bytes, millis};
pub use write_back::WriteBack;

/// The memory limits of one target as users write them (`--memory-max` and its kin).
pub type Limits = host::manage::Limits<Size>;

/// The reclaim algorithm: it decides in which order pages are reclaimed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// The multi-gen LRU.
    #[default]
    MultiGen,
    /// The classic LRU of the kernel: two lists, active and inactive.
    ActiveInactive,
}

impl Algorithm {
    /// Returns the algorithm's name as users write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::MultiGen => "multi-gen",
            Algorithm::ActiveInactive => "active-inactive",
        }
    }
}

/// When and how pages age and are reclaimed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Policy {
    /// The reclaim algorithm.
    pub policy: Algorithm,
    /// Time between two scans, each of which opens a generation; default 10 s.
    pub age_every: Duration,
    /// The policy that reclaims even if no limit is exceeded; `None` for no policy.
    pub evict_by: Option<EvictBy>,
    /// How readily anonymous memory is reclaimed compared with files, `0..=200`; default 60, as in
    /// the kernel.
    pub swappiness: u8,
    /// Decide what to reclaim and report why, but reclaim nothing.
    pub dry_run: bool,
}

/// Largest value of [`Policy::swappiness`].
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

/// All that a user can set for the manager of one target.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Options {
    /// The memory limits.
    pub limits: Limits,
    /// Which pages are reclaimed, and when.
    pub policy: Policy,
    /// Writeback of the target's swapped-out pages to a disk; `None` for no writeback.
    pub write_back: Option<WriteBack>,
    /// Longest time for which clearing accessed bits may lock a process's memory; `None`: a time
    /// that suits the interval between scans.
    pub max_wait: Option<Duration>,
    /// If the host lacks something, go on without it and report that.
    pub best_effort: bool,
}

/// Options that contradict each other or make no sense.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OptionsError {
    /// The limit is below what any program needs to run.
    #[error("--memory-{0} {1}: a program needs some resident memory to run")]
    TooSmall(&'static str, Bytes),
    /// `--swap-max` is less than a page, and not zero.
    #[error("--swap-max {0}: that is less than a page")]
    NoPage(Bytes),
    /// The limit that should be the lower one is above the limit that should be the upper one.
    #[error("--memory-{lower} is above --memory-{upper}: both cannot hold")]
    Crossed {
        /// Name of the limit that should be the lower one.
        lower: &'static str,
        /// Name of the limit that should be the upper one.
        upper: &'static str,
    },
    /// The period of this option is zero, so that the manager would never pause.
    #[error("--{0} 0: a period must be longer than nothing")]
    ZeroPeriod(&'static str),
    /// A policy by age with the algorithm `active-inactive`, which has no ages.
    #[error("--policy active-inactive with --evict-older-than or --evict-by: it knows no ages")]
    NoAges,
    /// `cache-older-than` for a single target; page cache is only watched for tenants of `serve`.
    #[error("cold-age: `cache-older-than` is for tenants of `pagetide serve`")]
    CacheOfTenants,
    /// One of a policy's settings makes no sense.
    #[error("{policy}: `{key}` must be {must}")]
    Policy {
        /// Name of the policy.
        policy: &'static str,
        /// Name of the setting.
        key: &'static str,
        /// What the setting must be.
        must: &'static str,
    },
    /// The swappiness is outside the kernel's range.
    #[error("--swappiness {0}: it goes from 0 (only file pages) to {SWAPPINESS_MAX} (only anon)")]
    Swappiness(u8),
}

impl OptionsError {
    /// What the user can do about it.
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
            OptionsError::NoAges => "omit one of them; only multi-gen knows ages".to_owned(),
            OptionsError::CacheOfTenants => {
                "omit it: at a limit, page cache is reclaimed first anyway".to_owned()
            }
            OptionsError::Swappiness(_) => "60 is the kernel's default".to_owned(),
        }
    }
}

/// The smallest `memory.max` that is accepted: 64 pages, some thread stacks and their TLS.
pub const MAX_LEAST: Bytes = Bytes(256 << 10);

impl Options {
    /// Refuses contradictions. Percentages are compared only with percentages: their size in bytes
    /// is known later.
    ///
    /// # Errors
    /// The first contradiction found.
    pub fn check(&self) -> Result<(), OptionsError> {
        for (name, limit) in [("max", self.limits.max), ("high", self.limits.high)] {
            let least = match limit {
                Size::Bytes(_) => MAX_LEAST,
                // A share's size in bytes is known later.
                _ => Bytes(1),
            };
            let bytes = limit.bytes_of(Bytes(1 << 40)).unwrap_or(Bytes(u64::MAX));
            if bytes < least {
                return Err(OptionsError::TooSmall(name, bytes));
            }
        }
        if let Size::Bytes(bytes) = self.limits.swap_max
            && (1..PAGE_SIZE).contains(&bytes.0)
        {
            return Err(OptionsError::NoPage(bytes));
        }
        check_order(&self.limits)?;
        if self.policy.age_every.is_zero() {
            return Err(OptionsError::ZeroPeriod("age-every"));
        }
        if self
            .write_back
            .as_ref()
            .is_some_and(|requested| requested.older_than.is_zero())
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

/// Checks a policy's settings. `--evict-older-than` and `--every` are two of them; errors name
/// these options.
fn check_policy(settings: &PolicySettings) -> Result<(), OptionsError> {
    settings
        .check()
        .map_err(|(key, must)| match (settings, key) {
            (PolicySettings::ColdAge(_), "every") => OptionsError::ZeroPeriod("every"),
            (PolicySettings::ColdAge(_), _) => OptionsError::ZeroPeriod("evict-older-than"),
            _ => OptionsError::Policy {
                policy: settings.name(),
                key,
                must,
            },
        })
}

/// Checks `min <= max`, `low <= max`, `high <= max` and `min <= high`. cgroup v2 accepts values
/// that violate this, and silently ignores the part of the lower limit above the upper one; we
/// refuse such values.
fn check_order(limits: &Limits) -> Result<(), OptionsError> {
    let pairs = [
        ("min", limits.min, "max", limits.max),
        ("low", limits.low, "max", limits.max),
        ("high", limits.high, "max", limits.max),
        ("min", limits.min, "high", limits.high),
    ];
    for (lower, low, upper, high) in pairs {
        let explicit = low != Size::Max;
        if explicit && low.surely_above(high) {
            return Err(OptionsError::Crossed { lower, upper });
        }
    }
    Ok(())
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
    fn zero_limits_and_zero_periods_are_refused() {
        let mut options = Options::default();
        options.limits.max = Size::Bytes(Bytes(0));
        assert!(matches!(
            options.check(),
            Err(OptionsError::TooSmall("max", _))
        ));
        // `--memory-high 512` is in bytes: the program would crawl.
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
        let reported = Err(OptionsError::ZeroPeriod("evict-older-than"));
        assert_eq!(options.check(), reported);
        let mut options = Options::default();
        options.policy.swappiness = 201;
        assert_eq!(options.check(), Err(OptionsError::Swappiness(201)));
    }
}
