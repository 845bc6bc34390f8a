//! Real memory.
#![forbid(unsafe_code)]

pub mod control;
pub mod error;
mod kernel;
pub mod manage;
pub mod options;
pub mod record;
pub mod report;
pub mod store;
mod supervisor;
mod target;
pub mod vet;

pub use error::{Error, ExitCode};
