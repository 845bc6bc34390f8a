//! Switches swap off.
//!
//! Invariant: all swapped-out pages are in memory before anything is removed, and we check first
//! that they fit. The record is removed last: if the command is killed before that, the next
//! command finds the record and removes the area, active or not.

use std::path::PathBuf;

use serde::Serialize;

use super::Swap;
use super::area::{Now, first_page, state};
use super::error::SwapError;
use super::file;
use super::header::our_uuid;
use super::record::Record;
use super::zram::Zram;
use crate::system::swap::{SwapArea, SwapKind};

/// The area that was removed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Removed {
    /// The device or the file.
    #[serde(serialize_with = "super::places::lossy")]
    pub path: PathBuf,
    /// zram or a file.
    pub kind: SwapKind,
    /// Size of the area in bytes, including its header.
    pub size_bytes: u64,
    /// Bytes that were swapped out to the area, and are in memory now.
    pub brought_back_bytes: u64,
    /// Whether the area was active. If not, a killed command left it inactive, or another program
    /// switched it off.
    pub was_on: bool,
}

impl Swap {
    /// Swaps in all pages, switches the owner's area off, and removes it. Needs CAP_SYS_ADMIN.
    ///
    /// # Errors
    /// The owner has no area; its area belongs to another program by now; the swapped-out pages do
    /// not fit in memory; a right is missing, or the kernel refused an operation.
    pub fn off(&self) -> Result<Removed, SwapError> {
        let _turn = self.begin("cannot switch swap off")?;
        let Some(record) = self.record()? else {
            return Err(SwapError::NothingOn { why: String::new() });
        };
        let path = record.path.clone();
        let mut removed = Removed {
            path: path.clone(),
            kind: record.kind,
            size_bytes: record.size,
            brought_back_bytes: 0,
            was_on: false,
        };
        match state(&self.places, &record)? {
            Now::On(area) => {
                self.bring_back(&record, &area)?;
                removed.was_on = true;
                removed.brought_back_bytes = area.used;
                self.remove(&record)?;
            }
            Now::Idle | Now::Empty => self.remove(&record)?,
            Now::Nameless => {
                let what = format!("cannot switch {} off", path.display());
                let why = "the file was removed while swap was on, and the kernel needs its name to switch it off";
                return Err(SwapError::failed(
                    what,
                    why,
                    "it stays on until the machine restarts",
                ));
            }
            Now::Gone => {
                self.forget()?;
                let why = format!(": {} no longer exists", path.display());
                return Err(SwapError::NothingOn { why });
            }
            Now::Foreign(why) => {
                self.forget()?;
                return Err(SwapError::NotOurs { path, why });
            }
        }
        self.forget()?;
        Ok(removed)
    }

    /// Switches the area off by the same descriptor on which its header was checked; returns when
    /// its pages are in memory.
    fn bring_back(&self, record: &Record, area: &SwapArea) -> Result<(), SwapError> {
        self.room_for(record, area)?;
        let path = &record.path;
        let what = || format!("cannot switch {} off", path.display());
        let zram = Zram::named(&self.places, path).filter(|_| record.kind == SwapKind::Zram);
        let opened = zram.map_or_else(|| file::open(path), |zram| zram.open(false));
        let opened = opened.map_err(|error| SwapError::io(what(), &error))?;
        let page = first_page(&opened).map_err(|error| SwapError::io(what(), &error))?;
        if our_uuid(&page) != Some(record.uuid) {
            let why = "its header changed while pagetide read it".to_owned();
            return Err(SwapError::NotOurs {
                path: path.clone(),
                why,
            });
        }
        self.kernel
            .off(&opened, path)
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::OutOfMemory => {
                    let why =
                        "the kernel has no memory for the swapped-out pages; swap is still on";
                    SwapError::failed(what(), why, "end or shrink a program, then try again")
                }
                _ => SwapError::io(what(), &error),
            })
    }

    /// Removes the device or file of an inactive area of ours, but not its record.
    pub(super) fn remove(&self, record: &Record) -> Result<(), SwapError> {
        let path = &record.path;
        let done = match Zram::named(&self.places, path) {
            Some(zram) if record.kind == SwapKind::Zram => zram.remove(),
            _ => file::open(path).and_then(|file| file::remove(&file, path)),
        };
        let what = || {
            format!(
                "cannot remove {}, which is no longer swapped to",
                path.display()
            )
        };
        done.map_err(|error| {
            let hint = "end the programs that have it open, then: pagetide swap off";
            match SwapError::io(what(), &error) {
                SwapError::Failed { what, why, .. } => SwapError::failed(what, why, hint),
                other => other,
            }
        })
    }
}
