//! Writeback from an active zram to the disk behind it.
//!
//! Invariant: the zram is the one that `swap on` made, or the one that the user named, and no
//! other. Its swap slots are recognized by the kernel's number of the area ([`super::swap_type`]),
//! which is determined anew whenever any program has switched swap.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use engine::units::PAGE_SIZE;

use super::Swap;
use super::backing::cannot_write_back;
use super::error::SwapError;
use super::places::Places;
use super::slot::Slot;
use super::swap_type::number_of;
use super::write_back::{Manner, ask};
use super::zram::Zram;
use crate::system::swap::{SwapArea, SwapKind};

/// The beginning of error messages: the command that failed.
const WHAT: &str = "cannot write anything back";
/// Hint of errors: how to get a zram with a disk behind it.
const MAKE: &str = "pagetide swap on --backing DEVICE makes compressed swap with a disk behind it";

/// A zram with a disk behind it, to which it can write pages back.
#[derive(Clone, Debug)]
pub struct Tier {
    places: Places,
    path: PathBuf,
    diskseq: Option<u64>,
    /// Size of the zram in pages, including the header, when `number` was determined.
    pages: u64,
    /// All swap areas when `number` was determined: path, size in bytes, priority.
    areas: Vec<(PathBuf, u64, i32)>,
    /// The kernel's number of the zram's swap area; `None` if it is the only area.
    number: Option<u8>,
    /// The format of requests that the kernel accepts.
    manner: Manner,
}

/// The result of [`Tier::write_back`].
#[derive(Debug, Default)]
pub struct WrittenBack {
    /// Number of pages that were requested, from the start of the given list.
    pub requested: usize,
    /// How many pages the zram wrote meanwhile, by its own counter.
    pub written: u64,
    /// Why the kernel refused a request; `None` if all pages were requested or the time was over.
    pub refused: Option<String>,
}

impl Tier {
    /// Opens the zram `named`, or the one that `swap on` made. Needs CAP_SYS_ADMIN.
    ///
    /// # Errors
    /// There is no such zram, it is not active or has no disk behind it, a right is missing, or the
    /// number of its area cannot be determined.
    pub fn open(named: Option<&Path>) -> Result<Tier, SwapError> {
        Tier::of(&Swap::system(), named)
    }

    /// Opens a zram as [`Tier::open`] does; without a name the one that `swap` made.
    pub(super) fn of(swap: &Swap, named: Option<&Path>) -> Result<Tier, SwapError> {
        let path = match named {
            Some(path) => path.canonicalize().unwrap_or_else(|_| path.to_owned()),
            None => own(swap)?,
        };
        let shown = path.display().to_string();
        let Some(zram) = Zram::named(&swap.places, &path).filter(Zram::exists) else {
            return Err(SwapError::BadDevice {
                what: WHAT.to_owned(),
                why: format!("{shown} is not a zram device"),
            });
        };
        if !zram.may_write_back() {
            return Err(cannot_write_back(format!("{WHAT} from {shown}")));
        }
        if zram.backing().is_none() {
            let why = "there is no disk behind it";
            return Err(SwapError::missing(
                format!("{WHAT} from {shown}"),
                why,
                MAKE,
            ));
        }
        swap.may(WHAT)?;
        let mut tier = Tier {
            places: swap.places.clone(),
            diskseq: zram.diskseq(),
            pages: 0,
            areas: Vec::new(),
            number: None,
            manner: Manner::Ranges,
            path,
        };
        tier.find()?;
        Ok(tier)
    }

    /// Returns the device node of the zram.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of the zram's page at a swap slot; `None` if the slot is in another area.
    #[must_use]
    pub fn index(&self, slot: Slot) -> Option<u64> {
        let is_here = self.number.is_none_or(|number| number == slot.area);
        (is_here && slot.offset < self.pages).then_some(slot.offset)
    }

