//! The bytes under a tier: a memfd (pool), an unlinked file (file tier), a test's failing device.
//!
//! Invariant: a backing knows nothing of slots; it moves bytes at offsets and gives space back.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::FallocateFlags;

/// Positional storage. Offsets and lengths in bytes.
pub trait Backing: Send {
    /// Writes all of `bytes` at `offset`, growing the file if needed.
    ///
    /// # Errors
    /// Any error or short write of the device; what the range then holds is undefined.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Fills `bytes` from `offset`.
    ///
    /// # Errors
    /// Any error of the device, or `UnexpectedEof` past its end.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;

    /// Makes sure that later writes to the range cannot fail for lack of space.
    ///
    /// # Errors
    /// `StorageFull` and friends: the range must not be used.
    fn reserve(&self, offset: u64, len: u64) -> io::Result<()>;

    /// Gives the range's space back; it reads as zeros until written again.
    ///
    /// # Errors
    /// Whatever the device answers; the bytes are then as they were.
    fn punch(&self, offset: u64, len: u64) -> io::Result<()>;

    /// End of the file, bytes.
    ///
    /// # Errors
    /// Whatever the device answers.
    fn end(&self) -> io::Result<u64>;
}

/// A memfd: space comes with the first write, so nothing is reserved ahead.
#[derive(Debug)]
pub struct MemBacking(pub File);

/// A file on a disk. Slabs are reserved before use, because a file system that allocates at
/// write-back (delayed allocation, NFS) would otherwise report a full disk after the page is gone.
#[derive(Debug)]
pub struct DiskBacking(File);

impl DiskBacking {
    /// Takes a file that the caller created (or received from a keeper when adopting).
    #[must_use]
    pub fn new(file: File) -> DiskBacking {
        DiskBacking(file)
    }

    /// Creates an unnamed file of mode 0600 in `directory`: evicted bytes are readable by nobody
    /// else and gone with their last descriptor.
    ///
    /// # Errors
    /// The directory is missing, read-only, not ours, or its file system knows no `O_TMPFILE`.
    pub fn create(directory: &Path) -> io::Result<DiskBacking> {
        let flags = rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::CLOEXEC;
        let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
        OpenOptions::new()
            .read(true)
            .write(true)
            .mode(0o600)
            .custom_flags(flags)
            .open(directory)
            .map(DiskBacking)
    }

    /// The file, for handing its descriptor to the keeper.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.0
    }
}

fn punch(file: &File, offset: u64, len: u64) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(rustix::fs::fallocate(file.as_fd(), flags, offset, len)?)
}

impl Backing for MemBacking {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(bytes, offset)
    }

    fn reserve(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        punch(&self.0, offset, len)
    }

    fn end(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

impl Backing for DiskBacking {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(bytes, offset)
    }

    fn reserve(&self, offset: u64, len: u64) -> io::Result<()> {
        match rustix::fs::fallocate(self.0.as_fd(), FallocateFlags::empty(), offset, len) {
            // A file system that cannot reserve reports a full disk at write(2), as it always did.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(()),
            other => Ok(other?),
        }
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        punch(&self.0, offset, len)
    }

    fn end(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}
