//! The policies, on programs whose needs are known: do they hold what they promise?
//!
//! Invariant: the modules that decide are the engine's, unchanged, shown what a host would show them
//! ([`crate::minder`]); what they are held against is counted from outside, or follows from how the program is made.

mod fit;
mod pressure;
mod programs;
mod promotion_rate;
mod world;

pub use fit::run as fit;
pub use pressure::run as pressure;
pub use promotion_rate::run as promotion_rate;
