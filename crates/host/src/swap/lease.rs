//! Whether the owner of an area is still at work.
//!
//! Invariant: the kernel ends a lease with whoever holds it, however that ends; so an area whose owner holds
//! none was left behind, and may be taken away.

use std::fs::File;

use super::Swap;
use super::error::SwapError;

/// Held for as long as the area is in use by its owner.
#[derive(Debug)]
pub struct Lease(#[expect(dead_code, reason = "the open file is the lock")] File);

impl Swap {
    /// Takes the owner's lease. Needs CAP_SYS_ADMIN, as what it is for does.
    ///
    /// # Errors
    /// Somebody holds it ([`SwapError::InUse`]), or a right is missing.
    pub fn lease(&self) -> Result<Lease, SwapError> {
        let owner = self.owner;
        self.may("cannot use swap of our own")?;
        match self.lock(&format!("{owner}.lease"))? {
            Some(file) => Ok(Lease(file)),
            None => Err(SwapError::InUse { owner }),
        }
    }
}
