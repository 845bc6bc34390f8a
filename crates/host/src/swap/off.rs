//! Switching swap off.
//!
//! Invariant: what is out is in memory again before anything is removed, and it is seen beforehand that it
//! fits; the record goes last. Whoever is killed in between leaves an area that is on or idle, which the
//! next command takes up.

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

/// What was taken away.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Removed {
    /// The device or the file.
    #[serde(serialize_with = "super::places::lossy")]
    pub path: PathBuf,
    /// zram or a file.
    pub kind: SwapKind,
    /// How much it held room for.
    pub size_bytes: u64,
    /// What was out in it, and is in memory now.
    pub brought_back_bytes: u64,
    /// Whether it was on; else it was left by a command that was killed, or switched off by others.
    pub was_on: bool,
}

impl Swap {
    /// Brings back what is out, switches the owner's area off, and removes it. Needs CAP_SYS_ADMIN.
    ///
    /// # Errors
    /// There is none; it is somebody else's by now; what is out does not fit in memory; a right is missing,
    /// or a step failed.
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
                let why = "the file was removed while it was on, and the kernel names areas by their files";
                return Err(SwapError::failed(
                    what,
                    why,
                    "it ends when the machine starts again",
                ));
            }
            Now::Gone => {
                self.forget()?;
                let why = format!(": {} is gone since", path.display());
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

    /// Switches it off, by the descriptor in which its header was seen.
    fn bring_back(&self, record: &Record, area: &SwapArea) -> Result<(), SwapError> {
        self.room_for(record, area)?;
        let path = &record.path;
        let what = || format!("cannot switch {} off", path.display());
        let zram = Zram::named(&self.places, path).filter(|_| record.kind == SwapKind::Zram);
        let opened = zram.map_or_else(|| file::open(path), |zram| zram.open(false));
        let opened = opened.map_err(|error| SwapError::io(what(), &error))?;
        let page = first_page(&opened).map_err(|error| SwapError::io(what(), &error))?;
        if our_uuid(&page) != Some(record.uuid) {
            let why = "its header changed while we looked".to_owned();
            return Err(SwapError::NotOurs {
                path: path.clone(),
                why,
            });
        }
        self.kernel
            .off(&opened, path)
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::OutOfMemory => {
                    let why = "the kernel finds no memory for what is out; it is on as before";
                    SwapError::failed(what(), why, "end or shrink a program, then try again")
                }
                _ => SwapError::io(what(), &error),
            })
    }

    /// Removes an area of ours that is not on. Its record stays.
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
            let hint = "whoever has it open must let it go; then: pagetide swap off";
            match SwapError::io(what(), &error) {
                SwapError::Failed { what, why, .. } => SwapError::failed(what, why, hint),
                other => other,
            }
        })
    }
}
