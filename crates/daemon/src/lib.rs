//! Managers beside programs: how they are started, asked and ended.
//!
//! Invariant: a program that is managed is never waited for, stopped or ended by anything here. A
//! manager may be killed at any instant. Floors, from the ground: [`options`], `hash` and `budget`; [`error`], and [`curves`], what reports and the
//! dashboard say of less memory; [`control`], the
//! socket, [`rights`], `walls`, the control group of our own, [`record`] and `handshake`; [`http`], which answers browsers, and
//! [`preflight`], what is checked before; [`serve`], a manager's loop; [`reclaim`] without one, and [`tenants`], the loop of a tree of them;
//! [`launch`], which becomes a program, and [`manager`], the process beside it.
#![forbid(unsafe_code)]

mod budget;
pub mod control;
pub mod curves;
pub mod error;
mod handshake;
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
mod walls;

pub use error::{Error, ExitCode};