    /// Determines the number of the zram's area anew if swap was switched since. Call this before
    /// reading slots of pages.
    ///
    /// # Errors
    /// Those of [`Tier::open`].
    pub fn check(&mut self) -> Result<(), SwapError> {
        match self.listed()? == self.areas && self.zram()?.diskseq() == self.diskseq {
            true => Ok(()),
            false => self.find(),
        }
    }

    /// Requests for at most `time` that the zram writes back its pages `indexes`, which are in
    /// ascending order. The count of written pages includes those that other programs requested
    /// meanwhile.
    ///
    /// # Errors
    /// The zram is no longer active.
    pub fn write_back(
        &mut self,
        indexes: &[u64],
        time: Duration,
    ) -> Result<WrittenBack, SwapError> {
        let end = Instant::now() + time;
        let (before, attribute) = (self.written()?, self.zram()?.write_back_attribute());
        let requested = ask(&attribute, &mut self.manner, indexes, end);
        Ok(WrittenBack {
            requested: requested.indexes,
            written: self.written()?.saturating_sub(before),
            refused: requested.refused.map(|error| match error.kind() {
                std::io::ErrorKind::StorageFull => "the disk behind it is full".to_owned(),
                _ => format!("{error} (is its writeback_limit used up?)"),
            }),
        })
    }

    fn zram(&self) -> Result<Zram<'_>, SwapError> {
        let zram = Zram::named(&self.places, &self.path).filter(Zram::exists);
        zram.ok_or_else(|| self.gone())
    }

    /// Returns how many pages the zram wrote to the disk since it was made.
    fn written(&self) -> Result<u64, SwapError> {
        let stat = self.zram()?.bd_stat();
        stat.map(|stat| stat.written).ok_or_else(|| self.gone())
    }

    /// The error if the zram is no longer active.
    fn gone(&self) -> SwapError {
        let what = format!("{WHAT} from {}", self.path.display());
        SwapError::failed(what, "it is no longer in use as swap", MAKE)
    }

    /// Returns all active swap areas: path, size in bytes, priority.
    fn listed(&self) -> Result<Vec<(PathBuf, u64, i32)>, SwapError> {
        let areas = self.places.proc()?.swaps()?;
        let reported = |area: SwapArea| (area.path, area.size, area.priority);
        Ok(areas.into_iter().map(reported).collect())
    }

    /// Determines the number of the zram's area and notes the present areas.
    fn find(&mut self) -> Result<(), SwapError> {
        let areas = self.listed()?;
        let own = areas.iter().find(|(path, ..)| *path == self.path);
        let size = own.map(|(_, size, _)| *size).ok_or_else(|| self.gone())?;
        if self.zram()?.diskseq() != self.diskseq {
            return Err(self.gone());
        }
        let what = || format!("{WHAT} from {}", self.path.display());
        let number = match areas.len() {
            1 => None,
            _ => {
                let number = number_of(&self.places, &self.path);
                let number = number.map_err(|error| SwapError::io(what(), &error))?;
                Some(number.ok_or_else(|| {
                    let why = "there is other swap, and pagetide's own test page went there, or \
                               could not be swapped out, so pagetide cannot tell which swap slots \
                               are on this device";
                    SwapError::failed(
                        what(),
                        why,
                        "give it the highest priority, or switch off the other swap",
                    )
                })?)
            }
        };
        // The kernel's size does not include the header.
        self.pages = size / PAGE_SIZE + 1;
        (self.number, self.areas) = (number, areas);
        Ok(())
    }
}

/// Returns the path of the active zram that `swap on` made.
fn own(swap: &Swap) -> Result<PathBuf, SwapError> {
    let areas = swap.status()?.areas.into_iter();
    let ours = |area: &super::Area| area.ours && area.kind == SwapKind::Zram;
    let mut found = areas.filter(ours).map(|area| area.path);
    found.next().ok_or_else(|| {
        let why = "pagetide has no compressed swap here, and no device was named";
        SwapError::missing(
            WHAT,
            why,
            format!("{MAKE}\n--write-back-from names one that is not pagetide's"),
        )
    })
}

#[cfg(test)]
mod tests;
