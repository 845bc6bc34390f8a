//! Kernel ABI of x86-64 Linux as far as the pager uses it: numbers and plain structures only.
//!
//! Source: the uapi headers `linux/userfaultfd.h`, `linux/fs.h` (PAGEMAP_SCAN, since 6.7); the
//! structures up to UFFDIO_MOVE (since 6.8).

/// System call numbers (x86-64).
#[expect(missing_docs, reason = "the kernel's names say all there is to say")]
pub mod nr {
    pub const READ: usize = 0;
    pub const WRITE: usize = 1;
    pub const CLOSE: usize = 3;
    pub const POLL: usize = 7;
    pub const LSEEK: usize = 8;
    pub const MMAP: usize = 9;
    pub const MPROTECT: usize = 10;
    pub const MUNMAP: usize = 11;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const IOCTL: usize = 16;
    pub const PREAD64: usize = 17;
    pub const SCHED_YIELD: usize = 24;
    pub const MADVISE: usize = 28;
    pub const NANOSLEEP: usize = 35;
    pub const GETPID: usize = 39;
    pub const SENDMSG: usize = 46;
    pub const RECVMSG: usize = 47;
    pub const SOCKETPAIR: usize = 53;
    pub const CLONE: usize = 56;
    pub const EXIT: usize = 60;
    pub const WAIT4: usize = 61;
    pub const KILL: usize = 62;
    pub const FCNTL: usize = 72;
    pub const FTRUNCATE: usize = 77;
    pub const PTRACE: usize = 101;
    pub const SETSID: usize = 112;
    pub const PRCTL: usize = 157;
    pub const FUTEX: usize = 202;
    pub const GETDENTS64: usize = 217;
    pub const CLOCK_GETTIME: usize = 228;
    pub const EXIT_GROUP: usize = 231;
    pub const OPENAT: usize = 257;
    pub const EVENTFD2: usize = 290;
    pub const DUP3: usize = 292;
    pub const KCMP: usize = 312;
    pub const MEMFD_CREATE: usize = 319;
    pub const USERFAULTFD: usize = 323;
    pub const MLOCK2: usize = 325;
    pub const PIDFD_OPEN: usize = 434;
    pub const CLOSE_RANGE: usize = 436;
    pub const PIDFD_GETFD: usize = 438;
}

/// Error numbers that the protocol of userfaultfd gives a meaning.
#[expect(missing_docs, reason = "the kernel's names say all there is to say")]
pub mod errno {
    pub const EPERM: i64 = 1;
    pub const ENOENT: i64 = 2;
    pub const ESRCH: i64 = 3;
    pub const EINTR: i64 = 4;
    pub const EAGAIN: i64 = 11;
    pub const ENOMEM: i64 = 12;
    pub const EFAULT: i64 = 14;
    pub const EBUSY: i64 = 16;
    pub const EEXIST: i64 = 17;
    pub const EINVAL: i64 = 22;
    pub const ENOSPC: i64 = 28;
}

const fn ioc(dir: u64, magic: u8, number: u8, size: usize) -> u64 {
    dir << 30 | (size as u64) << 16 | (magic as u64) << 8 | number as u64
}
const WRITE: u64 = 1;
const READ: u64 = 2;
const UFFD: u8 = 0xAA;

/// `UFFDIO_API`
pub const UFFDIO_API: u64 = ioc(READ | WRITE, UFFD, 0x3F, size_of::<UffdioApi>());
/// `UFFDIO_REGISTER`
pub const UFFDIO_REGISTER: u64 = ioc(READ | WRITE, UFFD, 0x00, size_of::<UffdioRegister>());
/// `UFFDIO_UNREGISTER`
pub const UFFDIO_UNREGISTER: u64 = ioc(READ, UFFD, 0x01, size_of::<Range>());
/// `UFFDIO_WAKE`
pub const UFFDIO_WAKE: u64 = ioc(READ, UFFD, 0x02, size_of::<Range>());
/// `UFFDIO_COPY`
pub const UFFDIO_COPY: u64 = ioc(READ | WRITE, UFFD, 0x03, size_of::<UffdioCopy>());
/// `UFFDIO_ZEROPAGE`
pub const UFFDIO_ZEROPAGE: u64 = ioc(READ | WRITE, UFFD, 0x04, size_of::<UffdioZeropage>());
/// `UFFDIO_MOVE`
pub const UFFDIO_MOVE: u64 = ioc(READ | WRITE, UFFD, 0x05, size_of::<UffdioCopy>());
/// `PAGEMAP_SCAN`
pub const PAGEMAP_SCAN: u64 = ioc(READ | WRITE, b'f', 16, size_of::<PmScanArg>());
/// `USERFAULTFD_IOC_NEW` of `/dev/userfaultfd`; its argument is the flag word.
pub const USERFAULTFD_IOC_NEW: u64 = ioc(0, UFFD, 0, 0);

