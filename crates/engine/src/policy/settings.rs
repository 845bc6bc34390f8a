//! What a policy is asked for: plain numbers under the names that users write.
//!
//! Invariant: every number of a policy is a key here, with its unit, so that a command line, a configuration and an
//! experiment read the same words; what [`Settings::check`] let pass needs no check later.

use super::rate::Rate;
use super::why::Why;
use crate::units::{Bytes, Millis};

/// What a key's number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds: `500ms`, `10s`.
    Time,
    /// Millionths: `0.2%`.
    Share,
    /// Bytes: `100M`.
    Size,
}

/// A key of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// As users write it.
    pub name: &'static str,
    /// What its number is.
    pub unit: Unit,
}

const fn key(name: &'static str, unit: Unit) -> Key {
    Key { name, unit }
}

/// Of `cold-age`; by default the third document's, spec: workingset-report.md 9.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColdAgeSettings {
    /// What was not used for so long leaves.
    pub older_than: Millis,
    /// How often that is asked.
    pub every: Millis,
    /// Page cache that nobody maps leaves, too, when it has been there for so long; 0: it stays.
    pub cache_older_than: Millis,
}

/// Of `promotion-rate`; by default those that are published, else as docs/policies.md says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromotionRateSettings {
    /// So much of what is in use may come back.
    pub rate: Rate,
    /// Of the thresholds that past windows would have been best with, the one that so many of them are no higher than,
    /// millionths; 0 for the one at which all of them together would have kept to the rate.
    pub percentile: u64,
    /// Nothing leaves before this has passed.
    pub warm_up: Millis,
    /// The lowest threshold; what was used within it is in use.
    pub min_age: Millis,
    /// A threshold is chosen so often.
    pub window: Millis,
    /// Windows older than this are forgotten.
    pub history: Millis,
}

/// Of `pressure`; by default senpai's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PressureSettings {
    /// Tasks may wait for memory for so long in each period.
    pub stall: Millis,
    /// A period.
    pub every: Millis,
    /// The most that the limit is lowered by in a period, millionths of it.
    pub probe: u64,
    /// The most that it is raised by.
    pub back_off: u64,
    /// It is never lowered below this.
    pub floor: Bytes,
}

/// Of `fit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FitSettings {
    /// So much of what stays may come back.
    pub rate: Rate,
    /// Of what past windows needed, the size that so many of them did with, millionths.
    pub percentile: u64,
    /// Nothing leaves before this has passed.
    pub warm_up: Millis,
    /// A limit is chosen so often.
    pub window: Millis,
    /// Windows older than this are forgotten.
    pub history: Millis,
}

impl ColdAgeSettings {
    /// The younger of the ages at which pages, or page cache, leave.
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

/// What a policy is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settings {
    /// What is colder than T leaves every P.
    ColdAge(ColdAgeSettings),
    /// The threshold follows what would come back.
    PromotionRate(PromotionRateSettings),
    /// The limit follows how long tasks wait for memory.
    Pressure(PressureSettings),
    /// The smallest limit at which no more than so much comes back.
    Fit(FitSettings),
}

impl Settings {
    /// The policies' names.
    pub const NAMES: [&'static str; 4] = ["cold-age", "promotion-rate", "pressure", "fit"];

    /// A policy by its name, with what holds unless it is told otherwise.
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

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::ColdAge(_) => Self::NAMES[0],
            Self::PromotionRate(_) => Self::NAMES[1],
            Self::Pressure(_) => Self::NAMES[2],
            Self::Fit(_) => Self::NAMES[3],
        }
    }

    /// The longest time between two looks with which it can work.
    #[must_use]
    pub fn look_every(&self) -> Millis {
        match self {
            Self::ColdAge(of) => of.least(),
            Self::PromotionRate(of) => of.min_age.min(of.window),
            Self::Pressure(of) => of.every,
            Self::Fit(of) => of.window,
        }
    }

    /// From which age on page cache that nobody maps is to leave; none if it stays.
    #[must_use]
    pub const fn cache_older_than(&self) -> Option<Millis> {
        match self {
            Self::ColdAge(of) if of.cache_older_than.0 > 0 => Some(of.cache_older_than),
            _ => None,
        }
    }

    /// Why such cache leaves; none if it stays.
    #[must_use]
    pub const fn why_cache(&self) -> Option<Why> {
        match self {
            Self::ColdAge(of) if of.cache_older_than.0 > 0 => Some(Why::ColdCache {
                older_than: of.cache_older_than,
                every: of.every,
            }),
            _ => None,
        }
    }

    /// Whether it goes by what is used, and not by ages alone.
    #[must_use]
    pub const fn goes_by_size(&self) -> bool {
        matches!(self, Self::Pressure(_) | Self::Fit(_))
    }

    /// Its keys.
    #[must_use]
    pub const fn keys(&self) -> &'static [Key] {
        match self {
            Self::ColdAge(_) => &COLD_AGE,
            Self::PromotionRate(_) => &PROMOTION_RATE,
            Self::Pressure(_) => &PRESSURE,
            Self::Fit(_) => &FIT,
        }
    }

    /// The number of a key of [`Self::keys`].
    #[must_use]
    pub fn get(mut self, key: &str) -> Option<u64> {
        self.number(key).map(|number| *number)
    }

    /// Replaces it; false if there is no such key.
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
            (Self::ColdAge(of), "older-than") => &mut of.older_than.0,
            (Self::ColdAge(of), "every") => &mut of.every.0,
            (Self::ColdAge(of), "cache-older-than") => &mut of.cache_older_than.0,
            (Self::PromotionRate(of), "rate") => &mut of.rate.0,
            (Self::PromotionRate(of), "percentile") => &mut of.percentile,
            (Self::PromotionRate(of), "warm-up") => &mut of.warm_up.0,
            (Self::PromotionRate(of), "min-age") => &mut of.min_age.0,
            (Self::PromotionRate(of), "window") => &mut of.window.0,
            (Self::PromotionRate(of), "history") => &mut of.history.0,
            (Self::Pressure(of), "stall") => &mut of.stall.0,
            (Self::Pressure(of), "every") => &mut of.every.0,
            (Self::Pressure(of), "probe") => &mut of.probe,
            (Self::Pressure(of), "back-off") => &mut of.back_off,
            (Self::Pressure(of), "floor") => &mut of.floor.0,
            (Self::Fit(of), "rate") => &mut of.rate.0,
            (Self::Fit(of), "percentile") => &mut of.percentile,
            (Self::Fit(of), "warm-up") => &mut of.warm_up.0,
            (Self::Fit(of), "window") => &mut of.window.0,
            (Self::Fit(of), "history") => &mut of.history.0,
            _ => return None,
        })
    }

    /// What of it cannot be meant: the key, and what its number must be.
    ///
    /// # Errors
    /// The first such key.
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

/// Windows that are remembered at most: half a MiB.
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
        for name in Settings::NAMES {
            let mut settings = Settings::named(name).expect("it is one of them");
            assert_eq!((settings.name(), settings.check()), (name, Ok(())));
            for key in settings.keys() {
                let value = settings.get(key.name).expect("it is a key");
                assert!(settings.set(key.name, value + 1));
                assert_eq!(settings.get(key.name), Some(value + 1));
                settings.set(key.name, value);
            }
            assert!(!settings.set("colour", 1) && settings.get("colour").is_none());
        }
        assert_eq!(Settings::named("mood"), None);
    }

    #[test]
    fn what_cannot_be_meant_is_told_by_its_key() {
        let wrong = |name, key, value| {
            let mut settings = Settings::named(name).expect("a policy");
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
