//! Why page tables cannot be read on this host, and what would help.
//!
//! Invariant: the message names what failed and the kernel's error; the hint names an option, a
//! capability or a setting that helps.

use std::io;

/// The reason why page tables cannot be read on this host or by this user.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// `/sys/kernel/btf/vmlinux` is missing, cannot be read, or has another format.
    #[error("cannot read the kernel's type information (/sys/kernel/btf/vmlinux): {0}")]
    Btf(#[source] io::Error),
    /// A structure of this kernel has no member of this name.
    #[error("cannot find {0} in the kernel's type information")]
    Member(&'static str),
    /// The kernel refused to create the BPF map.
    #[error("cannot make a BPF map: {0}")]
    Map(#[source] io::Error),
    /// The kernel refused to load the BPF program.
    #[error("cannot load the BPF program: {error}{}{log}", if .log.is_empty() { "" } else { "; the verifier says: " })]
    Program {
        /// The kernel's error.
        #[source]
        error: io::Error,
        /// The verifier's last message; empty if there is none.
        log: String,
    },
    /// This process may not read its own page tables.
    #[error("cannot read pagetide's own page tables: {0}")]
    Own(#[source] io::Error),
    /// The kernel's direct map of physical memory was not found.
    #[error("cannot find where the kernel maps physical memory: {0}")]
    DirectMap(&'static str),
    /// The kernel is not one for x86-64 with 64-bit pointers.
    #[error("the page tables of this processor are not supported: only x86-64 is")]
    Processor,
}

impl Unavailable {
    /// The error when the BPF map cannot be created.
    pub(crate) fn map(error: io::Error) -> Unavailable {
        Unavailable::Map(error)
    }

    /// The error when the BPF program cannot be loaded. `log` is all that the verifier wrote.
    pub(crate) fn program(error: io::Error, log: &str) -> Unavailable {
        // The verifier's log ends with a line of statistics.
        let mut lines = log.lines().filter(|line| !line.starts_with("processed "));
        let log = lines.next_back().unwrap_or_default().to_owned();
        Unavailable::Program { error, log }
    }

    /// Returns what the user can do so that page tables can be read.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Unavailable::Btf(_) => {
                "use a kernel built with CONFIG_DEBUG_INFO_BTF (all current ones of Debian, Ubuntu and Fedora), with /sys mounted"
            }
            Unavailable::Member(_) => {
                "this kernel's structures have an unknown layout; please report its version"
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
                "give CAP_PERFMON in addition to CAP_BPF, and boot without lockdown=confidentiality (integrity is fine); Linux 5.14 or newer"
            }
            Unavailable::Own(_) => {
                "a program with file capabilities needs cap_dac_read_search among them; /proc must be mounted"
            }
            Unavailable::DirectMap(_) => {
                "this kernel maps physical memory in an unknown way; please report its version"
            }
            Unavailable::Processor => "run on x86-64",
        }
    }
}
