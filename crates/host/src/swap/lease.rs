//! A lock that shows whether the owner of an area is still running.
//!
//! Invariant: the kernel releases the lock when the process ends in any way. So if the lock is
//! free, the area was left behind and may be removed.

use std::fs::File;

use super::Swap;
use super::error::SwapError;

/// The lock, which the owner keeps for as long as it uses the area.
#[derive(Debug)]
pub struct Lease(#[expect(dead_code, reason = "the open file is the lock")] File);

impl Swap {
    /// Takes the owner's lock. Needs CAP_SYS_ADMIN, as switching swap does.
    ///
    /// # Errors
    /// Another process has the lock ([`SwapError::InUse`]), or a right is missing.
    pub fn lease(&self) -> Result<Lease, SwapError> {
        let owner = &self.owner;
        self.may("cannot use pagetide's own swap")?;
        match self.lock(&format!("{owner}.lease"))? {
            Some(file) => Ok(Lease(file)),
            None => Err(SwapError::InUse {
                owner: owner.to_string(),
            }),
        }
    }
}
