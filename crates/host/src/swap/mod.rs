//! Swap of our own making: compressed memory (zram), or a file where there is no zram.
//!
//! Invariant: nothing is touched that [`Swap::on`] did not make. What it made is known by a record *and* by
//! the header that lies in it (and, of a zram device, by the kernel's number of the disk): where they do not
//! agree it is somebody else's by now. One owner has one area; a command that fails leaves nothing behind,
//! and what a killed one left is taken up by the owner's next. No sysctl is changed.
//!
//! Floors, from the ground: `error`; `header`, `stat`, `slot` (where a page is), `kernel`; `places`, `record`; `zram`, `file`;
//! `area` (one that a record names, as it is now), `backing` (the disk behind a zram), `write_back` and `room`; `swap_type`,
//! `recompress`; `on`, `off`, `status`, `lease`, `tier` (a zram with a disk behind it, to write back from).

mod area;
mod backing;
mod error;
mod file;
mod header;
mod kernel;
mod lease;
mod off;
mod on;
mod places;
mod recompress;
mod record;
mod room;
mod slot;
mod stat;
mod status;
mod swap_type;
#[cfg(test)]
mod tests;
mod tier;
mod write_back;
mod zram;

use std::fs::{File, OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

pub use error::SwapError;
pub use lease::Lease;
pub use off::Removed;
pub use on::{Made, Request};
pub use recompress::Recompressed;
pub use slot::{Slot, slots};
pub use status::{Area, Backing, Compressed, Status};
pub use tier::{Tier, WrittenBack};

use kernel::{Kernel, Running};
use places::Places;
use record::Record;

/// Ahead of disks, which get negative priorities unless somebody says otherwise.
const ZRAM_PRIORITY: u16 = 100;
/// Ahead of them as well, and behind anybody's zram: areas of one priority are filled in turn, and a disk
/// would then be waited for.
const FILE_PRIORITY: u16 = 10;
/// Whoever else switches swap is waited for so long: a recompression lets go after each call, which takes about a second.
const PATIENCE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(20);
const OURS_ALONE: u32 = 0o600;
/// The owner whose area `pagetide swap` switches.
const USER: &str = "swap";

/// The swap of one owner.
#[derive(Debug)]
pub struct Swap {
    places: Places,
    kernel: Box<dyn Kernel>,
    /// The name of its record.
    owner: &'static str,
}

impl Swap {
    /// The user's own, which `pagetide swap` switches.
    #[must_use]
    pub fn system() -> Swap {
        Swap::of(USER)
    }

    /// That of a part of pagetide that makes and removes its own beside the user's. An owner is a plain
    /// word.
    #[must_use]
    pub fn of(owner: &'static str) -> Swap {
        Swap {
            places: Places::system(),
            kernel: Box::new(Running),
            owner,
        }
    }

    fn may(&self, what: &str) -> Result<(), SwapError> {
        if self.kernel.may_switch() {
            return Ok(());
        }
        let why = "that takes CAP_SYS_ADMIN, which this user does not have";
        let hint = "run as root: sudo pagetide swap ...";
        Err(SwapError::missing(what, why, hint))
    }

    fn record_path(&self) -> PathBuf {
        self.places.run.join(self.owner)
    }

    /// What was recorded, if something is.
    fn record(&self) -> Result<Option<Record>, SwapError> {
        let path = self.record_path();
        let what = || format!("cannot read {}", path.display());
        match std::fs::read(&path) {
            Ok(text) => Record::parse(&text).map(Some).ok_or_else(|| {
                let hint = "see what there is (pagetide swap status), then remove that file";
                SwapError::failed(what(), "no pagetide of this version wrote it", hint)
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(SwapError::io(what(), &error)),
        }
    }

    fn save(&self, record: &Record) -> Result<(), SwapError> {
        let path = self.record_path();
        let refused = |error| SwapError::io(format!("cannot write {}", path.display()), &error);
        record.save(&path).map_err(refused)
    }

    fn forget(&self) -> Result<(), SwapError> {
        let path = self.record_path();
        let refused = |error| SwapError::io(format!("cannot remove {}", path.display()), &error);
        std::fs::remove_file(&path).map_err(refused)
    }

    /// Sees that we may switch at all, before anything is made, and that nobody else is at it: what takes others a moment is waited for.
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

    /// A file that is locked by us for as long as it is open; none while somebody else has it. Nobody else may open it, for flock(2) asks for no
    /// right to write. (The story, of a reading: any user could lock it, and root could switch no swap any more.)
    fn lock(&self, name: &str) -> Result<Option<File>, SwapError> {
        let path = self.places.run.join(name);
        let refused = |error| SwapError::io(format!("cannot write {}", path.display()), &error);
        std::fs::create_dir_all(&self.places.run).map_err(refused)?;
        let mut open = OpenOptions::new();
        open.write(true).create(true).mode(OURS_ALONE);
        let file = open.open(&path).map_err(refused)?;
        // One that an earlier version has left.
        let ours = Permissions::from_mode(OURS_ALONE);
        file.set_permissions(ours).map_err(refused)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(refused(errno.into())),
        }
    }
}

/// Held while swap is switched; it ends with whoever holds it.
struct Turn(#[expect(dead_code, reason = "the open file is the lock")] File);
