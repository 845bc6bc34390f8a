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
use super::users;
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
    /// Another user switched the area on, or has pages in it. Also those of [`Swap::force_off`].
    pub fn off(&self) -> Result<Removed, SwapError> {
        self.off_unless(&[])
    }

    /// Switches the area off as [`Swap::off`] does, unless it is on and `managers` need it: the
    /// managers that run, in words.
    ///
    /// # Errors
    /// Managers need the area. Also those of [`Swap::off`].
    pub fn off_unless(&self, managers: &[String]) -> Result<Removed, SwapError> {
        let _turn = self.begin("cannot switch swap off")?;
        if let Some(record) = self.record()?
            && let Now::On(area) = state(&self.places, &record)?
            && let Some(why) = self.needed_by(&record, &area, managers)?
        {
            let path = record.path;
            return Err(SwapError::Needed { path, why });
        }
        self.remove_area()
    }

    /// Switches the area off as [`Swap::off`] does, also if others need it.
    ///
    /// # Errors
    /// The owner has no area; its area belongs to another program by now; the swapped-out pages do
    /// not fit in memory; a right is missing, or the kernel refused an operation.
    pub fn force_off(&self) -> Result<Removed, SwapError> {
        let _turn = self.begin("cannot switch swap off")?;
        self.remove_area()
    }

    /// Returns what needs an active area, in words; `None` if nothing but this user's processes
    /// does.
    fn needed_by(
        &self,
        record: &Record,
        area: &SwapArea,
        managers: &[String],
    ) -> Result<Option<String>, SwapError> {
        let (proc, user) = (self.places.proc()?, self.kernel.user());
        let mut why = Vec::new();
        if let Some(maker) = record.maker.filter(|maker| maker.uid != user) {
            why.push(format!("user {} switched it on", maker.uid));
        }
        if !managers.is_empty() {
            why.push(format!("it is needed by {}", managers.join(", ")));
        }
        let others = match area.used {
            0 => Vec::new(),
            _ => users::others(&proc, user),
        };
        if !others.is_empty() {
            // The kernel reports how much of a process is swapped out, but not to which area.
            let pages = match proc.swaps()?.len() {
                1 => "it holds pages of",
                _ => "it may hold pages of",
            };
            why.push(format!("{pages} {}", users::named(&others)));
        }
        Ok((!why.is_empty()).then(|| why.join("; ")))
    }

    /// Swaps in all pages, switches the area off, and removes it with its record.
    fn remove_area(&self) -> Result<Removed, SwapError> {
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
