//! A small process that lifts the wall of a dead manager: a stand-in.

use std::ffi::OsString;
use std::path::Path;

use super::{Wall, WallError};

/// First argument of the guard's process.
pub const WORD: &str = "__guard";

/// Starts it.
///
/// # Errors
/// It cannot be started.
pub fn start(_wall: &Wall, _manager: u32, _exe: &Path) -> Result<(), WallError> {
    Ok(())
}

/// The guard's own process.
#[must_use]
pub fn main(_args: &[OsString]) -> u8 {
    0
}
