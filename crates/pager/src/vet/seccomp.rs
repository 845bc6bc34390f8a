//! Would the keeper survive the target's seccomp filters? They are inherited by clone and cannot be
//! taken off, so it has to be known before anything is injected.
//!
//! Invariant: the answer is "allowed" only if every filter, run over every call of the list, says
//! so. A pointer argument is unknown beforehand and given as 0; a filter cannot look behind it.

use std::io;

use super::bpf::{ARCH_X86_64, Action, BpfError, BpfInsn, SeccompData, evaluate};

/// Reads the filters of a process, the newest first (PTRACE_SECCOMP_GET_FILTER; needs
/// CAP_SYS_ADMIN and a kernel with CONFIG_CHECKPOINT_RESTORE). `uffd` implements it.
pub trait SeccompSource {
    /// The filters of the main thread of `pid`.
    ///
    /// # Errors
    /// The kernel's.
    fn filters(&self, pid: u32) -> io::Result<Vec<Vec<BpfInsn>>>;
}

/// A system call with the arguments that a filter may look at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// Its name.
    pub name: &'static str,
    /// Its number on x86_64 (arch/x86/entry/syscalls/syscall_64.tbl).
    pub nr: u32,
    /// Its arguments; 0 where they are pointers or unknown.
    pub args: [u64; 6],
}

const fn call(name: &'static str, nr: u32) -> Call {
    call_with(name, nr, [0; 6])
}

const fn call_with(name: &'static str, nr: u32, args: [u64; 6]) -> Call {
    Call { name, nr, args }
}

/// `ioctl(fd, request, ...)`.
const fn ioctl(name: &'static str, request: u64) -> Call {
    call_with(name, 16, [0, request, 0, 0, 0, 0])
}

const PROT_RW: u64 = 3;
const PROT_RX: u64 = 5;
const MAP_PRIVATE_ANON: u64 = 0x22;
const MAP_SHARED: u64 = 1;
/// CLONE_VM, and nothing of its own: no namespaces, no thread, exit signal 0.
const CLONE_VM: u64 = 0x100;

/// Every call that injection and the keeper make in the target's name.
pub const KEEPER_CALLS: &[Call] = &[
    call("read", 0),
    call("write", 1),
    call("close", 3),
    call("poll", 7),
    call_with("mmap", 9, [0, 4096, PROT_RW, MAP_PRIVATE_ANON, u64::MAX, 0]),
    call_with("mmap (shared)", 9, [0, 4096, PROT_RW, MAP_SHARED, 3, 0]),
    call_with("mmap (code)", 9, [0, 4096, PROT_RX, 2, 3, 0]),
    call("munmap", 11),
    call("rt_sigprocmask", 14),
    ioctl("ioctl (UFFDIO_API)", 0xc018_aa3f),
    ioctl("ioctl (UFFDIO_REGISTER)", 0xc020_aa00),
    ioctl("ioctl (UFFDIO_UNREGISTER)", 0x8010_aa01),
    ioctl("ioctl (UFFDIO_WAKE)", 0x8010_aa02),
    ioctl("ioctl (UFFDIO_COPY)", 0xc028_aa03),
    ioctl("ioctl (UFFDIO_ZEROPAGE)", 0xc020_aa04),
    ioctl("ioctl (UFFDIO_MOVE)", 0xc028_aa05),
    ioctl("ioctl (USERFAULTFD_IOC_NEW)", 0xaa00),
    call("pread64", 17),
    call("sched_yield", 24),
    call("mincore", 27),
    call_with("madvise", 28, [0, 4096, 4, 0, 0, 0]),
    call("dup2", 33),
    call("nanosleep", 35),
    call("getpid", 39),
    call_with("clone", 56, [CLONE_VM, 0, 0, 0, 0, 0]),
    call("exit", 60),
    call("wait4", 61),
    call("kill", 62),
    call("fcntl", 72),
    call("ftruncate", 77),
    call("ptrace", 101),
    call("getppid", 110),
    call("setsid", 112),
    call("prctl", 157),
    call("gettid", 186),
    call("futex", 202),
    call("getdents64", 217),
    call("clock_gettime", 228),
    call("exit_group", 231),
    call("openat", 257),
    call("ppoll", 271),
    call("eventfd2", 290),
    call("dup3", 292),
    call("kcmp", 312),
    call("memfd_create", 319),
    call("userfaultfd", 323),
    call("mlock2", 325),
    call("pidfd_open", 434),
    call("close_range", 436),
    call("pidfd_getfd", 438),
];

/// The calls of `calls` that some filter does not simply allow, with the verdict.
///
/// # Errors
/// A filter that makes no sense has no verdict.
pub fn denied_calls(
    filters: &[Vec<BpfInsn>],
    calls: &[Call],
) -> Result<Vec<(&'static str, Action)>, BpfError> {
    let mut denied = Vec::new();
    for call in calls {
        let data = SeccompData {
            nr: call.nr,
            arch: ARCH_X86_64,
            instruction_pointer: 0,
            args: call.args,
        };
        let mut verdict = Action::Allow;
        for filter in filters {
            verdict = verdict.stricter(evaluate(filter, &data)?);
        }
        if !verdict.allows() {
            denied.push((call.name, verdict));
        }
    }
    Ok(denied)
}

#[cfg(test)]
mod tests;
