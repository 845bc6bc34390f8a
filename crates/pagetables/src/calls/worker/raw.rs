//! System calls without the C library, for code that must not use thread-local storage.
//!
//! Invariant: nothing thread-local is touched. An error is returned as the negative error number,
//! as the kernel returns it.

/// Makes system call `number`.
///
/// # Safety
/// As for the system call: what the arguments point to must be valid for what it does.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn call(number: libc::c_long, arguments: [u64; 6]) -> i64 {
    let [a, b, c, d, e, f] = arguments;
    let result: i64;
    // SAFETY: the caller's. The kernel changes rcx, r11 and rax alone, and leaves the stack.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Makes system call `number`.
///
/// # Safety
/// As for the system call: what the arguments point to must be valid for what it does.
#[cfg(target_arch = "aarch64")]
pub(super) unsafe fn call(number: libc::c_long, arguments: [u64; 6]) -> i64 {
    let [a, b, c, d, e, f] = arguments;
    let result: i64;
    // SAFETY: the caller's. The kernel changes x0 alone, and leaves the stack.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack),
        );
    }
    result
}
