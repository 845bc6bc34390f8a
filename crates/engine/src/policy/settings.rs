//! Settings of policies: plain numbers under the names that users write.
//!
//! Invariant: every number of a policy has a key here, with its unit, so that command lines,
//! configurations and experiments use the same names; settings that passed
//! [`PolicySettings::check`] need no later check.

use super::rate::Rate;
use super::why::Why;
use crate::units::{Bytes, Millis};

/// Unit of a setting's number, and how users write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds: `500ms`, `10s`.
    Time,
    /// Millionths: `0.2%`.
    Share,
    /// Bytes: `100M`.
    Size,
}

/// A setting of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The name that users write.
    pub name: &'static str,
    /// The unit of the setting's number.
    pub unit: Unit,
}

const fn key(name: &'static str, unit: Unit) -> Key {
    Key { name, unit }
}

/// Settings of the policy `cold-age`. The defaults are those of
/// spec: workingset-report.md 9.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColdAgeSettings {
    /// Pages idle for this long are paged out.
    pub older_than: Millis,
    /// Time between two checks.
    pub every: Millis,
    /// Unmapped page cache that has been in memory for this long is dropped; with 0, no page cache
    /// is dropped.
    pub cache_older_than: Millis,
}

/// Settings of the policy `promotion-rate`. docs/policies.md says where the defaults are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromotionRateSettings {
    /// Share of the pages in use that may refault in a minute.
    pub rate: Rate,
    /// Percentile, in millionths, of the thresholds that were best for the past windows. 0 selects
    /// the threshold at which all windows together keep to the rate.
    pub percentile: u64,
    /// Nothing is paged out before this has passed.
    pub warm_up: Millis,
    /// The lowest threshold; pages used within this time count as in use.
    pub min_age: Millis,
    /// Length of a window; a threshold is chosen at its end.
    pub window: Millis,
    /// Windows older than this are forgotten.
    pub history: Millis,
}

/// Settings of the policy `pressure`. The defaults are senpai's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PressureSettings {
    /// How long tasks may wait for memory in each period.
    pub stall: Millis,
    /// Length of a period.
    pub every: Millis,
    /// Maximum by which the limit is lowered in a period, in millionths of the limit.
    pub probe: u64,
    /// Maximum by which the limit is raised in a period, in millionths of the limit.
    pub back_off: u64,
    /// The limit is never lowered below this size.
    pub floor: Bytes,
}

/// Settings of the policy `fit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FitSettings {
    /// Number of refaults allowed in a minute, as a share of the pages that stay in memory.
    pub rate: Rate,
    /// Percentile, in millionths, of the sizes that past windows needed: the limit is at least this
    /// percentile.
    pub percentile: u64,
    /// Nothing is paged out before this has passed.
    pub warm_up: Millis,
    /// Length of a window; a limit is chosen at its end.
    pub window: Millis,
    /// Windows older than this are forgotten.
    pub history: Millis,
}

impl ColdAgeSettings {
    /// Returns the lower of the two ages after which pages are paged out or page cache is dropped.
    pub(super) const fn least(&self) -> Millis {
        let has_less = self.cache_older_than.0 > 0 && self.cache_older_than.0 < self.older_than.0;
        if has_less {
            self.cache_older_than
        } else {
            self.older_than
        }
    }
}

impl Default for ColdAgeSettings {
    fn default() -> Self {
        Self {
            older_than: Millis(10_000),
            every: Millis(40_000),
            cache_older_than: Millis(0),
        }
    }
}

impl Default for PromotionRateSettings {
    fn default() -> Self {
        Self {
            rate: Rate(2_000),
            percentile: 980_000,
            warm_up: Millis(600_000),
            min_age: Millis(120_000),
            window: Millis(60_000),
            history: Millis(3_600_000),
        }
    }
}

impl Default for PressureSettings {
    fn default() -> Self {
        Self {
            stall: Millis(10),
            every: Millis(6_000),
            probe: 10_000,
            back_off: 1_000_000,
            floor: Bytes(100 << 20),
        }
    }
}

impl Default for FitSettings {
    fn default() -> Self {
        Self {
            rate: Rate(10_000),
            percentile: 980_000,
            warm_up: Millis(600_000),
            window: Millis(60_000),
            history: Millis(3_600_000),
        }
    }
}

