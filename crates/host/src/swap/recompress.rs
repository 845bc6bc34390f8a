//! Compressing once more, by a better algorithm, what has lain in a zram for long (the kernel's admin guide, blockdev/zram,
//! "recompression").
//!
//! Invariant: it is the device that `swap on` made, and the algorithm that it was given then. The kernel takes neither page numbers nor
//! tenants for it, but what it has marked as idle: by how long a page has lain there, of the whole device. Whoever else switches swap waits
//! for one call, and comes before the next.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use serde::Serialize;

use super::Swap;
use super::area::{Now, state};
use super::error::SwapError;
use super::stat::MmStat;
use super::zram::Zram;

const WHAT: &str = "cannot compress anything once more";
const MAKE: &str = "pagetide swap off, then: pagetide swap on --recompress zstd";
/// Pages that one call tries at most: zstd takes a second for so many. A kernel that does not know of it tries all in the first call.
const PAGES_AT_ONCE: u64 = 65_536;
/// In which the device counts.
const PAGE: u64 = 4096;
/// While it writes back, the kernel refuses (EAGAIN, Linux 6.13 to 6.18): each of these calls is short.
const PATIENCE: Duration = Duration::from_secs(3);
/// Between two calls, for others: they ask twice in that time. (The story, of a reading: the lock was free for microseconds a second, and nobody got it.)
const FOR_OTHERS: Duration = Duration::from_millis(50);

/// What came of it. Sizes are bytes, as the device tells them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Recompressed {
    /// The device.
    #[serde(serialize_with = "super::places::lossy")]
    pub path: PathBuf,
    /// By what.
    pub algorithm: String,
    /// What is in it, uncompressed.
    pub original_bytes: u64,
    /// The memory that it took before.
    pub memory_before_bytes: u64,
    /// The memory that it takes now; more, where programs have put something in meanwhile.
    pub memory_bytes: u64,
    /// By so much less is there, compressed, without what is around it; what came while a call was made hides as much of it, and what
    /// programs gave back meanwhile is not counted.
    pub won_bytes: u64,
    /// Why it ended before all was tried, if something failed.
    pub stopped: Option<String>,
}

impl Swap {
    /// Whether [`Swap::recompress`] could do anything. Needs no right.
    ///
    /// # Errors
    /// As there, but for what only trying tells.
    pub fn may_recompress(&self) -> Result<(), SwapError> {
        self.of_two_algorithms().map(drop)
    }

    /// Compresses what has lain in the owner's zram for `older_than` (seconds are what the kernel tells apart) by its second algorithm,
    /// which takes as long as that takes: `go_on` is told how many calls were made of how many at most, and may end it. What does not become
    /// smaller stays as it is, and so does what has been tried before. Needs CAP_SYS_ADMIN.
    ///
    /// # Errors
    /// There is no swap of this owner's, it has no second algorithm, the kernel does not know for how long pages have lain there,
    /// a right is missing, somebody else is switching swap, or the first call failed.
    pub fn recompress(
        &self,
        older_than: Duration,
        go_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Recompressed, SwapError> {
        let turn = self.begin(WHAT)?;
        let (zram, algorithm) = self.of_two_algorithms()?;
        let before = zram.mm_stat().unwrap_or_default();
        zram.mark_idle(older_than)
            .map_err(|error| match Errno::from_io_error(&error) {
                Some(Errno::INVAL) => no_times(),
                _ => refused(&zram, &error),
            })?;
        drop(turn);
        let calls = (before.original / PAGE).div_ceil(PAGES_AT_ONCE);
        // A call may try nothing but pages that do not become smaller, and there may be as many such calls before one that wins.
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

    /// One call, of this disk: how much it won; none where nothing became smaller. After as many of these as pages that cannot become smaller explain, the
    /// kernel is asked no more: until Linux 6.13 it marks what has been tried already as idle each time, and decompresses all of it to find that out.
    /// (The story, of a reading: `serve` would have kept a processor busy with 16 GiB that had been compressed once more already, for ever.)
    fn recompress_some(&self, disk: Option<u64>) -> Result<Option<u64>, SwapError> {
        let _turn = self.begin(WHAT)?;
        let (zram, _) = self.of_two_algorithms()?;
        if zram.diskseq() != disk {
            let why = "; it was made anew meanwhile".to_owned();
            return Err(SwapError::NothingOn { why });
        }
        let before = zram.mm_stat().unwrap_or_default();
        zram.recompress_idle(PAGES_AT_ONCE, Instant::now() + PATIENCE)
            .map_err(|error| refused(&zram, &error))?;
        let after = zram.mm_stat().unwrap_or_default();
        Ok(won(before, after))
    }

    /// How often its device was read and written so far. Where that stays the same nothing in it becomes idle that was not.
    #[must_use]
    pub fn accesses(&self) -> Option<u64> {
        let (zram, _) = self.of_two_algorithms().ok()?;
        zram.accesses()
    }

    /// The owner's zram, and the second algorithm that it was given.
    fn of_two_algorithms(&self) -> Result<(Zram<'_>, String), SwapError> {
        let nothing = || SwapError::NothingOn { why: String::new() };
        let record = self.record()?.ok_or_else(nothing)?;
        let Now::On(area) = state(&self.places, &record)? else {
            return Err(nothing());
        };
        let shown = area.path.display();
        let Some(zram) = Zram::named(&self.places, &area.path) else {
            let why = format!("{shown} is a file, which is not compressed");
            return Err(SwapError::missing(WHAT, why, MAKE));
        };
        let Some(algorithm) = zram.second_algorithm() else {
            let why = format!("{shown} was made with one algorithm");
            return Err(SwapError::missing(WHAT, why, MAKE));
        };
        Ok((zram, algorithm))
    }
}

fn refused(zram: &Zram<'_>, error: &std::io::Error) -> SwapError {
    SwapError::io(format!("{WHAT} in {}", zram.path().display()), error)
}

/// What a call made smaller, bytes, as far as others who put something in or gave something back meanwhile let it be known; none if there was nothing.
fn won(before: MmStat, after: MmStat) -> Option<u64> {
    let smaller = before.compressed.saturating_sub(after.compressed);
    if smaller == 0 && after.original <= before.original {
        return None;
    }
    // What was given back took no more than it was.
    Some(smaller.saturating_sub(before.original.saturating_sub(after.original)))
}

/// It marks all pages, or none.
fn no_times() -> SwapError {
    SwapError::missing(
        WHAT,
        "this kernel does not know for how long pages have lain in a zram (it was built without CONFIG_ZRAM_TRACK_ENTRY_ACTIME)",
        "compress all that is in it: pagetide swap recompress --older-than 0s",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_do_meanwhile_is_not_won() {
        let stat = |original, compressed| MmStat {
            original,
            compressed,
            ..MmStat::default()
        };
        assert_eq!(won(stat(100, 50), stat(100, 30)), Some(20));
        assert_eq!(won(stat(100, 50), stat(100, 50)), None, "all was tried");
        // A program that ended with all that it had here; one that had more.
        assert_eq!(won(stat(100, 50), stat(60, 30)), Some(0));
        assert_eq!(won(stat(100, 50), stat(90, 20)), Some(20));
        // Somebody came: nothing is known, and it goes on.
        assert_eq!(won(stat(100, 50), stat(120, 60)), Some(0));
        assert_eq!(won(stat(100, 50), stat(120, 40)), Some(10));
    }
}
