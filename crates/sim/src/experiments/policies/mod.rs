//! The policies, on programs with known needs: do they keep what they promise?
//!
//! Invariant: the modules that decide are the engine's, unchanged, with the input that a host would
//! pass ([`crate::policy_runner`]); what they are compared with is counted from outside, or follows
//! from how the program is made.

mod programs;

mod world;

mod fit;
mod pressure;
mod promotion_rate;

pub use fit::run as fit;
pub use pressure::run as pressure;
pub use promotion_rate::run as promotion_rate;
