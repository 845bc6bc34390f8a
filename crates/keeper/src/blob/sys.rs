//! Raw system calls. Results are the kernel's: a value, or a negative error number.

use core::arch::{asm, naked_asm};
use uffd::abi::{self, nr};

/// A system call with up to six arguments.
///
/// # Safety
/// The call with these arguments must be sound: pointers among them valid for what it does.
#[inline(always)]
pub(super) unsafe fn call(n: usize, a: [u64; 6]) -> i64 {
    let ret: i64;
    // SAFETY: the x86-64 calling convention of the kernel: rcx and r11 are clobbered; the rest of
    // the contract is the caller's.
    unsafe {
        asm!("syscall", inlateout("rax") n as u64 => ret, in("rdi") a[0], in("rsi") a[1],
             in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
             lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    ret
}

macro_rules! sys {
    ($n:expr) => {
        sys!($n, 0, 0, 0, 0, 0, 0)
    };
    ($n:expr, $a:expr) => {
        sys!($n, $a, 0, 0, 0, 0, 0)
    };
    ($n:expr, $a:expr, $b:expr) => {
        sys!($n, $a, $b, 0, 0, 0, 0)
    };
    ($n:expr, $a:expr, $b:expr, $c:expr) => {
        sys!($n, $a, $b, $c, 0, 0, 0)
    };
    ($n:expr, $a:expr, $b:expr, $c:expr, $d:expr) => {
        sys!($n, $a, $b, $c, $d, 0, 0)
    };
    ($n:expr, $a:expr, $b:expr, $c:expr, $d:expr, $e:expr, $f:expr) => {
        $crate::blob::sys::call(
            $n,
            [
                $a as u64, $b as u64, $c as u64, $d as u64, $e as u64, $f as u64,
            ],
        )
    };
}
pub(super) use sys;

pub(super) fn ioctl<T>(fd: i32, request: u64, arg: &mut T) -> i64 {
    // SAFETY: every caller pairs the request with its structure; addresses inside the structure
    // are the kernel's to check (bad ones give EFAULT).
    unsafe { sys!(nr::IOCTL, fd, request, core::ptr::from_mut(arg)) }
}

pub(super) fn read(fd: i32, buf: *mut u8, len: usize) -> i64 {
    // SAFETY: callers pass a buffer of `len` bytes in the keeper's own memory.
    unsafe { sys!(nr::READ, fd, buf, len) }
}

pub(super) fn pread(fd: i32, buf: &mut [u8], offset: u64) -> i64 {
    // SAFETY: the buffer is valid for its length.
    unsafe { sys!(nr::PREAD64, fd, buf.as_mut_ptr(), buf.len(), offset) }
}

/// Writes from any address of this address space; EFAULT where nothing is mapped.
pub(super) fn pwrite_from(fd: i32, addr: u64, len: u64, offset: u64) -> i64 {
    // SAFETY: only reads the source, through the kernel, which checks it.
    unsafe { sys!(18, fd, addr, len, offset) }
}

pub(super) fn close(fd: i32) {
    // SAFETY: closes one of the keeper's own descriptors.
    unsafe { sys!(nr::CLOSE, fd) };
}

pub(super) fn dup_to(old: i32, new: i32) -> i64 {
    if old == new {
        return i64::from(new);
    }
    // SAFETY: plain descriptor arithmetic in the keeper's own table.
    let r = unsafe { sys!(nr::DUP3, old, new, 0o2_000_000) };
    close(old);
    r
}

pub(super) const PROT_RW: u64 = 3;
pub(super) const MAP_SHARED_NORESERVE: u64 = 0x01 | 0x4000;
pub(super) const MAP_ANON_NORESERVE: u64 = 0x02 | 0x20 | 0x4000;

/// Maps at `hint`, or wherever there is room.
pub(super) fn mmap(hint: u64, len: u64, flags: u64, fd: i32) -> i64 {
    // SAFETY: a new mapping where nothing is disturbs nothing.
    unsafe { sys!(nr::MMAP, hint, len, PROT_RW, flags, i64::from(fd), 0) }
}

/// Makes memory of ours unreadable.
pub(super) fn forbid(addr: u64, len: u64) -> i64 {
    // SAFETY: callers forbid only what the keeper mapped and never reads.
    unsafe { sys!(nr::MPROTECT, addr, len, 0) }
}

pub(super) fn munmap(addr: u64, len: u64) {
    // SAFETY: callers unmap only what the keeper mapped, or a dead target's memory.
    unsafe { sys!(nr::MUNMAP, addr, len) };
}

pub(super) const CLONE_VM: u64 = 0x100;
pub(super) const CLONE_UNTRACED: u64 = 0x80_0000;
pub(super) const SIGKILL: u64 = 9;

pub(super) const MADV_DONTNEED: u64 = 4;
pub(super) const MADV_DONTFORK: u64 = 10;
pub(super) const MADV_DONTDUMP: u64 = 16;

pub(super) fn madvise(addr: u64, len: u64, advice: u64) -> i64 {
    // SAFETY: only ever called on the keeper's own mappings (limbo, tables).
    unsafe { sys!(nr::MADVISE, addr, len, advice) }
}

pub(super) fn memfd(name: &[u8]) -> i64 {
    debug_assert!(name.last() == Some(&0));
    // SAFETY: the name is a terminated string.
    unsafe { sys!(nr::MEMFD_CREATE, name.as_ptr(), 1 | 8) }
}

/// Bytes of a file; 0 if it does not say.
pub(super) fn length(fd: i32) -> u64 {
    const SEEK_END: u64 = 2;
    // SAFETY: no pointers. Nobody reads or writes at the file's position.
    let r = unsafe { sys!(nr::LSEEK, fd, 0, SEEK_END) };
    r.max(0) as u64
}

pub(super) fn ftruncate(fd: i32, len: u64) -> i64 {
    // SAFETY: a descriptor of the keeper's.
    unsafe { sys!(nr::FTRUNCATE, fd, len) }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct PollFd {
    pub(super) fd: i32,
    pub(super) events: i16,
    pub(super) revents: i16,
}

pub(super) fn poll(fds: &mut [PollFd], timeout_ms: i64) -> i64 {
    // SAFETY: the slice is valid for its length.
    unsafe { sys!(nr::POLL, fds.as_mut_ptr(), fds.len(), timeout_ms) }
}

pub(super) fn pidfd_open(pid: u64) -> i64 {
    // SAFETY: no pointers.
    unsafe { sys!(nr::PIDFD_OPEN, pid, 0) }
}

pub(super) fn getpid() -> u64 {
    // SAFETY: no pointers.
    (unsafe { sys!(nr::GETPID) }) as u64
}

/// Opens a file for reading; the path ends with a zero.
pub(super) fn open(path: &[u8]) -> i64 {
    const O_CLOEXEC: u64 = 0o2_000_000;
    const AT_FDCWD: i64 = -100;
    debug_assert!(path.last() == Some(&0));
    // SAFETY: the path is a terminated string.
    unsafe { sys!(nr::OPENAT, AT_FDCWD, path.as_ptr(), O_CLOEXEC) }
}

/// Directory records; 0 at the end.
pub(super) fn getdents(fd: i32, records: &mut [u8]) -> i64 {
    // SAFETY: the buffer is valid for its length.
    unsafe { sys!(nr::GETDENTS64, fd, records.as_mut_ptr(), records.len()) }
}

pub(super) fn kill(pid: u64, signal: u64) {
    // SAFETY: no pointers; only ever aimed at the other keeper and at our own helper.
    unsafe { sys!(nr::KILL, pid, signal) };
}

/// Whether two processes share one address space; `None` when the kernel does not tell.
pub(super) fn same_memory(pid1: u64, pid2: u64) -> Option<bool> {
    const KCMP_VM: u64 = 1;
    // SAFETY: no pointers.
    match unsafe { sys!(nr::KCMP, pid1, pid2, KCMP_VM, 0, 0, 0) } {
        0 => Some(true),
        r if r > 0 => Some(false),
        r if r == -abi::errno::ESRCH => Some(false),
        _ => None,
    }
}

pub(super) fn futex_wake(addr: *const u32) {
    // SAFETY: FUTEX_WAKE only compares addresses.
    unsafe { sys!(nr::FUTEX, addr, 1, i32::MAX) };
}

pub(super) fn now_ns() -> u64 {
    let mut t = [0u64; 2];
    // SAFETY: a timespec is two words.
    unsafe { sys!(nr::CLOCK_GETTIME, 1, t.as_mut_ptr()) };
    t[0].wrapping_mul(1_000_000_000).wrapping_add(t[1])
}

pub(super) fn sleep_us(us: u64) {
    let t = [us / 1_000_000, us % 1_000_000 * 1000];
    // SAFETY: a timespec is two words.
    unsafe { sys!(nr::NANOSLEEP, t.as_ptr(), 0) };
}

pub(super) fn yield_now() {
    // SAFETY: no pointers.
    unsafe { sys!(nr::SCHED_YIELD) };
}

pub(super) fn exit() -> ! {
    loop {
        // SAFETY: ends this process.
        unsafe { sys!(nr::EXIT_GROUP, 0) };
    }
}

/// Clones a process that shares this memory and runs `f(arg)` on the stack below `stack_top`.
///
/// # Safety
/// The stack must be unused, 16-byte aligned at its top, and stay mapped; `f` must not return.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn clone_onto(
    flags: u64,
    stack_top: u64,
    f: extern "C" fn(u64) -> !,
    arg: u64,
) -> i64 {
    // Without CLONE_SETTLS and the tid flags the kernel ignores rdx, r10, r8 and r9 and keeps them.
    naked_asm!(
        "mov r9, rdx",
        "mov r8, rcx",
        "mov eax, 56",
        "syscall",
        "test rax, rax",
        "jz 2f",
        "ret",
        "2:",
        "xor ebp, ebp",
        "mov rdi, r8",
        "call r9",
        "ud2",
    )
}