/// A policy and its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicySettings {
    /// Once in each period, pages out the pages that were not used for a fixed time.
    ColdAge(ColdAgeSettings),
    /// Pages out by age; the threshold depends on how many pages would refault.
    PromotionRate(PromotionRateSettings),
    /// Pages out above a limit that depends on how long tasks wait for memory.
    Pressure(PressureSettings),
    /// Pages out above the smallest limit at which refaults keep to a rate.
    Fit(FitSettings),
}

impl PolicySettings {
    /// The names of all policies.
    pub const NAMES: [&'static str; 4] = ["cold-age", "promotion-rate", "pressure", "fit"];

    /// Returns the policy of this name with default settings; `None` if there is none.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "cold-age" => Self::ColdAge(ColdAgeSettings::default()),
            "promotion-rate" => Self::PromotionRate(PromotionRateSettings::default()),
            "pressure" => Self::Pressure(PressureSettings::default()),
            "fit" => Self::Fit(FitSettings::default()),
            _ => return None,
        })
    }

    /// Returns the policy's name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::ColdAge(_) => Self::NAMES[0],
            Self::PromotionRate(_) => Self::NAMES[1],
            Self::Pressure(_) => Self::NAMES[2],
            Self::Fit(_) => Self::NAMES[3],
        }
    }

    /// Returns the longest time between two scans with which the policy works.
    #[must_use]
    pub fn max_scan_interval(&self) -> Millis {
        match self {
            Self::ColdAge(settings) => settings.least(),
            Self::PromotionRate(settings) => settings.min_age.min(settings.window),
            Self::Pressure(settings) => settings.every,
            Self::Fit(settings) => settings.window,
        }
    }

    /// Returns the age after which unmapped page cache is dropped; `None` if it is not dropped.
    #[must_use]
    pub const fn cache_older_than(&self) -> Option<Millis> {
        match self {
            Self::ColdAge(settings) if settings.cache_older_than.0 > 0 => {
                Some(settings.cache_older_than)
            }
            _ => None,
        }
    }

    /// Returns the reason why unmapped page cache is dropped; `None` if it is not dropped.
    #[must_use]
    pub const fn why_cache(&self) -> Option<Why> {
        match self {
            Self::ColdAge(settings) if settings.cache_older_than.0 > 0 => Some(Why::ColdCache {
                older_than: settings.cache_older_than,
                every: settings.every,
            }),
            _ => None,
        }
    }

    /// Whether the policy decides by sizes, and not by ages alone.
    #[must_use]
    pub const fn goes_by_size(&self) -> bool {
        matches!(self, Self::Pressure(_) | Self::Fit(_))
    }

    /// Returns the keys of the policy's settings.
    #[must_use]
    pub const fn keys(&self) -> &'static [Key] {
        match self {
            Self::ColdAge(_) => &COLD_AGE,
            Self::PromotionRate(_) => &PROMOTION_RATE,
            Self::Pressure(_) => &PRESSURE,
            Self::Fit(_) => &FIT,
        }
    }

    /// Returns the number of the setting `key`, one of [`Self::keys`]; `None` if there is no such
    /// key.
    #[must_use]
    pub fn get(mut self, key: &str) -> Option<u64> {
        self.number(key).map(|number| *number)
    }

    /// Sets the number of the setting `key`; returns false if there is no such key.
    pub fn set(&mut self, key: &str, value: u64) -> bool {
        let number = self.number(key);
        let is_known = number.is_some();
        if let Some(number) = number {
            *number = value;
        }
        is_known
    }

    fn number(&mut self, key: &str) -> Option<&mut u64> {
        Some(match (self, key) {
            (Self::ColdAge(settings), "older-than") => &mut settings.older_than.0,
            (Self::ColdAge(settings), "every") => &mut settings.every.0,
            (Self::ColdAge(settings), "cache-older-than") => &mut settings.cache_older_than.0,
            (Self::PromotionRate(settings), "rate") => &mut settings.rate.0,
            (Self::PromotionRate(settings), "percentile") => &mut settings.percentile,
            (Self::PromotionRate(settings), "warm-up") => &mut settings.warm_up.0,
            (Self::PromotionRate(settings), "min-age") => &mut settings.min_age.0,
            (Self::PromotionRate(settings), "window") => &mut settings.window.0,
            (Self::PromotionRate(settings), "history") => &mut settings.history.0,
            (Self::Pressure(settings), "stall") => &mut settings.stall.0,
            (Self::Pressure(settings), "every") => &mut settings.every.0,
            (Self::Pressure(settings), "probe") => &mut settings.probe,
            (Self::Pressure(settings), "back-off") => &mut settings.back_off,
            (Self::Pressure(settings), "floor") => &mut settings.floor.0,
            (Self::Fit(settings), "rate") => &mut settings.rate.0,
            (Self::Fit(settings), "percentile") => &mut settings.percentile,
            (Self::Fit(settings), "warm-up") => &mut settings.warm_up.0,
            (Self::Fit(settings), "window") => &mut settings.window.0,
            (Self::Fit(settings), "history") => &mut settings.history.0,
            _ => return None,
        })
    }

    /// Checks the numbers of all settings.
    ///
    /// # Errors
    /// The key of the first wrong number, and what the number must be.
    pub fn check(&self) -> Result<(), (&'static str, &'static str)> {
        for key in self.keys() {
            let value = self.get(key.name).unwrap_or(0);
            let may_be_zero = matches!(key.name, "warm-up" | "floor" | "cache-older-than")
                || matches!((self, key.name), (Self::PromotionRate(_), "percentile"));
            if value == 0 && !may_be_zero {
                return Err((key.name, "more than nothing"));
            }
            let is_of_whole = matches!(key.name, "rate" | "percentile" | "probe");
            if is_of_whole && value > 1_000_000 {
                return Err((key.name, "100% at most"));
            }
        }
        match (self.get("window"), self.get("history")) {
            (Some(window), Some(history)) if history < window => {
                Err(("history", "as long as the window at least"))
            }
            (Some(window), Some(history)) if history / window > WINDOWS_MAX => {
                Err(("history", "100,000 windows at most"))
            }
            _ => Ok(()),
        }
    }
}

