//! Experiments with the policies of the engine, on programs with known needs: does each policy keep
//! what it promises?
//!
//! Invariant: the policies are the engine's, unchanged, and get the input that a host would pass
//! ([`crate::policy_runner`]). The figures that their results are compared with are counted outside
//! the policy, or follow from how the program is made.

mod programs;

mod world;

mod fit;
mod pressure;
mod promotion_rate;

pub use fit::run as fit;
pub use pressure::run as pressure;
pub use promotion_rate::run as promotion_rate;
