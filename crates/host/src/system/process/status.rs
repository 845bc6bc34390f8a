//! `/proc/PID/status` (proc_pid_status(5)).
//!
//! Invariant: sizes are bytes, and 0 if the kernel reports none (kernel threads, zombies). The
//! kernel's sums are not exact: Rss and its parts may be off by some pages per CPU.

use crate::system::error::Error;
use crate::system::proc::Proc;
use crate::system::text::{key, kib, lines, number32, printable, words};

/// The fields of `status` that pagetide uses.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Status {
    /// Pid of the process to which this thread belongs.
    pub tgid: u32,
    /// Real user.
    pub uid: u32,
    /// Effective user.
    pub euid: u32,
    /// Resident memory: `rss_anon + rss_file + rss_shmem`.
    pub rss: u64,
    /// Resident anonymous memory.
    pub rss_anon: u64,
    /// Resident pages of files.
    pub rss_file: u64,
    /// Resident shared memory.
    pub rss_shmem: u64,
    /// Swapped-out private memory; shared memory is not included.
    pub swap: u64,
    /// The peak of resident memory (`VmHWM`); an exec resets it.
    pub peak_rss: u64,
    /// Memory that a driver has pinned, so that it cannot be paged out: buffers of io_uring, of
    /// RDMA.
    pub pinned: u64,
    /// Memory in pages of the hugetlb pool.
    pub hugetlb: u64,
    /// The pid in each pid namespace, from ours down to the process's own; a single number if the
    /// process is in ours.
    pub ns_pids: Vec<u32>,
}

/// Parses a status text. The kernel escapes names, so a name cannot imitate a field.
#[must_use]
pub fn parse_status(text: &[u8]) -> Option<Status> {
    let mut status = Status::default();
    let mut found = false;
    for (key, value) in lines(text).filter_map(key) {
        let size = || kib(value).unwrap_or(0);
        match key {
            b"Tgid" => {
                status.tgid = number32(value)?;
                found = true;
            }
            b"Uid" => {
                let mut ids = words(value);
                status.uid = number32(ids.next()?)?;
                status.euid = number32(ids.next()?)?;
            }
            b"VmRSS" => status.rss = size(),
            b"RssAnon" => status.rss_anon = size(),
            b"RssFile" => status.rss_file = size(),
            b"RssShmem" => status.rss_shmem = size(),
            b"VmSwap" => status.swap = size(),
            b"VmPin" => status.pinned = size(),
            b"VmHWM" => status.peak_rss = size(),
            b"HugetlbPages" => status.hugetlb = size(),
            b"NSpid" => status.ns_pids = words(value).filter_map(number32).collect(),
            _ => {}
        }
    }
    found.then_some(status)
}

impl Proc {
    /// Reads the users and sizes of a process; `None` if the process is gone. Costs about twice as
    /// much as [`Proc::stat`].
    ///
    /// # Errors
    /// `/proc` hides the process, or the format is unknown.
    pub fn status(&self, pid: u32) -> Result<Option<Status>, Error> {
        self.parsed(pid, "status", parse_status)
    }

    /// Reads the file `name` of a process and parses it; the file must be so short that one read(2)
    /// returns all of it. `None` if the process has ended.
    pub(crate) fn parsed<T>(
        &self,
        pid: u32,
        name: &str,
        parse: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let mut text = Vec::with_capacity(4096);
        if !self.read_up_to(pid, name, 1, &mut text)? {
            return Ok(None);
        }
        match parse(&text) {
            Some(parsed) => Ok(Some(parsed)),
            // The file may be empty if the process ends during the read.
            None if text.is_empty() => Ok(None),
            None => Err(Error::Unknown {
                path: self.path(pid, name),
                what: printable(&text),
            }),
        }
    }
}
