//! Can this be done here, before anything is touched? A target ([`target()`]), a store directory
//! ([`store_dir`]), this host and user ([`host`]).
//!
//! Invariant: nothing in here changes a target or the host. Everything is read from /proc, or asked
//! through the two traits that `uffd` implements ([`SeccompSource`], [`host::Probe`]).

mod bpf;
pub mod host;
mod process;
mod refusal;
mod seccomp;
mod store;
mod target;

pub use bpf::{Action, BpfError, BpfInsn, SeccompData, evaluate};
pub use refusal::Refusal;
pub use seccomp::{Call, KEEPER_CALLS, SeccompSource, denied_calls};
pub use store::store_dir;
pub use target::{Target, command_of, target};
