//! Policies: which pages of a tenant are paged out though no limit requires it, and why.
//!
//! Each policy is one module that decides by numbers alone: ages of pages, ages of pages that were
//! used again, and how long tasks waited. It orders that pages idle for some time be paged out, up
//! to a number of pages. Host and simulator pass the same input ([`Seen`]) and carry out the same
//! [`Order`]: [`crate::Machine::reclaim_own_by_age`], or in slices
//! [`crate::machine::Ongoing::own_by_age`]. So the policy that was tried in a simulation is the one
//! that runs.
//!
//! Invariant: a policy orders nothing without a [`Why`], and nothing that was used since the last
//! scan.
//!
//! Modules from the bottom: `age_histogram`, `pace`, `rate`; `why`, `settings`, `windows`; `seen`;
//! the policies, which do not know each other, and `write_back`, which chooses swapped-out pages
//! for writeback to a disk; here the one type that embedders see.

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
    /// Creates a policy that begins now.
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

    /// Returns when the policy wants its next input; `None` if it wants input after each scan.
    #[must_use]
    pub const fn due(&self) -> Option<Millis> {
        match &self.0 {
            Kind::ColdAge(policy) => Some(policy.due()),
            _ => None,
        }
    }

    /// Whether the policy's input must also have the ages of swapped-out pages.
    #[must_use]
    pub const fn needs_swapped_out_ages(&self) -> bool {
        matches!(self.0, Kind::Fit(_))
    }

    /// Returns the idle time from which on pages are paged out. `None` if the policy goes by size,
    /// or has not yet chosen a time.
    #[must_use]
    pub fn threshold(&self) -> Option<Millis> {
        match &self.0 {
            Kind::ColdAge(policy) => Some(policy.settings.older_than),
            Kind::PromotionRate(policy) => policy.threshold(),
            Kind::Pressure(_) | Kind::Fit(_) => None,
        }
    }

    /// Returns the size above which pages are paged out. `None` if the policy goes by age, or has
    /// not yet chosen a size.
    #[must_use]
    pub const fn limit(&self) -> Option<Bytes> {
        match &self.0 {
            Kind::Pressure(policy) => policy.limit(),
            Kind::Fit(policy) => policy.limit(),
            Kind::ColdAge(_) | Kind::PromotionRate(_) => None,
        }
    }

    /// Gives the policy its input; returns its order, or `None` if nothing is to be paged out now.
    pub fn decide(&mut self, seen: &Seen<'_>) -> Option<Order> {
        match &mut self.0 {
            Kind::ColdAge(policy) => policy.decide(seen),
            Kind::PromotionRate(policy) => policy.decide(seen),
            Kind::Pressure(policy) => policy.decide(seen),
            Kind::Fit(policy) => policy.decide(seen),
        }
    }
}