/// The API version that `UFFDIO_API` takes.
pub const UFFD_API: u64 = 0xAA;
/// Deliver fork events; the child's userfaultfd comes with them. Needs `CAP_SYS_PTRACE`.
pub const UFFD_FEATURE_EVENT_FORK: u64 = 1 << 1;
/// Deliver mremap events.
pub const UFFD_FEATURE_EVENT_REMAP: u64 = 1 << 2;
/// Deliver `MADV_DONTNEED`/`FREE`/`REMOVE` events.
pub const UFFD_FEATURE_EVENT_REMOVE: u64 = 1 << 3;
/// Deliver munmap events.
pub const UFFD_FEATURE_EVENT_UNMAP: u64 = 1 << 6;
/// A missing page raises SIGBUS (or EFAULT in a system call) and is never queued.
pub const UFFD_FEATURE_SIGBUS: u64 = 1 << 7;
/// The thread id comes with a fault.
pub const UFFD_FEATURE_THREAD_ID: u64 = 1 << 8;
/// `UFFDIO_MOVE` is there (Linux 6.8).
pub const UFFD_FEATURE_MOVE: u64 = 1 << 16;
/// All features that the event userfaultfd asks for.
pub const UFFD_EVENT_FEATURES: u64 = UFFD_FEATURE_EVENT_FORK
    | UFFD_FEATURE_EVENT_REMAP
    | UFFD_FEATURE_EVENT_REMOVE
    | UFFD_FEATURE_EVENT_UNMAP;

/// Track missing pages.
pub const UFFDIO_REGISTER_MODE_MISSING: u64 = 1;
/// `UFFDIO_MOVE`: holes in the source are skipped instead of ENOENT.
pub const UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES: u64 = 1 << 1;

/// Event codes of [`UffdMsg`].
#[expect(missing_docs, reason = "the kernel's names say all there is to say")]
pub mod event {
    pub const PAGEFAULT: u8 = 0x12;
    pub const FORK: u8 = 0x13;
    pub const REMAP: u8 = 0x14;
    pub const REMOVE: u8 = 0x15;
    pub const UNMAP: u8 = 0x16;
}

/// `struct uffdio_range`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Range {
    /// First byte.
    pub start: u64,
    /// Bytes.
    pub len: u64,
}

/// `struct uffdio_api`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct UffdioApi {
    /// [`UFFD_API`].
    pub api: u64,
    /// In: wanted. Out: all that the kernel has.
    pub features: u64,
    /// Out: bit mask of ioctls.
    pub ioctls: u64,
}

/// `struct uffdio_register`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct UffdioRegister {
    /// Whole VMAs.
    pub range: Range,
    /// `UFFDIO_REGISTER_MODE_*`.
    pub mode: u64,
    /// Out: bit mask of ioctls.
    pub ioctls: u64,
}

/// `struct uffdio_copy`, and `struct uffdio_move`, which has the same shape.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct UffdioCopy {
    /// Destination.
    pub dst: u64,
    /// Source, in the caller's address space.
    pub src: u64,
    /// Bytes.
    pub len: u64,
    /// `UFFDIO_MOVE_MODE_*`.
    pub mode: u64,
    /// Out: bytes done, or a negative error number.
    pub done: i64,
}

/// `struct uffdio_zeropage`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct UffdioZeropage {
    /// What to fill.
    pub range: Range,
    /// 0.
    pub mode: u64,
    /// Out: bytes done, or a negative error number.
    pub done: i64,
}

/// `struct uffd_msg`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct UffdMsg {
    /// One of [`event`]; 0 where nothing was read.
    pub event: u8,
    /// Not the kernel's: how far the keeper got with it.
    pub phase: u8,
    /// Not the kernel's: when in its set it is applied, from 1 on.
    pub turn: u16,
    /// Not the kernel's: whose userfaultfd it came from.
    pub source: u32,
    /// Fault: flags. Fork: the new descriptor. Remap: from. Remove, unmap: start.
    pub arg0: u64,
    /// Fault: address. Remap: to. Remove, unmap: end.
    pub arg1: u64,
    /// Remap: length.
    pub arg2: u64,
}

/// Page categories of `PAGEMAP_SCAN`.
#[expect(missing_docs, reason = "the kernel's names say all there is to say")]
pub mod page_is {
    pub const FILE: u64 = 1 << 2;
    pub const PRESENT: u64 = 1 << 3;
    pub const SWAPPED: u64 = 1 << 4;
    pub const PFNZERO: u64 = 1 << 5;
    pub const HUGE: u64 = 1 << 6;
}

/// `struct page_region`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct PageRegion {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    /// `page_is` bits, as far as asked for.
    pub categories: u64,
}

/// `struct pm_scan_arg`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "the kernel's names say all there is to say")]
pub struct PmScanArg {
    pub size: u64,
    pub flags: u64,
    pub start: u64,
    pub end: u64,
    pub walk_end: u64,
    pub vec: u64,
    pub vec_len: u64,
    pub max_pages: u64,
    pub category_inverted: u64,
    pub category_mask: u64,
    pub category_anyof_mask: u64,
    pub return_mask: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_numbers_are_the_kernels() {
        assert_eq!(UFFDIO_API, 0xc018_aa3f);
        assert_eq!(UFFDIO_REGISTER, 0xc020_aa00);
        assert_eq!(UFFDIO_UNREGISTER, 0x8010_aa01);
        assert_eq!(UFFDIO_WAKE, 0x8010_aa02);
        assert_eq!(UFFDIO_COPY, 0xc028_aa03);
        assert_eq!(UFFDIO_ZEROPAGE, 0xc020_aa04);
        assert_eq!(UFFDIO_MOVE, 0xc028_aa05);
        assert_eq!(PAGEMAP_SCAN, 0xc060_6610);
        assert_eq!(USERFAULTFD_IOC_NEW, 0xaa00);
        assert_eq!(size_of::<UffdMsg>(), 32);
        assert_eq!(size_of::<PmScanArg>(), 96);
    }
}
