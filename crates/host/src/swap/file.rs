//! A file as a swap area.
//!
//! Invariant: the file is ours alone (newly made, mode 0600). Every block of it is allocated on
//! disk before it is swapped to (the kernel writes to blocks, not to files). It is removed only if
//! the path still names the file that was opened.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    FallocateFlags, IFlags, StatFs, fallocate, fstatfs, ioctl_getflags, ioctl_setflags, statfs,
};
use rustix::io::Errno;

use super::error::SwapError;

/// File system types, see statfs(2).
const TMPFS: i64 = 0x0102_1994;
const RAMFS: i64 = 0x8584_58f6;
const OVERLAY: i64 = 0x794c_7630;
const BTRFS: i64 = 0x9123_683e;
/// Hint of the errors for a path that cannot be swapped to.
const DISK: &str = "name a file on a disk with ext4, xfs or btrfs";

/// Returns the absolute path of a swap file that is to be made.
///
/// # Errors
/// The directory does not exist, its file system does not support swap, or has less than `size`
/// bytes free.
pub(super) fn checked_path(path: &Path, size: u64) -> Result<PathBuf, SwapError> {
    let what = || format!("cannot make {}", path.display());
    let name = path.file_name();
    let name =
        name.ok_or_else(|| SwapError::bad(format!("{} is not a file name", path.display()), DISK))?;
    let folder = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let folder = folder
        .canonicalize()
        .map_err(|error| match SwapError::io(what(), &error) {
            SwapError::Failed { what, why, .. } => SwapError::failed(what, why, DISK),
            missing => missing,
        })?;
    let found = statfs(&folder).map_err(|errno| SwapError::io(what(), &errno.into()))?;
    suits(&found).map_err(|why| SwapError::missing(what(), why, DISK))?;
    let free = found
        .f_bavail
        .saturating_mul(u64::try_from(found.f_bsize).unwrap_or(0));
    if size > free {
        let why = format!(
            "{} MiB are requested, but only {} MiB are free there",
            size >> 20,
            free >> 20
        );
        return Err(SwapError::failed(
            what(),
            why,
            "ask for less, or name a file elsewhere",
        ));
    }
    Ok(folder.join(name))
}

/// Returns why a file system of this type cannot be swapped to; `Ok` if it may work, as only swapon
/// decides.
fn suits(found: &StatFs) -> Result<(), &'static str> {
    match found.f_type {
        TMPFS | RAMFS => Err("the file would itself be in memory (tmpfs)"),
        OVERLAY => Err("files of an overlay, as in a container, have no blocks to swap to"),
        _ => Ok(()),
    }
}

/// Makes a new empty file; fails if one of this name exists.
pub(super) fn create(path: &Path) -> Result<File, SwapError> {
    let what = || format!("cannot make {}", path.display());
    let made = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    match made {
        Ok(file) => Ok(file),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(SwapError::failed(
            what(),
            "a file of this name exists",
            "name another; if it is swap of an earlier start of the machine, remove it first",
        )),
        Err(error) => Err(SwapError::io(what(), &error)),
    }
}

/// Allocates all blocks of the file; `size` is in bytes.
pub(super) fn allocate(file: &File, path: &Path, size: u64) -> Result<(), SwapError> {
    let what = || format!("cannot allocate {} with {} MiB", path.display(), size >> 20);
    fallocate(file, FallocateFlags::empty(), 0, size).map_err(|errno| match errno {
        Errno::OPNOTSUPP => SwapError::missing(
            what(),
            "this file system cannot allocate blocks in advance",
            DISK,
        ),
        errno => SwapError::io(what(), &errno.into()),
    })
}

/// Prepares an empty file before anything is written to it: on btrfs a swap file may not be copied
/// on write.
pub(super) fn prepare(file: &File, path: &Path) -> Result<(), SwapError> {
    let set = || -> Result<(), Errno> {
        if fstatfs(file)?.f_type == BTRFS {
            ioctl_setflags(file, ioctl_getflags(file)? | IFlags::NOCOW)?;
        }
        Ok(())
    };
    let what = || format!("cannot switch copy-on-write off for {}", path.display());
    set().map_err(|errno| SwapError::io(what(), &errno.into()))
}

/// Returns the error of a swapon that failed. EINVAL means that the file system does not support
/// swap.
pub(super) fn refused(path: &Path, error: &io::Error) -> SwapError {
    let what = format!("cannot swap to {}", path.display());
    match error.kind() {
        io::ErrorKind::InvalidInput => SwapError::missing(
            what,
            "its file system does not support it (`dmesg` says why; btrfs: not over several disks, nor in a snapshot)",
            DISK,
        ),
        _ => SwapError::io(what, error),
    }
}

/// Opens for reading the file that a record names.
pub(super) fn open(path: &Path) -> io::Result<File> {
    // Another kind of file may be there now: do not follow a link or wait for a named pipe.
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or(0);
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Removes the file if `path` still names it.
pub(super) fn remove(file: &File, path: &Path) -> io::Result<()> {
    let (ours, there) = (file.metadata()?, path.symlink_metadata()?);
    if (ours.dev(), ours.ino()) != (there.dev(), there.ino()) {
        return Err(io::Error::other("another file now has its name"));
    }
    std::fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_no_place_for_swap() {
        let error = checked_path(Path::new("/dev/shm/pagetide-no-swap"), 1 << 20).unwrap_err();
        assert!(
            error.is_missing() && error.to_string().contains("tmpfs"),
            "{error}"
        );
        let error = checked_path(Path::new("/"), 1 << 20).unwrap_err();
        assert!(error.is_bad_request(), "{error}");
        let error = checked_path(Path::new("/nowhere/at/all"), 1 << 20).unwrap_err();
        assert!(!error.is_missing() && !error.hint().is_empty(), "{error}");
    }

    #[test]
    fn a_disk_that_is_too_small_is_reported_first() {
        let error = checked_path(Path::new("/pagetide-no-swap"), u64::MAX).unwrap_err();
        assert!(error.to_string().contains("are free there"), "{error}");
    }
}
