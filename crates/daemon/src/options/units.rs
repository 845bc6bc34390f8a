//! Limits and shares as users write them: `512M`, `50%`, `max`.
//!
//! Invariant: sizes and times are parsed by [`engine::units::text`], like those of experiments.

pub(super) use engine::units::text::share;
pub use engine::units::text::{UnitError, bytes, millis};

mod size;

mod cpu_share;

pub use cpu_share::CpuShare;
pub use size::{Percent, Size};

#[cfg(test)]
mod tests;
