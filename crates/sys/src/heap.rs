//! When the C library's heap returns memory to the kernel.

/// Smallest allocation, in bytes, for which the C library makes a separate mapping.
const LARGE: libc::c_int = 256 << 10;

/// Makes the C library return large blocks to the kernel when they are freed. Does nothing unless
/// the C library is glibc. By default, once a block of up to 32 MiB was freed, glibc puts later
/// blocks up to that size into the heap. There they stay resident while any block behind them is in
/// use.
///
/// Source: mallopt(3), M_MMAP_THRESHOLD: setting it ends its automatic adjustment.
pub fn give_large_blocks_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: two numbers are handed over, and the call may come at any time; what is allocated
    // stays valid.
    let _ = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
    #[cfg(not(target_env = "gnu"))]
    let _ = LARGE;
}
