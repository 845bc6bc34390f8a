//! Shared memory as atomics: the only way the manager ever looks at what a target can write.
//!
//! Invariant: every access is bounds-checked and atomic; no reference to plain bytes is handed out.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// A file mapped shared, read-write, never resized.
#[derive(Debug)]
pub struct SharedMap {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: all access goes through atomics.
unsafe impl Send for SharedMap {}
// SAFETY: as above.
unsafe impl Sync for SharedMap {}

impl SharedMap {
    /// Maps the first `len` bytes.
    ///
    /// # Errors
    /// EINVAL if the file is shorter (a later access would be a SIGBUS); those of mmap(2).
    pub fn new(file: &File, len: usize) -> io::Result<SharedMap> {
        if file.metadata()?.len() < len as u64 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "shared file is too short",
            ));
        }
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), len, prot, flags, file.as_raw_fd(), 0) };
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => Ok(SharedMap { base, len }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Mapped bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: an empty file cannot be mapped.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    fn at<T>(&self, byte: usize) -> &T {
        assert!(
            byte.is_multiple_of(align_of::<T>())
                && byte < self.len
                && size_of::<T>() <= self.len - byte,
            "access at {byte} outside shared memory of {} bytes",
            self.len
        );
        // SAFETY: inside the mapping and aligned (asserted); T is one of the atomics below; the
        // mapping lives as long as self. The file is sealed against shrinking by its maker or a
        // fault here ends the manager, not the target.
        unsafe { self.base.add(byte).cast::<T>().as_ref() }
    }

    /// The 64-bit word at byte `byte`.
    ///
    /// # Panics
    /// If it is not aligned or not inside.
    #[must_use]
    pub fn u64(&self, byte: usize) -> &AtomicU64 {
        self.at(byte)
    }

    /// The 32-bit word at byte `byte`.
    ///
    /// # Panics
    /// If it is not aligned or not inside.
    #[must_use]
    pub fn u32(&self, byte: usize) -> &AtomicU32 {
        self.at(byte)
    }

    /// The 16-bit word at byte `byte`.
    ///
    /// # Panics
    /// If it is not aligned or not inside.
    #[must_use]
    pub fn u16(&self, byte: usize) -> &AtomicU16 {
        self.at(byte)
    }

    /// Sleeps until the 32-bit word at `byte` is woken and no longer `old`, or the time is over.
    pub fn futex_wait(&self, byte: usize, old: u32, limit: Duration) {
        let word = self.u32(byte);
        if word.load(Ordering::Acquire) != old {
            return;
        }
        let t = libc::timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(limit.subsec_nanos()),
        };
        let addr = std::ptr::from_ref(word);
        // SAFETY: a live word and a live timespec.
        unsafe { libc::syscall(libc::SYS_futex, addr, libc::FUTEX_WAIT, old, &raw const t) };
    }
}

impl Drop for SharedMap {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; no reference outlives self.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}
