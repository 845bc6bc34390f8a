//! Policies: rules that page out pages of a tenant although no limit requires it.
//!
//! Each policy is one module that decides by numbers alone: ages of pages, ages of pages that were
//! used again, and how long tasks waited. It returns an [`Order`]: page out at most this many pages
//! that were idle for at least this time. Host and simulator pass the same input ([`Seen`]) and
//! carry out the order in the same way: with [`crate::Machine::reclaim_own_by_age`], or in slices
//! with [`crate::machine::Ongoing::own_by_age`]. So a policy works on a host as it did in a
//! simulation.
//!
//! Invariant: each order has its reason ([`Why`]); no policy orders out a page that was used since
//! the last scan.
//!
//! Modules from the bottom: `age_histogram`, `pace`, `rate`; `why`, `settings`, `windows`; `seen`;
//! the policies, which do not use each other, and `write_back`, which chooses swapped-out pages for
//! writeback to a disk; this module, with the type that embedders use.

mod age_histogram;
mod pace;
mod rate;
mod windows;

mod why;

mod seen;
mod settings;
mod write_back;

mod cold_age;
mod fit;
mod pressure;
mod promotion_rate;
#[cfg(test)]
mod testing;

pub use age_histogram::AgeHistogram;
pub use rate::Rate;
pub use seen::{Order, Seen};
pub use settings::{
    ColdAgeSettings, FitSettings, Key, PolicySettings, PressureSettings, PromotionRateSettings,
    Unit,
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
    /// Creates a policy that begins at `now`.
    #[must_use]
    pub const fn new(settings: PolicySettings, now: Millis) -> Self {
        Self(match settings {
            PolicySettings::ColdAge(settings) => Kind::ColdAge(ColdAge::new(settings, now)),
            PolicySettings::PromotionRate(settings) => {
                Kind::PromotionRate(PromotionRate::new(settings, now))
            }
            PolicySettings::Pressure(settings) => Kind::Pressure(Pressure::new(settings)),
            PolicySettings::Fit(settings) => Kind::Fit(Fit::new(settings, now)),
        })
    }

    /// Returns the time at which the policy needs its next input; `None` if it needs input after
    /// each scan.
    #[must_use]
    pub const fn due(&self) -> Option<Millis> {
        match &self.0 {
            Kind::ColdAge(policy) => Some(policy.due()),
            _ => None,
        }
    }

    /// Whether the policy's input must include the ages of swapped-out pages.
    #[must_use]
    pub const fn needs_swapped_out_ages(&self) -> bool {
        matches!(self.0, Kind::Fit(_))
    }

    /// Returns the idle time after which pages are paged out. `None` if the policy decides by size,
    /// or has not yet chosen a time.
    #[must_use]
    pub fn threshold(&self) -> Option<Millis> {
        match &self.0 {
            Kind::ColdAge(policy) => Some(policy.settings.older_than),
            Kind::PromotionRate(policy) => policy.threshold(),
            Kind::Pressure(_) | Kind::Fit(_) => None,
        }
    }

    /// Returns the size above which pages are paged out. `None` if the policy decides by age, or
    /// has not yet chosen a size.
    #[must_use]
    pub const fn limit(&self) -> Option<Bytes> {
        match &self.0 {
            Kind::Pressure(policy) => policy.limit(),
            Kind::Fit(policy) => policy.limit(),
            Kind::ColdAge(_) | Kind::PromotionRate(_) => None,
        }
    }

    /// Passes input to the policy. Returns its order; `None` if no page must be paged out now.
    pub fn decide(&mut self, seen: &Seen<'_>) -> Option<Order> {
        match &mut self.0 {
            Kind::ColdAge(policy) => policy.decide(seen),
            Kind::PromotionRate(policy) => policy.decide(seen),
            Kind::Pressure(policy) => policy.decide(seen),
            Kind::Fit(policy) => policy.decide(seen),
        }
    }
}
