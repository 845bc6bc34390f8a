//! The system calls that a manager never makes.
//!
//! Invariant: each call of [`NEVER`] and [`OF_THIS_ARCHITECTURE`] fails with EPERM, and all others
//! work as before. A call that some rare path of the manager or of a library needs is not in these
//! lists, nor are calls that a manager makes only at its start or its end (bpf(2), mount(2),
//! umount2(2)).

use std::io;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// Forbidden system calls that every architecture has.
const NEVER: [libc::c_long; 56] = [
    // Memory, registers and descriptors of other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    // Starting another kernel, and modules of this one.
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    // Calls with which other calls could be made that a seccomp filter does not see.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Keys.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // Other root directories and namespaces, and the mount calls that need several steps.
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_quotactl,
    // Devices, owners and users.
    libc::SYS_mknodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
    // The host's clock, names, swap, accounts and messages.
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_settimeofday,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_personality,
];

/// Forbidden system calls that exist on this architecture only.
#[cfg(target_arch = "x86_64")]
const OF_THIS_ARCHITECTURE: [libc::c_long; 8] = [
    libc::SYS_kexec_file_load,
    libc::SYS_mknod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
];
#[cfg(not(target_arch = "x86_64"))]
const OF_THIS_ARCHITECTURE: [libc::c_long; 0] = [];

/// Forbids the calls of this module: for all threads of the process if `of_all_threads`, otherwise
/// for the calling thread and threads that it starts later.
pub(super) fn forbid(of_all_threads: bool) -> io::Result<()> {
    let program = program().map_err(io::Error::other)?;
    let done = match of_all_threads {
        true => seccompiler::apply_filter_all_threads(&program),
        false => seccompiler::apply_filter(&program),
    };
    done.map_err(io::Error::other)
}

fn program() -> Result<BpfProgram, seccompiler::BackendError> {
    let calls = NEVER.iter().chain(&OF_THIS_ARCHITECTURE);
    let rules = calls.map(|call| (*call, Vec::new())).collect();
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let arch = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, SeccompAction::Allow, refused, arch)?.try_into()
}
