//! Where the demo's cold memory goes: compressed memory (zram) of its own, or swap that is there already.
//!
//! Invariant: what was made is removed in `Drop`, however the demo ends; after a kill -9 the next demo or
//! `pagetide swap off` does it, by the record and the lease that nobody holds any more.

use host::swap::{Compressed, Lease, Made, Removed, Request, Swap, SwapError};
use host::system::Proc;

use super::workload::{BLOCK, BLOCKS};
use crate::failure::Failure;

/// Name of its record.
const OWNER: &str = "demo";
/// Bytes that must fit, twice what the program has: others may swap meanwhile.
const ROOM: u64 = 2 * (BLOCKS * BLOCK) as u64;

/// Room for cold memory.
pub(super) struct Room {
    made: Option<(Made, Lease)>,
    /// What an earlier demo had left, or why there is none of our own.
    pub(super) note: Option<String>,
}

impl Room {
    /// Makes it, or finds that there is some.
    pub(super) fn make() -> Result<Room, Failure> {
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
                Ok(Room {
                    made: None,
                    note: Some(format!("uses the swap that is here ({error})")),
                })
            }
        }
    }

    /// The device, if it is our own.
    pub(super) fn path(&self) -> Option<String> {
        let (made, _) = self.made.as_ref()?;
        Some(made.path.display().to_string())
    }

    /// What zram makes of what is in it.
    pub(super) fn compressed(&self) -> Option<Compressed> {
        let (made, _) = self.made.as_ref()?;
        let areas = Swap::of(OWNER).status().ok()?.areas;
        areas
            .into_iter()
            .find(|area| area.path == made.path)?
            .compressed
    }

    /// Removes it.
    pub(super) fn remove(mut self) -> Result<(), Failure> {
        self.take_away()
    }

    fn take_away(&mut self) -> Result<(), Failure> {
        if self.made.is_some() {
            // If it fails it is still there, and is tried once more in `Drop`.
            Swap::of(OWNER).off()?;
            self.made = None;
        }
        Ok(())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Err(failure) = self.take_away() {
            failure.tell();
        }
    }
}

fn own() -> Result<Room, SwapError> {
    let swap = Swap::of(OWNER);
    let lease = swap.lease()?;
    let left = match swap.off() {
        Ok(removed) => Some(removed),
        Err(SwapError::NothingOn { .. } | SwapError::NotOurs { .. }) => None,
        Err(error) => return Err(error),
    };
    let request = Request {
        size: Some(ROOM),
        ..Request::default()
    };
    let made = swap.on(&request)?;
    Ok(Room {
        made: Some((made, lease)),
        note: left.map(|left| format!("removed {}, left by an earlier demo", left.path.display())),
    })
}

/// Removes what a demo that was killed left, or why it cannot be; none if nothing is left, or one is at work.
pub(crate) fn left_behind() -> Option<Result<Removed, SwapError>> {
    let swap = Swap::of(OWNER);
    let _lease = swap.lease().ok()?;
    match swap.off() {
        Err(SwapError::NothingOn { .. } | SwapError::NotOurs { .. }) => None,
        done => Some(done),
    }
}
