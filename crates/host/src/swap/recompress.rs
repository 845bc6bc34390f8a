//! Compresses pages of a zram once more, with a better algorithm, if they were not accessed for
//! long (the kernel's admin guide, blockdev/zram, "recompression").
//!
//! Invariant: only the device that `swap on` made is used, with the second algorithm that `swap on`
//! gave it. A call to the kernel names neither pages nor tenants: the kernel marks pages of the
//! whole device as idle by their age, and recompresses marked pages. The lock is released between
//! two calls, so another command that switches swap waits for one call at most.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use engine::units::PAGE_SIZE;
use rustix::io::Errno;
use serde::Serialize;

use super::Swap;
use super::area::{Now, state};
use super::error::SwapError;
use super::stat::MmStat;
use super::zram::Zram;

/// The beginning of error messages: the command that failed.
const WHAT: &str = "cannot recompress";
/// Hint of errors: how to get a zram with a second algorithm.
const MAKE: &str = "pagetide swap off, then: pagetide swap on --recompress zstd";
/// Largest number of pages that one call to the kernel tries; zstd takes about a second for them. A
/// kernel without this parameter tries all pages in the first call.
const PAGES_AT_ONCE: u64 = 65_536;
/// Size in bytes of a page in the device's counters.
/// Longest time to repeat a call that the kernel refuses because of a writeback (EAGAIN, Linux 6.13
/// to 6.18). A call that writes back is short.
const PATIENCE: Duration = Duration::from_secs(3);
/// Pause without the lock between two calls, so that another command can take the lock: it tries
/// every 20 ms.
const FOR_OTHERS: Duration = Duration::from_millis(50);

/// What a recompression saved. Sizes are bytes, as the device reports them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Recompressed {
    /// The device.
    #[serde(serialize_with = "super::places::lossy")]
    pub path: PathBuf,
    /// The algorithm with which pages were recompressed.
    pub algorithm: String,
    /// Uncompressed size of all pages in the device.
    pub original_bytes: u64,
    /// The memory that the device used before.
    pub memory_before_bytes: u64,
    /// The memory that the device uses now; more than before if programs swapped out pages
    /// meanwhile.
    pub memory_bytes: u64,
    /// By how much the compressed data became smaller, without the allocator's overhead. Pages that
    /// programs free do not count; pages that they swap out during a call make the number smaller.
    pub won_bytes: u64,
    /// The error that ended the recompression before all pages were tried, if there was one.
    pub stopped: Option<String>,
}

impl Swap {
    /// Checks whether [`Swap::recompress`] can do anything. Needs no right.
    ///
    /// # Errors
    /// Those of [`Swap::recompress`] that can be found without trying.
    pub fn may_recompress(&self) -> Result<(), SwapError> {
        self.zram_and_second().map(drop)
    }

