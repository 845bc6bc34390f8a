//! Managers beside programs: how they are started, controlled and ended.
//!
//! Invariant: nothing here waits for, stops or ends a managed program. A manager may be killed at
//! any instant.
//!
//! Floors, from the lowest:
//!
//! - [`options`], `hash` and `budget`;
//! - [`error`], and [`curves`], what reports and the dashboard say about less memory;
//! - [`control`], the control socket, [`rights`], `hard_limits`, the hard-limit cgroup, [`record`]
//!   and `handshake`;
//! - [`http`], which serves browsers, and [`preflight`], checks before the start;
//! - [`serve`], a manager's loop;
//! - [`reclaim`] without a manager, and [`tenants`], the loop that manages a tree of tenants;
//! - [`launch`], which becomes a program, and [`manager`], the process beside it.
#![forbid(unsafe_code)]

mod budget;
pub mod control;
pub mod curves;
pub mod error;
mod handshake;
mod hard_limits;
mod hash;
pub mod http;
pub mod launch;
pub mod manager;
pub mod options;
pub mod preflight;
pub mod reclaim;
pub mod record;
pub mod rights;
pub mod serve;
pub mod tenants;

pub use error::{Error, ExitCode};
