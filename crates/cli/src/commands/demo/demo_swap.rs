//! The swap for the demo's cold memory: compressed memory (zram) that the demo makes, or swap that
//! the host has already.
//!
//! Invariant: the swap that the demo made is removed in `Drop`, however the demo ends. If it is
//! killed by SIGKILL, the next demo or `pagetide swap off` removes the swap: they find the demo's
//! record, and that no process has the record's lease any more.

use host::swap::{Compressed, Lease, Made, Removed, Request, Swap, SwapError};
use host::system::Proc;

use super::workload::{BLOCK, BLOCKS};
use crate::failure::Failure;

/// Name of the demo's record of its swap.
const OWNER: &str = "demo";
/// Bytes of the demo's swap: twice the program's memory, since other programs may swap meanwhile.
const ROOM: u64 = 2 * (BLOCKS * BLOCK) as u64;

/// Swap for the demo's cold memory.
pub(super) struct DemoSwap {
    made: Option<(Made, Lease)>,
    /// A note for the user: what remained of an earlier demo and was removed, or why the host's
    /// swap is used.
    pub(super) note: Option<String>,
}

impl DemoSwap {
    /// Makes swap for the demo, or checks that the host has some.
    pub(super) fn make() -> Result<DemoSwap, Failure> {
        match own() {
            Ok(room) => Ok(room),
            Err(error @ SwapError::InUse { .. }) => Err(error.into()),
            Err(error) => {
                let memory = Proc::system()?.memory()?;
                if memory.swap_free < ROOM {
                    let hint = "sudo pagetide demo; or `sudo pagetide swap on` once, for everybody";
                    let what = format!("cannot make room for cold memory: {error}");
                    return Err(match error.is_missing() {
                        true => Failure::missing(what, hint),
                        false => Failure::new(what, error.hint()),
                    });
                }
                Ok(DemoSwap {
                    made: None,
                    note: Some(format!("uses the swap that is here ({error})")),
                })
            }
        }
    }

    /// Returns the path of the zram device; `None` if the demo did not make one.
    pub(super) fn path(&self) -> Option<String> {
        let (made, _) = self.made.as_ref()?;
        Some(made.path.display().to_string())
    }

    /// Returns how well zram compresses the swapped-out pages; `None` if the demo did not make a
    /// zram.
    pub(super) fn compressed(&self) -> Option<Compressed> {
        let (made, _) = self.made.as_ref()?;
        let areas = Swap::of(OWNER).status().ok()?.areas;
        areas
            .into_iter()
            .find(|area| area.path == made.path)?
            .compressed
    }

    /// Removes the demo's swap.
    pub(super) fn remove(mut self) -> Result<(), Failure> {
        self.take_away()
    }

    fn take_away(&mut self) -> Result<(), Failure> {
        if self.made.is_some() {
            // If this fails, `made` is still set, and `Drop` tries again.
            Swap::of(OWNER).force_off()?;
            self.made = None;
        }
        Ok(())
    }
}

impl Drop for DemoSwap {
    fn drop(&mut self) {
        if let Err(failure) = self.take_away() {
            failure.print();
        }
    }
}

fn own() -> Result<DemoSwap, SwapError> {
    let swap = Swap::of(OWNER);
    let lease = swap.lease()?;
    let left = match swap.force_off() {
        Ok(removed) => Some(removed),
        Err(SwapError::NothingOn { .. } | SwapError::NotOurs { .. }) => None,
        Err(error) => return Err(error),
    };
    let request = Request {
        size: Some(ROOM),
        ..Request::default()
    };
    let made = swap.on(&request)?;
    Ok(DemoSwap {
        made: Some((made, lease)),
        note: left.map(|left| format!("removed {}, left by an earlier demo", left.path.display())),
    })
}

/// Removes the swap of a demo that was killed. `None` if there is none, or if a demo runs.
pub(crate) fn remove_stale_swap() -> Option<Result<Removed, SwapError>> {
    let swap = Swap::of(OWNER);
    let _lease = swap.lease().ok()?;
    match swap.force_off() {
        Err(SwapError::NothingOn { .. } | SwapError::NotOurs { .. }) => None,
        done => Some(done),
    }
}
