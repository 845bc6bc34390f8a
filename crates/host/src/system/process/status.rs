//! `/proc/PID/status` (proc_pid_status(5)).
//!
//! Invariant: sizes are bytes, 0 where the kernel gives none (threads of the kernel, zombies). The
//! kernel sums its counters lazily: Rss and its parts may be off by some pages per CPU.

use crate::system::error::Error;
use crate::system::proc::Proc;
use crate::system::text::{key, kib, lines, number32, printable, words};

/// What `status` says that is of use here.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Status {
    /// The process that this thread belongs to.
    pub tgid: u32,
    /// Real user.
    pub uid: u32,
    /// Effective user.
    pub euid: u32,
    /// Resident: the three parts together.
    pub rss: u64,
    /// Resident anonymous memory.
    pub rss_anon: u64,
    /// Resident pages of files.
    pub rss_file: u64,
    /// Resident shared memory.
    pub rss_shmem: u64,
    /// Private memory in swap; shared memory in swap is not in it.
    pub swap: u64,
    /// The most that was ever resident (`VmHWM`); an exec starts anew.
    pub peak_rss: u64,
    /// Pages of the hugetlb pool.
    pub hugetlb: u64,
    /// The pid in each namespace from ours to its own; one if they are the same.
    pub ns_pids: Vec<u32>,
}

/// The fields of a status text. Names are escaped by the kernel, so no name can pass for a field.
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
            b"VmHWM" => status.peak_rss = size(),
            b"HugetlbPages" => status.hugetlb = size(),
            b"NSpid" => status.ns_pids = words(value).filter_map(number32).collect(),
            _ => {}
        }
    }
    found.then_some(status)
}

impl Proc {
    /// Users and sizes of a process; `None` if it is gone. About twice the cost of [`Proc::stat`].
    ///
    /// # Errors
    /// If `/proc` hides it, or its form is not known.
    pub fn status(&self, pid: u32) -> Result<Option<Status>, Error> {
        self.parsed(pid, "status", parse_status)
    }

    /// A file that comes in one piece, parsed.
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
            // A process that ends meanwhile may leave an empty file.
            None if text.is_empty() => Ok(None),
            None => Err(Error::Unknown {
                path: self.path(pid, name),
                what: printable(&text),
            }),
        }
    }
}
