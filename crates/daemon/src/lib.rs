//! Managers beside programs: how they are started, asked and ended.
//!
//! Invariant: a program that is managed is never waited for, stopped or ended by anything here. A
//! manager may be killed at any instant. Floors, from the ground: [`options`] and [`error`]; [`control`],
//! the socket; [`rights`] and [`preflight`], what is checked before; `walls`, the control group of our own;
//! [`serve`], a manager's loop; [`launch`], which becomes a program; [`manager`], the process beside it.
#![forbid(unsafe_code)]

pub mod control;
pub mod error;
pub mod launch;
pub mod manager;
pub mod options;
pub mod preflight;
pub mod reclaim;
pub mod rights;
pub mod serve;
mod walls;

pub use error::{Error, ExitCode};
