//! What compilers and zstd expect of a C library, for a program that has none.
//!
//! Invariant: no loop here that the optimiser could turn into a call of the very function it is
//! in; long ranges go through the string instructions. The arena is handed out once, at start:
//! nothing is ever given back, and when it is used up `malloc` says so.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of the arena: one zstd decompression context (95,968 bytes in zstd 1.5.7) and slack;
/// `tests/freestanding.rs` asserts that it suffices.
pub(crate) const ARENA_BYTES: usize = 128 * 1024;

const ALIGN: usize = 16;

#[repr(align(4096))]
struct Arena(UnsafeCell<[u8; ARENA_BYTES]>);

// SAFETY: ranges are handed out once each (`USED` only grows), so no two callers share bytes.
unsafe impl Sync for Arena {}

static ARENA: Arena = Arena(UnsafeCell::new([0; ARENA_BYTES]));
static USED: AtomicUsize = AtomicUsize::new(0);

/// Hands out `size` zeroed bytes of the arena, aligned to 16; null when they are used up.
pub(crate) fn allocate(size: usize) -> *mut u8 {
    let reserve = |used: usize| {
        let end = used.checked_add(size.checked_next_multiple_of(ALIGN)?)?;
        (end <= ARENA_BYTES).then_some(end)
    };
    match USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, reserve) {
        Ok(start) => ARENA.0.get().cast::<u8>().wrapping_add(start),
        Err(_) => core::ptr::null_mut(),
    }
}

/// Copies `len` bytes; the ranges may overlap.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes.
pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: each arm touches only `len` bytes of either range, by its guard; all loads of an
    // arm come before its stores, so overlap does no harm.
    unsafe {
        match len {
            0 => {}
            1..=3 => {
                let (a, b, c) = (*from, *from.add(len / 2), *from.add(len - 1));
                *to = a;
                *to.add(len / 2) = b;
                *to.add(len - 1) = c;
            }
            4..=7 => ends::<[u8; 4]>(to, from, len),
            8..=16 => ends::<[u8; 8]>(to, from, len),
            17..=32 => ends::<[u8; 16]>(to, from, len),
            33..=64 => ends::<[u8; 32]>(to, from, len),
            65..=128 => ends::<[u8; 64]>(to, from, len),
            _ => copy_long(to, from, len),
        }
    }
}

/// Copies `size_of::<T>() <= len <= 2 * size_of::<T>()` bytes as two overlapping values.
///
/// # Safety
/// As [`copy`], and `len` is in that range.
#[inline(always)]
unsafe fn ends<T: Copy>(to: *mut u8, from: *const u8, len: usize) {
    let last = len - size_of::<T>();
    // SAFETY: both values lie within `len` bytes by the caller's promise; unaligned is allowed.
    unsafe {
        let head = from.cast::<T>().read_unaligned();
        let tail = from.add(last).cast::<T>().read_unaligned();
        to.cast::<T>().write_unaligned(head);
        to.add(last).cast::<T>().write_unaligned(tail);
    }
}

/// # Safety
/// As [`copy`], and `len > 0`.
unsafe fn copy_long(to: *mut u8, from: *const u8, len: usize) {
    if to.addr().wrapping_sub(from.addr()) >= len {
        // SAFETY: a forward copy does not overwrite what it has still to read: `to` lies before
        // `from` or past its end.
        unsafe {
            asm!("rep movsb", inout("rcx") len => _, inout("rdi") to => _, inout("rsi") from => _,
                options(nostack, preserves_flags));
        }
    } else {
        // SAFETY: backwards, for `to` inside the source; the direction flag is clear again after.
        unsafe {
            asm!("std", "rep movsb", "cld", inout("rcx") len => _,
                inout("rdi") to.add(len - 1) => _, inout("rsi") from.add(len - 1) => _,
                options(nostack));
        }
    }
}

/// Sets `len` bytes.
///
/// # Safety
/// `to` is writable for `len` bytes.
pub(crate) unsafe fn set(to: *mut u8, byte: u8, len: usize) {
    // SAFETY: the instruction writes exactly `len` bytes from `to`.
    unsafe {
        asm!("rep stosb", inout("rcx") len => _, inout("rdi") to => _, in("al") byte,
            options(nostack, preserves_flags));
    }
}

/// Compares as `memcmp`.
///
/// # Safety
/// Both ranges are readable for `len` bytes.
pub(crate) unsafe fn compare(a: *const u8, b: *const u8, len: usize) -> i32 {
    for i in 0..len {
        // SAFETY: `i < len`.
        let (x, y) = unsafe { (*a.add(i), *b.add(i)) };
        if x != y {
            return i32::from(x) - i32::from(y);
        }
    }
    0
}

/// The names under which the linker looks for them; not in tests, which have a C library.
#[cfg(not(test))]
mod exports {
    #[unsafe(no_mangle)]
    unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
        // SAFETY: C's contract of memcpy is stricter than that of `copy`.
        unsafe { super::copy(to, from, len) };
        to
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
        // SAFETY: the same contract.
        unsafe { super::copy(to, from, len) };
        to
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memset(to: *mut u8, byte: i32, len: usize) -> *mut u8 {
        // SAFETY: the same contract; C converts the value to an unsigned char.
        unsafe { super::set(to, byte.to_le_bytes()[0], len) };
        to
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, len: usize) -> i32 {
        // SAFETY: the same contract.
        unsafe { super::compare(a, b, len) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, len: usize) -> i32 {
        // SAFETY: the same contract.
        unsafe { super::compare(a, b, len) }
    }

    #[unsafe(no_mangle)]
    extern "C" fn malloc(size: usize) -> *mut u8 {
        super::allocate(size)
    }

    #[unsafe(no_mangle)]
    extern "C" fn calloc(count: usize, size: usize) -> *mut u8 {
        // Fresh arena bytes are zero.
        count
            .checked_mul(size)
            .map_or(core::ptr::null_mut(), super::allocate)
    }

    #[unsafe(no_mangle)]
    extern "C" fn free(_bytes: *mut u8) {}
}
