//! Limits that a user has requested for a cgroup and that cannot be set yet.
//!
//! Invariant: a hard limit is set only when the charge is at or below it. Otherwise the kernel
//! would kill (version 2) or refuse the limit (version 1). Until then the limit is pending, and the
//! cgroup has a temporary hard limit of its usage plus [`GROWTH_MAX`], which is lowered as usage
//! falls. On version 1 the swap limit is pending for as long, because one limit applies to memory
//! and swap together. memory.high (version 2) is lowered with the usage, too: during the write the
//! kernel reclaims all that exceeds the new value, so the value is at most [`STEP`] below the
//! usage. A limit that the kernel refuses for good is reported, and is no longer pending.

use std::io;

use engine::{Bytes, Limit};

use super::HardLimit;
use crate::system::cgroup::Version;

/// Bytes by which a cgroup may grow while a limit below its usage is pending; as much is reclaimed
/// from it at a time. If the cgroup grows by more and nothing in it can be swapped out, the kernel
/// kills, as at the cgroup's own limit.
const GROWTH_MAX: u64 = 32 << 20;
/// Maximum number of bytes that one write of memory.high makes the kernel reclaim. This takes a few
/// milliseconds.
const STEP: u64 = 8 << 20;

/// The pending limits. Each is `None` if it is not pending.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PendingLimits {
    /// memory.high: above it the kernel slows the cgroup down.
    pub high: Option<Limit>,
    /// The hard limit of memory.
    pub max: Option<Limit>,
    /// The limit of the cgroup's memory in swap.
    pub swap_max: Option<Limit>,
}

/// The kernel's errors for limits that it refused; `None` for each other limit.
#[derive(Debug, Default)]
#[must_use]
pub struct Refused {
    /// Error for memory.high, which version 1 does not have.
    pub high: Option<io::Error>,
    /// Error for the hard limit.
    pub max: Option<io::Error>,
    /// Error for the limit of swap.
    pub swap_max: Option<io::Error>,
    /// Error for memory.min or memory.low, which are never pending.
    pub protection: Option<io::Error>,
}

impl PendingLimits {
    /// Returns whether the kernel enforces the requested limits of memory. Otherwise only proactive
    /// reclaim enforces them.
    #[must_use]
    pub fn stands(&self) -> bool {
        self.high.is_none() && self.max.is_none()
    }

    /// Sets those pending limits that the kernel accepts now. Returns those that it refused for
    /// good.
    pub fn put(&mut self, hard_limit: &HardLimit) -> Refused {
        let high = self.put_high(hard_limit, 0).err();
        let max = self.put_max(hard_limit).err();
        let is_next = self.max.is_none() || hard_limit.version() == Version::V2;
        let mut swap_max = None;
        if let Some(swap) = self.swap_max.filter(|_| is_next) {
            match hard_limit.set_swap_max(swap) {
                // More than the limit is in swap now. The excess is swapped in or freed in time, as
                // proactive reclaim respects the limit.
                Err(error) if is_for_a_moment(&error) => {}
                put => (self.swap_max, swap_max) = (None, put.err()),
            }
        }
        Refused {
            high,
            max,
            swap_max,
            protection: None,
        }
    }

    /// Returns the bytes that [`PendingLimits::reclaim_above_high`] would make the kernel reclaim,
    /// at most 8 MiB. Returns 0 on version 1, and if memory.high is not pending.
    #[must_use]
    pub fn above_high(&self, hard_limit: &HardLimit) -> u64 {
        match (self.high.and_then(Limit::bytes), hard_limit.charged()) {
            (Some(high), Ok(charged)) if hard_limit.version() == Version::V2 => {
                charged.saturating_sub(high.0).min(STEP)
            }
            _ => 0,
        }
    }

    /// Makes the kernel reclaim, for the case that proactive reclaim finds nothing: lowers
    /// memory.high to at most 8 MiB below the charge. Returns the bytes that were freed. Returns 0
    /// on version 1, and if memory.high is not pending.
    pub fn reclaim_above_high(&mut self, hard_limit: &HardLimit) -> u64 {
        let before = match (self.high, hard_limit.charged()) {
            (Some(_), Ok(charged)) if hard_limit.version() == Version::V2 => charged,
            _ => return 0,
        };
        let put = self.put_high(hard_limit, STEP);
        let after = put.and_then(|()| hard_limit.charged()).unwrap_or(before);
        before.saturating_sub(after)
    }

    /// Sets the pending hard limit if the charge is at or below it; otherwise bounds the growth of
    /// the cgroup.
    fn put_max(&mut self, hard_limit: &HardLimit) -> io::Result<()> {
        let max = self.max.and_then(Limit::bytes);
        let charged = match max.map(|_| hard_limit.charged()) {
            Some(Ok(charged)) => charged,
            // The charge cannot be read at the moment; the caller tries again after its next
            // measurement.
            Some(Err(_)) => return Ok(()),
            None => 0,
        };
        // On version 1 allowed swap is the difference of two limits. While one of them is pending,
        // the difference is not the allowed swap, so the allowed swap is stored here.
        if max.is_some() && self.swap_max.is_none() {
            self.swap_max = hard_limit.swap_apart();
        }
        if max.is_some_and(|max| charged > max.0) {
            hard_limit.bound(GROWTH_MAX);
        } else if let Some(max) = self.max {
            match hard_limit.set_max(max) {
                // The cgroup has grown since its charge was read. Reclaim will soon bring it below
                // the limit.
                Err(error) if is_for_a_moment(&error) => {}
                put => {
                    self.max = None;
                    return put;
                }
            }
        }
        Ok(())
    }

    /// Sets memory.high to the requested value if the charge exceeds that by at most [`STEP`];
    /// otherwise to `charge - below` bytes.
    fn put_high(&mut self, hard_limit: &HardLimit, below: u64) -> io::Result<()> {
        let Some(goal) = self.high else {
            return Ok(());
        };
        // If the charge is unknown, no limit is written, as it might be far below the usage.
        let charged = match (hard_limit.version(), goal) {
            (Version::V2, Limit::Bytes(_)) => match hard_limit.charged() {
                Ok(charged) => charged,
                Err(_) => return Ok(()),
            },
            _ => 0,
        };
        let is_above = |bytes: &Bytes| charged > bytes.0.saturating_add(STEP);
        let put = match goal.bytes().filter(is_above) {
            // memory.high is set already, and the kernel could not reclaim down to it. Another
            // write would only make the kernel start again.
            Some(_) if hard_limit.has_high(goal) => Ok(()),
            Some(bytes) => {
                let put = hard_limit.bound_high(bytes.0.max(charged.saturating_sub(below)));
                if put.is_ok() {
                    return Ok(());
                }
                put
            }
            None => hard_limit.set_high(goal),
        };
        self.high = None;
        put
    }
}

/// Returns whether the error is temporary: the cgroup has grown meanwhile, a signal came, or the
/// host is short of descriptors or memory.
fn is_for_a_moment(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, OutOfMemory, ResourceBusy};
    matches!(error.kind(), Interrupted | OutOfMemory | ResourceBusy)
}
