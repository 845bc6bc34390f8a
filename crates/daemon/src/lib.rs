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
pub mod curves;
mod hash;
pub mod options;

pub mod error;

pub mod control;
mod hard_limits;
pub mod rights;

pub mod http;
pub mod preflight;
pub mod record;

mod handshake;
pub mod serve;

pub mod launch;
pub mod manager;
pub mod reclaim;
pub mod tenants;

pub use error::{Error, ExitCode};