/// Maximum number of past windows that a policy may store, at 16 bytes each.
const WINDOWS_MAX: u64 = 100_000;

const COLD_AGE: [Key; 3] = [
    key("older-than", Unit::Time),
    key("every", Unit::Time),
    key("cache-older-than", Unit::Time),
];

const PROMOTION_RATE: [Key; 6] = [
    key("rate", Unit::Share),
    key("percentile", Unit::Share),
    key("warm-up", Unit::Time),
    key("min-age", Unit::Time),
    key("window", Unit::Time),
    key("history", Unit::Time),
];

const PRESSURE: [Key; 5] = [
    key("stall", Unit::Time),
    key("every", Unit::Time),
    key("probe", Unit::Share),
    key("back-off", Unit::Share),
    key("floor", Unit::Size),
];

const FIT: [Key; 5] = [
    key("rate", Unit::Share),
    key("percentile", Unit::Share),
    key("warm-up", Unit::Time),
    key("window", Unit::Time),
    key("history", Unit::Time),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_every_policy_can_be_read_and_set() {
        for name in PolicySettings::NAMES {
            let mut settings = PolicySettings::named(name).expect("it is one of them");
            assert_eq!((settings.name(), settings.check()), (name, Ok(())));
            for key in settings.keys() {
                let value = settings.get(key.name).expect("it is a key");
                assert!(settings.set(key.name, value + 1));
                assert_eq!(settings.get(key.name), Some(value + 1));
                settings.set(key.name, value);
            }
            assert!(!settings.set("colour", 1) && settings.get("colour").is_none());
        }
        assert_eq!(PolicySettings::named("mood"), None);
    }

    #[test]
    fn an_invalid_number_is_reported_with_its_key() {
        let wrong = |name, key, value| {
            let mut settings = PolicySettings::named(name).expect("a policy");
            settings.set(key, value);
            settings.check().expect_err("it is wrong").0
        };
        assert_eq!(wrong("cold-age", "every", 0), "every");
        assert_eq!(wrong("promotion-rate", "rate", 1_000_001), "rate");
        assert_eq!(wrong("promotion-rate", "history", 59_999), "history");
        assert_eq!(wrong("promotion-rate", "window", 1), "history");
        assert_eq!(wrong("fit", "percentile", 0), "percentile");
        assert_eq!(wrong("pressure", "probe", 2_000_000), "probe");
    }
}
