//! A zram that is swapped to, with a disk behind it: pages go on from the one to the other.
//!
//! Invariant: it is the one that pagetide made, or the one that was named, and no other; which places of swap are its own is known by
//! the kernel's number of the area ([`super::swap_type`]), and is found out anew when anybody switches swap.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::Swap;
use super::backing::cannot_write_back;
use super::error::SwapError;
use super::places::Places;
use super::slot::Slot;
use super::swap_type::number_of;
use super::write_back::{Manner, ask};
use super::zram::Zram;
use crate::system::swap::{SwapArea, SwapKind};

const WHAT: &str = "cannot write anything back";
const MAKE: &str = "pagetide swap on --backing DEVICE makes compressed swap with a disk behind it";

/// See the module.
#[derive(Clone, Debug)]
pub struct Tier {
    places: Places,
    path: PathBuf,
    diskseq: Option<u64>,
    /// Pages that it holds, and all areas that there are, as of when its number was found out.
    pages: u64,
    areas: Vec<(PathBuf, u64, i32)>,
    /// The kernel's number of it; none where it is the only one.
    number: Option<u8>,
    manner: Manner,
}

/// What came of a call.
#[derive(Debug, Default)]
pub struct WrittenBack {
    /// So many of the pages, from the first on, were asked for.
    pub asked: usize,
    /// So many were written, by the device's own count.
    pub written: u64,
    /// Why no more were asked for, if it was not the time.
    pub refused: Option<String>,
}

impl Tier {
    /// The device that is named, or the one that `swap on` made. Needs CAP_SYS_ADMIN.
    ///
    /// # Errors
    /// There is none, it is not swapped to, has no disk behind it, a right is missing, or which area it is cannot be told.
    pub fn open(named: Option<&Path>) -> Result<Tier, SwapError> {
        Tier::of(&Swap::system(), named)
    }

    pub(super) fn of(swap: &Swap, named: Option<&Path>) -> Result<Tier, SwapError> {
        let path = match named {
            Some(path) => path.canonicalize().unwrap_or_else(|_| path.to_owned()),
            None => own(swap)?,
        };
        let shown = path.display().to_string();
        let Some(zram) = Zram::named(&swap.places, &path).filter(Zram::exists) else {
            return Err(SwapError::BadDevice {
                what: WHAT.to_owned(),
                why: format!("{shown} is no zram"),
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

    /// The device.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Which page of the device a place in swap is, if it is one of this device.
    #[must_use]
    pub fn index(&self, slot: Slot) -> Option<u64> {
        let is_here = self.number.is_none_or(|number| number == slot.area);
        (is_here && slot.offset < self.pages).then_some(slot.offset)
    }

    /// Sees that places are still told as they were: to be asked before they are.
    ///
    /// # Errors
    /// As [`Tier::open`].
    pub fn check(&mut self) -> Result<(), SwapError> {
        match self.listed()? == self.areas && self.zram()?.diskseq() == self.diskseq {
            true => Ok(()),
            false => self.find(),
        }
    }

    /// Asks for pages of the device to be written, ascending, until `end`. Others' write-backs in between are counted, too.
    ///
    /// # Errors
    /// The device is gone.
    pub fn write_back(&mut self, indexes: &[u64], end: Instant) -> Result<WrittenBack, SwapError> {
        let (before, attribute) = (self.written()?, self.zram()?.write_back_attribute());
        let asked = ask(&attribute, &mut self.manner, indexes, end);
        Ok(WrittenBack {
            asked: asked.indexes,
            written: self.written()?.saturating_sub(before),
            refused: asked.refused.map(|error| match error.kind() {
                std::io::ErrorKind::StorageFull => "the disk behind it is full".to_owned(),
                _ => format!("{error} (is its writeback_limit used up?)"),
            }),
        })
    }

    fn zram(&self) -> Result<Zram<'_>, SwapError> {
        let zram = Zram::named(&self.places, &self.path).filter(Zram::exists);
        zram.ok_or_else(|| self.gone())
    }

    fn written(&self) -> Result<u64, SwapError> {
        let stat = self.zram()?.bd_stat();
        stat.map(|stat| stat.written).ok_or_else(|| self.gone())
    }

    fn gone(&self) -> SwapError {
        let what = format!("{WHAT} from {}", self.path.display());
        SwapError::failed(what, "it is not swapped to any more", MAKE)
    }

    fn listed(&self) -> Result<Vec<(PathBuf, u64, i32)>, SwapError> {
        let areas = self.places.proc()?.swaps()?;
        let told = |area: SwapArea| (area.path, area.size, area.priority);
        Ok(areas.into_iter().map(told).collect())
    }

    /// Finds out which area it is.
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
                    let why = "there is other swap, and a page of pagetide's own went there, or could not leave, so which \
                               places are this device's cannot be told";
                    SwapError::failed(what(), why, "give it the highest priority, or switch the others off")
                })?)
            }
        };
        // The kernel's size leaves the header out.
        self.pages = size / 4096 + 1;
        (self.number, self.areas) = (number, areas);
        Ok(())
    }
}

/// What `swap on` made and is swapped to.
fn own(swap: &Swap) -> Result<PathBuf, SwapError> {
    let areas = swap.status()?.areas.into_iter();
    let ours = |area: &super::Area| area.ours && area.kind == SwapKind::Zram;
    let mut found = areas.filter(ours).map(|area| area.path);
    found.next().ok_or_else(|| {
        let why = "no compressed swap here is pagetide's, and none was named";
        SwapError::missing(
            WHAT,
            why,
            format!("{MAKE}\n--write-back-from names one that is not pagetide's"),
        )
    })
}

#[cfg(test)]
mod tests;
