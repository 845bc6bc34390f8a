//! Swap that pagetide makes itself: compressed memory (zram), or a file where there is no zram.
//!
//! Invariant: we change nothing that [`Swap::on`] did not make. We recognize a swap area of ours by
//! a record *and* by the header in the area (and, for a zram device, by the kernel's disk number).
//! If record and header do not agree, the area belongs to another program by now. An owner has at
//! most one area; users may make areas of their own beside the shared one, by names. A record also
//! has the user who switched its area on. A command that fails removes what it made; what a killed
//! command left is removed by the owner's next command. No sysctl is changed.
//!
//! Modules, from the lowest to the highest: `error`, `users` (whose swap an area is); `header`,
//! `stat`, `slot` (where in swap a page is), `kernel`; `places`, `record`; `zram`, `file`; `area`
//! (the present state of a recorded area), `backing` (the disk behind a zram), `write_back`
//! (requests to write pages to that disk) `free_swap` (whether swapped-out pages fit in memory) and
//! `held` (what swap holds in memory); `swap_type`, `recompress`; `on`, `off`, `status`, `lease`,
//! `tier` (writeback from a zram to the disk behind it).

mod error;
mod users;

mod header;
mod kernel;
mod slot;
mod stat;

mod file;
mod lease;
mod places;
mod record;

mod swap_type;
mod write_back;
mod zram;

mod area;
mod backing;
mod free_swap;
mod held;

mod off;
mod recompress;
mod status;
mod tier;

mod on;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fs::{File, OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

pub use error::SwapError;
pub use held::Zswap;
pub use lease::Lease;
pub use off::Removed;
pub use on::{Made, Request};
pub use recompress::Recompressed;
pub use slot::{Slot, slots};
pub use status::{Area, Backing, Compressed, Status};
pub use tier::{Tier, WrittenBack};
pub use users::Maker;

use kernel::{Kernel, Running};
use places::Places;
use record::Record;

/// Swap priority of a zram. Disks get negative priorities unless the user chooses others, so a zram
/// is filled before them.
const ZRAM_PRIORITY: u16 = 100;
/// Swap priority of a swap file: above disks and below any zram. The kernel fills areas of equal
/// priority in turn, so with the zram's priority a part of its pages would go to the slow disk.
const FILE_PRIORITY: u16 = 10;
/// How long to wait for another command that switches swap. A recompression releases the lock after
/// each call to the kernel, which takes about a second.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause between two attempts to get the lock.
const POLL: Duration = Duration::from_millis(20);
/// Mode of the lock file: only its owner may open it.
const OURS_ALONE: u32 = 0o600;
/// The owner of the area that `pagetide swap` switches, and the beginning of the owners of named
/// areas.
const USER: &str = "swap";
/// Longest name of an area.
const NAME_MAX: usize = 32;

/// The swap area of one owner: the user, or a part of pagetide.
#[derive(Debug)]
pub struct Swap {
    places: Places,
    kernel: Box<dyn Kernel>,
    /// Name of the owner, and so of the file that holds the record of the owner's area.
    owner: Cow<'static, str>,
}

impl Swap {
    /// The area that all users of the host share, which `pagetide swap` switches.
    #[must_use]
    pub fn system() -> Swap {
        Swap::of(USER)
    }

    /// Returns the swap of `owner`, a part of pagetide that makes and removes an area of its own
    /// beside the user's. `owner` is one plain word: it names a file.
    #[must_use]
    pub fn of(owner: &'static str) -> Swap {
        Swap {
            places: Places::system(),
            kernel: Box::new(Running),
            owner: Cow::Borrowed(owner),
        }
    }

    /// Returns the swap of this name, beside the shared one: only a command with the same name
    /// changes it. `None` if the name is not 1 to 32 of the characters `a` to `z`, `0` to `9` and
    /// `-`.
    #[must_use]
    pub fn named(name: &str) -> Option<Swap> {
        let is_plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_name = (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(is_plain);
        is_name.then(|| Swap {
            owner: Cow::Owned(format!("{USER}-{name}")),
            ..Swap::system()
        })
    }

    /// Returns an error if this process has no right to switch swap; `what` is the command that
    /// failed, for the error.
    fn may(&self, what: &str) -> Result<(), SwapError> {
        if self.kernel.may_switch() {
            return Ok(());
        }
        let why = "that needs CAP_SYS_ADMIN, which this user does not have";
        let hint = "run as root: sudo pagetide swap ...";
        Err(SwapError::missing(what, why, hint))
    }

    /// Returns the name of a named area; `None` for the area of another owner.
    fn name(&self) -> Option<String> {
        name_of(&self.owner).map(str::to_owned)
    }

    fn record_path(&self) -> PathBuf {
        self.places.run.join(&*self.owner)
    }

    /// Reads the record of the owner's area; `None` if there is none.
    fn record(&self) -> Result<Option<Record>, SwapError> {
        let path = self.record_path();
        let what = || format!("cannot read {}", path.display());
        match std::fs::read(&path) {
            Ok(text) => Record::parse(&text).map(Some).ok_or_else(|| {
                let hint = "see what swap there is (pagetide swap status), then remove that file";
                SwapError::failed(
                    what(),
                    "it was not written by this version of pagetide",
                    hint,
                )
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(SwapError::io(what(), &error)),
        }
    }

    /// Writes the record of the owner's area.
    fn save(&self, record: &Record) -> Result<(), SwapError> {
        let path = self.record_path();
        let refused = |error| SwapError::io(format!("cannot write {}", path.display()), &error);
        record.save(&path).map_err(refused)
    }

    /// Removes the record of the owner's area.
    fn forget(&self) -> Result<(), SwapError> {
        let path = self.record_path();
        let refused = |error| SwapError::io(format!("cannot remove {}", path.display()), &error);
        std::fs::remove_file(&path).map_err(refused)
    }

    /// Checks that this process may switch swap, and takes the lock before anything is made. Waits
    /// up to [`PATIENCE`] if another command has the lock. `what` is the command that failed, for
    /// the error.
    fn begin(&self, what: &str) -> Result<Turn, SwapError> {
        self.may(what)?;
        let end = Instant::now() + PATIENCE;
        loop {
            match self.lock("swap.lock")? {
                Some(file) => return Ok(Turn(file)),
                None if Instant::now() >= end => return Err(SwapError::Running),
                None => std::thread::sleep(POLL),
            }
        }
    }

    /// Opens and locks the file `name`; the lock lasts as long as the file is open. `None` if
    /// another process has the lock. Only the owner of the file may open it: flock(2) needs no
    /// right to write, so any user who can open the file could lock it and keep root from switching
    /// swap.
    fn lock(&self, name: &str) -> Result<Option<File>, SwapError> {
        let path = self.places.run.join(name);
        let refused = |error| SwapError::io(format!("cannot write {}", path.display()), &error);
        std::fs::create_dir_all(&self.places.run).map_err(refused)?;
        let mut open = OpenOptions::new();
        open.write(true).create(true).mode(OURS_ALONE);
        let file = open.open(&path).map_err(refused)?;
        // A file that an earlier version of pagetide made may have another mode.
        let ours = Permissions::from_mode(OURS_ALONE);
        file.set_permissions(ours).map_err(refused)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(refused(errno.into())),
        }
    }
}

/// Returns the name of the area of an owner; `None` if it is no named area.
fn name_of(owner: &str) -> Option<&str> {
    owner.strip_prefix(USER)?.strip_prefix('-')
}

/// The lock while swap is switched; the kernel releases it when the process ends.
struct Turn(#[expect(dead_code, reason = "the open file is the lock")] File);