    /// Recompresses pages of the owner's zram that were not accessed for `older_than` (in whole
    /// seconds), with the zram's second algorithm. Pages that do not become smaller stay as they
    /// are, and so do pages that were tried before. Needs CAP_SYS_ADMIN.
    ///
    /// `go_on` is called between two calls to the kernel and after the last possible one. Its
    /// arguments are the number of calls made and the largest number of calls; it returns false to
    /// stop.
    ///
    /// # Errors
    /// There is no swap of this owner's, it has no second algorithm, the kernel does not record
    /// when pages were accessed, a right is missing, another command is switching swap, or the
    /// first call failed.
    pub fn recompress(
        &self,
        older_than: Duration,
        go_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Recompressed, SwapError> {
        let turn = self.begin(WHAT)?;
        let (zram, algorithm) = self.zram_and_second()?;
        let before = zram.mm_stat().unwrap_or_default();
        zram.mark_idle(older_than)
            .map_err(|error| match Errno::from_io_error(&error) {
                Some(Errno::INVAL) => no_access_times(),
                _ => refused(&zram, &error),
            })?;
        drop(turn);
        let calls = (before.original / PAGE_SIZE).div_ceil(PAGES_AT_ONCE);
        // A call may happen to try only pages that do not become smaller. This is the largest
        // number of such calls before one that has an effect.
        let mut may_be_vain = before.huge / PAGES_AT_ONCE;
        let (mut won_bytes, mut stopped) = (0, None);
        for call in 0..calls {
            if call > 0 {
                std::thread::sleep(FOR_OTHERS);
            }
            match self.recompress_some(zram.diskseq()) {
                Ok(Some(won)) => won_bytes += won,
                Ok(None) if may_be_vain > 0 => may_be_vain -= 1,
                Ok(None) => break,
                Err(error) if call == 0 => return Err(error),
                Err(error) => {
                    stopped = Some(error.to_string());
                    break;
                }
            }
            if !go_on(call + 1, calls) {
                break;
            }
        }
        let after = zram.mm_stat().unwrap_or_default();
        Ok(Recompressed {
            algorithm,
            original_bytes: after.original,
            memory_before_bytes: before.memory,
            memory_bytes: after.memory,
            won_bytes,
            stopped,
            path: zram.path(),
        })
    }

    /// Makes one call to the kernel, if the zram is still the disk with the number `disk`. Returns
    /// how many bytes the call saved; `None` if nothing became smaller. Until Linux 6.13 the kernel
    /// tries the same pages again in each call, without end; so the caller stops once
    /// incompressible pages cannot explain the calls without effect.
    fn recompress_some(&self, disk: Option<u64>) -> Result<Option<u64>, SwapError> {
        let _turn = self.begin(WHAT)?;
        let (zram, _) = self.zram_and_second()?;
        if zram.diskseq() != disk {
            let why = "; it was replaced meanwhile".to_owned();
            return Err(SwapError::NothingOn { why });
        }
        let before = zram.mm_stat().unwrap_or_default();
        zram.recompress_idle(PAGES_AT_ONCE, Instant::now() + PATIENCE)
            .map_err(|error| refused(&zram, &error))?;
        let after = zram.mm_stat().unwrap_or_default();
        Ok(won(before, after))
    }

    /// Returns how often the owner's zram was read and written since it was made; `None` without a
    /// zram that can recompress. While the number stays the same, no further page becomes idle.
    #[must_use]
    pub fn accesses(&self) -> Option<u64> {
        let (zram, _) = self.zram_and_second().ok()?;
        zram.accesses()
    }

    /// Returns the owner's zram, and the name of its second algorithm.
    fn zram_and_second(&self) -> Result<(Zram<'_>, String), SwapError> {
        let nothing = || SwapError::NothingOn { why: String::new() };
        let record = self.record()?.ok_or_else(nothing)?;
        let Now::On(area) = state(&self.places, &record)? else {
            return Err(nothing());
        };
        let shown = area.path.display();
        let Some(zram) = Zram::named(&self.places, &area.path) else {
            let why = format!("{shown} is a file, and files are not compressed");
            return Err(SwapError::missing(WHAT, why, MAKE));
        };
        let Some(algorithm) = zram.second_algorithm() else {
            let why = format!("{shown} was made with one algorithm");
            return Err(SwapError::missing(WHAT, why, MAKE));
        };
        Ok((zram, algorithm))
    }
}

/// The error if the kernel refused a call.
fn refused(zram: &Zram<'_>, error: &std::io::Error) -> SwapError {
    SwapError::io(format!("{WHAT} in {}", zram.path().display()), error)
}

/// Returns how many bytes a call saved, given the counters before and after it; `None` if nothing
/// became smaller. A lower bound, because programs swap out and free pages meanwhile.
fn won(before: MmStat, after: MmStat) -> Option<u64> {
    let smaller = before.compressed.saturating_sub(after.compressed);
    if smaller == 0 && after.original <= before.original {
        return None;
    }
    // The pages that were freed took at most their uncompressed size.
    Some(smaller.saturating_sub(before.original.saturating_sub(after.original)))
}

/// The error if the kernel does not record access times: it can only mark all pages as idle.
fn no_access_times() -> SwapError {
    SwapError::missing(
        WHAT,
        "this kernel does not track how long pages have been in zram (it was built without CONFIG_ZRAM_TRACK_ENTRY_ACTIME)",
        "compress all that is in it: pagetide swap recompress --older-than 0s",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_by_programs_are_not_counted_as_savings() {
        let stat = |original, compressed| MmStat {
            original,
            compressed,
            ..MmStat::default()
        };
        assert_eq!(won(stat(100, 50), stat(100, 30)), Some(20));
        assert_eq!(won(stat(100, 50), stat(100, 50)), None, "all was tried");
        // A program freed 40 bytes of pages, which may be the whole change; then 10, which are only
        // a part of it.
        assert_eq!(won(stat(100, 50), stat(60, 30)), Some(0));
        assert_eq!(won(stat(100, 50), stat(90, 20)), Some(20));
        // Pages were added: the saving is unknown, and the caller continues.
        assert_eq!(won(stat(100, 50), stat(120, 60)), Some(0));
        assert_eq!(won(stat(100, 50), stat(120, 40)), Some(10));
    }
}
