//! How the C library's heap gives memory back.

/// Blocks of so many bytes and more are mappings of their own.
const LARGE: libc::c_int = 256 << 10;

/// Large blocks are given back when they are freed. Without this glibc keeps blocks of up to 32 MiB once one
/// of that size was freed, and what stands behind them in the heap keeps them resident. Where the C library
/// is another one this does nothing.
///
/// Source: mallopt(3), M_MMAP_THRESHOLD: that it is set ends its adjustment.
pub fn give_large_blocks_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: two numbers are handed over, and the call may come at any time; what is allocated stays valid.
    let _ = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
    #[cfg(not(target_env = "gnu"))]
    let _ = LARGE;
}
