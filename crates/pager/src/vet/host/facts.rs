//! The host as found: read once, from /proc, /sys, rlimits and the probes.
//!
//! Invariant: gathering never fails and changes nothing; what cannot be read is `None` or the
//! error's text.

use std::fs::{self, OpenOptions};
use std::io;

use rustix::process::{Resource, getrlimit};

use super::super::process::Status;
use super::Probe;

/// What became of trying something: its result, or the error number and text.
pub type Tried<T> = Result<T, Errno>;

/// An error of the kernel's, comparable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Errno {
    /// Its number, if the kernel gave one.
    pub number: Option<i32>,
    /// Its text.
    pub text: String,
}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Errno {
        Errno {
            number: error.raw_os_error(),
            text: error.to_string(),
        }
    }
}

/// What opening `/dev/userfaultfd` gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Device {
    /// It opens.
    Opens,
    /// It is there and does not open.
    Denied,
    /// It is not there.
    Absent,
}

/// Everything that is judged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Facts {
    /// `/proc/sys/kernel/osrelease`.
    pub release: String,
    /// Effective user.
    pub uid: u32,
    /// CAP_SYS_PTRACE in the effective set.
    pub cap_sys_ptrace: bool,
    /// CAP_SYS_ADMIN in the effective set.
    pub cap_sys_admin: bool,
    /// CAP_IPC_LOCK in the effective set.
    pub cap_ipc_lock: bool,
    /// [`Probe::userfaultfd_features`].
    pub userfaultfd: Tried<u64>,
    /// [`Probe::event_fork`].
    pub event_fork: Tried<()>,
    /// [`Probe::move_page`].
    pub move_page: Tried<()>,
    /// [`Probe::pagemap_scan`].
    pub pagemap_scan: Tried<()>,
    /// [`Probe::kcmp`].
    pub kcmp: Tried<()>,
    /// Making a memfd.
    pub memfd: Tried<()>,
    /// `vm.unprivileged_userfaultfd`.
    pub unprivileged_userfaultfd: Option<u64>,
    /// `/dev/userfaultfd`.
    pub device: Device,
    /// `kernel.yama.ptrace_scope`; none without Yama.
    pub yama: Option<u64>,
    /// Soft RLIMIT_MEMLOCK in bytes; none is unlimited.
    pub memlock: Option<u64>,
    /// Hard RLIMIT_NOFILE (we raise the soft one ourselves); none is unlimited.
    pub nofile: Option<u64>,
    /// `vm.overcommit_memory`.
    pub overcommit: Option<u64>,
    /// The chosen word of `transparent_hugepage/enabled`.
    pub thp: Option<String>,
    /// Swap areas in use.
    pub swaps: usize,
}

impl Facts {
    /// Looks at the host.
    #[must_use]
    pub fn gather(probe: &dyn Probe) -> Facts {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let status = Status::parse(&status);
        let memfd = rustix::fs::memfd_create("doctor", rustix::fs::MemfdFlags::CLOEXEC);
        Facts {
            release: text("/proc/sys/kernel/osrelease").unwrap_or_default(),
            uid: rustix::process::geteuid().as_raw(),
            cap_sys_ptrace: status.has_capability(19),
            cap_sys_admin: status.has_capability(21),
            cap_ipc_lock: status.has_capability(14),
            userfaultfd: probe.userfaultfd_features().map_err(Errno::from),
            event_fork: probe.event_fork().map_err(Errno::from),
            move_page: probe.move_page().map_err(Errno::from),
            pagemap_scan: probe.pagemap_scan().map_err(Errno::from),
            kcmp: probe.kcmp().map_err(Errno::from),
            memfd: memfd
                .map(drop)
                .map_err(|errno| io::Error::from(errno).into()),
            unprivileged_userfaultfd: number("/proc/sys/vm/unprivileged_userfaultfd"),
            device: device(),
            yama: number("/proc/sys/kernel/yama/ptrace_scope"),
            memlock: getrlimit(Resource::Memlock).current,
            nofile: getrlimit(Resource::Nofile).maximum,
            overcommit: number("/proc/sys/vm/overcommit_memory"),
            thp: text("/sys/kernel/mm/transparent_hugepage/enabled").and_then(|s| chosen(&s)),
            swaps: text("/proc/swaps").map_or(0, |s| s.lines().count().saturating_sub(1)),
        }
    }

    /// Major and minor version of the kernel.
    #[must_use]
    pub fn version(&self) -> Option<(u32, u32)> {
        let mut parts = self.release.split(|c: char| !c.is_ascii_digit());
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }
}

fn text(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

fn number(path: &str) -> Option<u64> {
    text(path)?.parse().ok()
}

fn device() -> Device {
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/userfaultfd");
    match opened {
        Ok(_) => Device::Opens,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Device::Absent,
        Err(_) => Device::Denied,
    }
}

/// `always [madvise] never` -> `madvise`.
pub(super) fn chosen(words: &str) -> Option<String> {
    let (_, rest) = words.split_once('[')?;
    let (word, _) = rest.split_once(']')?;
    Some(word.to_owned())
}
