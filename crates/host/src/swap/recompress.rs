//! Compressing once more, by a better algorithm, what has lain in a zram for long (the kernel's admin guide, blockdev/zram,
//! "recompression").
//!
//! Invariant: it is the device that `swap on` made, and the algorithm that it was given then. The kernel takes neither page numbers nor
//! tenants for it, but what it has marked as idle: by how long a page has lain there, of the whole device.

use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;
use serde::Serialize;

use super::Swap;
use super::area::{Now, state};
use super::error::SwapError;
use super::zram::Zram;

const WHAT: &str = "cannot compress anything once more";
const MAKE: &str = "pagetide swap off, then: pagetide swap on --recompress zstd";
/// Pages that one call tries at most: zstd takes a second for so many. A kernel that does not know of it tries all in the first call.
const PAGES_AT_ONCE: u64 = 65_536;
/// In which the device counts.
const PAGE: u64 = 4096;

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
    /// By so much less is there, compressed, without what is around it.
    pub won_bytes: u64,
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
    /// which takes as long as that takes: `go_on` is told how many calls were made of how many, and may end it. What does not become
    /// smaller stays as it is, and so does what has been tried before. Needs CAP_SYS_ADMIN.
    ///
    /// # Errors
    /// There is no swap of this owner's, it has no second algorithm, the kernel does not know for how long pages have lain there,
    /// a right is missing, or a step failed.
    pub fn recompress(
        &self,
        older_than: Duration,
        go_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Recompressed, SwapError> {
        let _turn = self.begin(WHAT)?;
        let (zram, algorithm) = self.of_two_algorithms()?;
        let path = zram.path();
        let refused = |error| SwapError::io(format!("{WHAT} in {}", path.display()), &error);
        let before = zram.mm_stat().unwrap_or_default();
        zram.mark_idle(older_than)
            .map_err(|error| match Errno::from_io_error(&error) {
                Some(Errno::INVAL) => no_times(),
                _ => refused(error),
            })?;
        let calls = (before.original / PAGE).div_ceil(PAGES_AT_ONCE);
        for call in 0..calls {
            zram.recompress_idle(PAGES_AT_ONCE).map_err(refused)?;
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
            won_bytes: before.compressed.saturating_sub(after.compressed),
            path,
        })
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

/// It marks all pages, or none.
fn no_times() -> SwapError {
    SwapError::missing(
        WHAT,
        "this kernel does not know for how long pages have lain in a zram (it was built without CONFIG_ZRAM_TRACK_ENTRY_ACTIME)",
        "compress all that is in it: pagetide swap recompress --older-than 0s",
    )
}
