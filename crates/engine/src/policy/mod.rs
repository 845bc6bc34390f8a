//! Policies: what leaves a tenant though no limit asks for it, and why.
//!
//! Each is one module that decides by numbers alone: shown ages, what was used again, how long tasks waited, it orders that
//! what was not used for so long leaves, so many pages at most. Host and simulator show them the same ([`Seen`]) and carry out
//! the same ([`Order`]) by age: [`crate::Machine::reclaim_own_by_age`], or in slices
//! [`crate::machine::Ongoing::own_by_age`]. So one that was tried in a simulation is the one that runs.
//!
//! Invariant: a policy orders nothing without a [`Why`], and nothing that was used since the last look.
//!
//! From the ground: `age_histogram`, `pace`, `rate`; `why`, `settings`, `windows`; `seen`; the policies, which do not know each
//! other, and `write_back`, which says what of all that is out goes on to a disk; here the one type that embedders see.

mod age_histogram;
mod cold_age;
mod fit;
mod pace;
mod pressure;
mod promotion_rate;
mod rate;
mod seen;
mod settings;
#[cfg(test)]
mod testing;
mod why;
mod windows;
mod write_back;

pub use age_histogram::AgeHistogram;
pub use rate::Rate;
pub use seen::{Order, Seen};
pub use settings::{
    ColdAgeSettings, FitSettings, Key, PressureSettings, PromotionRateSettings, Settings, Unit,
};
pub use why::Why;
pub use write_back::{Chosen, WriteBack, WriteBudget};

use crate::units::{Bytes, Millis};
use cold_age::ColdAge;
use fit::Fit;
use pressure::Pressure;
use promotion_rate::PromotionRate;

/// A policy at work on one tenant.
#[derive(Clone, Debug)]
pub struct Policy(Kind);

#[derive(Clone, Debug)]
enum Kind {
    ColdAge(ColdAge),
    PromotionRate(PromotionRate),
    Pressure(Pressure),
    Fit(Fit),
}

impl Policy {
    /// One that begins now.
    #[must_use]
    pub const fn new(settings: Settings, now: Millis) -> Self {
        Self(match settings {
            Settings::ColdAge(settings) => Kind::ColdAge(ColdAge::new(settings, now)),
            Settings::PromotionRate(settings) => {
                Kind::PromotionRate(PromotionRate::new(settings, now))
            }
            Settings::Pressure(settings) => Kind::Pressure(Pressure::new(settings)),
            Settings::Fit(settings) => Kind::Fit(Fit::new(settings, now)),
        })
    }

    /// What it was asked for.
    #[must_use]
    pub const fn settings(&self) -> Settings {
        match &self.0 {
            Kind::ColdAge(policy) => Settings::ColdAge(policy.settings),
            Kind::PromotionRate(policy) => Settings::PromotionRate(policy.settings),
            Kind::Pressure(policy) => Settings::Pressure(policy.settings),
            Kind::Fit(policy) => Settings::Fit(policy.settings),
        }
    }

    /// When it wants to be shown something; none for after each look.
    #[must_use]
    pub const fn due(&self) -> Option<Millis> {
        match &self.0 {
            Kind::ColdAge(policy) => Some(policy.due()),
            _ => None,
        }
    }

    /// Whether it must be shown the ages of what is out, too.
    #[must_use]
    pub const fn asks_for_out(&self) -> bool {
        matches!(self.0, Kind::Fit(_))
    }

    /// The age at which pages leave, where it goes by one.
    #[must_use]
    pub fn threshold(&self) -> Option<Millis> {
        match &self.0 {
            Kind::ColdAge(policy) => Some(policy.settings.older_than),
            Kind::PromotionRate(policy) => policy.threshold(),
            Kind::Pressure(_) | Kind::Fit(_) => None,
        }
    }

    /// The size above which pages leave, where it goes by one and has chosen it.
    #[must_use]
    pub const fn limit(&self) -> Option<Bytes> {
        match &self.0 {
            Kind::Pressure(policy) => policy.limit(),
            Kind::Fit(policy) => policy.limit(),
            Kind::ColdAge(_) | Kind::PromotionRate(_) => None,
        }
    }

    /// Shows it what there is; what is to leave, if anything is.
    pub fn decide(&mut self, seen: &Seen<'_>) -> Option<Order> {
        match &mut self.0 {
            Kind::ColdAge(policy) => policy.decide(seen),
            Kind::PromotionRate(policy) => policy.decide(seen),
            Kind::Pressure(policy) => policy.decide(seen),
            Kind::Fit(policy) => policy.decide(seen),
        }
    }
}
