//! Why page tables cannot be read here, and what would help.
//!
//! Invariant: the message names what failed and the kernel's answer; the hint names an option, a
//! capability or a setting (errno table: probes).

use std::io;

/// Page tables cannot be read on this host, or by this user.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// `/sys/kernel/btf/vmlinux` is missing, cannot be read, or is something else.
    #[error("cannot read the kernel's type information (/sys/kernel/btf/vmlinux): {0}")]
    Btf(io::Error),
    /// A structure has no such member.
    #[error("cannot find {0} in the kernel's type information")]
    Member(&'static str),
    /// The map was refused.
    #[error("cannot make a BPF map: {0}")]
    Map(io::Error),
    /// The program was refused.
    #[error("cannot load the BPF program: {error}{}{log}", if .log.is_empty() { "" } else { "; the verifier says: " })]
    Program {
        /// The kernel's answer.
        error: io::Error,
        /// The verifier's words, if it spoke.
        log: String,
    },
    /// Our own page tables may not be read.
    #[error("cannot read our own page tables: {0}")]
    Own(io::Error),
    /// Our own page tables could not be found.
    #[error("cannot find where the kernel maps physical memory: {0}")]
    DirectMap(&'static str),
    /// Not an x86-64 kernel of 64 bits.
    #[error("page tables of this processor are not known: only x86-64 is")]
    Processor,
}

impl Unavailable {
    pub(crate) fn map(error: io::Error) -> Unavailable {
        Unavailable::Map(error)
    }

    pub(crate) fn program(error: io::Error, log: &str) -> Unavailable {
        // Its last line is statistics.
        let mut lines = log.lines().filter(|line| !line.starts_with("processed "));
        let log = lines.next_back().unwrap_or_default().to_owned();
        Unavailable::Program { error, log }
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Unavailable::Btf(_) => {
                "use a kernel built with CONFIG_DEBUG_INFO_BTF (Debian, Ubuntu, Fedora: all of today's), with /sys mounted"
            }
            Unavailable::Member(_) => {
                "this kernel is laid out in a way that is not known; please report its version"
            }
            Unavailable::Map(error) if error.raw_os_error() == Some(libc::EPERM) => {
                "run as root outside of user namespaces, or with CAP_BPF and CAP_PERFMON (and CAP_SYS_PTRACE for others' processes)"
            }
            Unavailable::Map(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
                "use a kernel built with CONFIG_BPF_SYSCALL"
            }
            Unavailable::Map(_) => {
                "use Linux 5.14 or newer, and a memory limit with 3 MiB to spare"
            }
            Unavailable::Program { .. } => {
                "give CAP_PERFMON beside CAP_BPF, and boot without lockdown=confidentiality (integrity is fine); Linux 5.14 or newer"
            }
            Unavailable::Own(_) => {
                "a program with file capabilities needs cap_dac_read_search among them; /proc must be mounted"
            }
            Unavailable::DirectMap(_) => {
                "this kernel maps physical memory in a way that is not known; please report its version"
            }
            Unavailable::Processor => "run on x86-64",
        }
    }
}
