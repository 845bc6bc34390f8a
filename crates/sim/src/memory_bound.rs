//! A limit on the memory that a piece of work may take.
//!
//! Invariant: work that would exceed its bound ends with an error that names the bound. The check
//! is made before tables grow, so a file of a few bytes cannot make them fill the memory of a host.

use std::fmt;

/// A bound, and the function that measures the used memory.
#[derive(Clone, Copy, Debug)]
pub struct MemoryBound {
    /// Maximum memory that the work may take, bytes.
    pub most: u64,
    /// Memory that the process used before the work, bytes; it does not count.
    pub before: u64,
    /// Returns the current memory of the process, bytes; 0 if it is not known.
    pub used: fn() -> u64,
}

impl MemoryBound {
    /// A bound that allows any amount.
    pub const NONE: Self = Self {
        most: u64::MAX,
        before: 0,
        used: || 0,
    };

    /// Returns a bound of `most` bytes in addition to the current memory of the process.
    #[must_use]
    pub fn of(most: u64, used: fn() -> u64) -> Self {
        Self {
            most,
            before: used(),
            used,
        }
    }

    /// Returns `Ok` if the work may take `more` bytes in addition to what it uses.
    ///
    /// # Errors
    /// If that would exceed the bound.
    pub fn admit(&self, more: u64) -> Result<(), Exceeded> {
        let taken = (self.used)().saturating_sub(self.before);
        match taken.saturating_add(more) <= self.most {
            true => Ok(()),
            false => Err(Exceeded { most: self.most }),
        }
    }
}

/// The work needs more memory than it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// Maximum memory that the work may take, bytes.
    pub most: u64,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "it needs more than {} MiB of memory, which is the bound",
            self.most >> 20
        )
    }
}

impl std::error::Error for Exceeded {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_and_refaulted_pages_count() {
        let bound = MemoryBound {
            most: 3 << 20,
            before: 1 << 20,
            used: || 3 << 20,
        };
        assert_eq!(bound.admit(1 << 20), Ok(()));
        let error = bound.admit((1 << 20) + 1).expect_err("a byte too much");
        assert!(error.to_string().contains("3 MiB"), "{error}");
        assert!(bound.admit(u64::MAX).is_err() && MemoryBound::NONE.admit(u64::MAX).is_ok());
    }
}
