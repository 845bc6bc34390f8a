//! `/proc/PID/smaps_rollup` and `/proc/PID/smaps` (proc_pid_smaps(5)): the kernel walks the page
//! tables for these, so they cost milliseconds per gigabyte.
//!
//! Invariant: sizes are bytes. Pss shares a page among those that map it; sums over all of them
//! count each page once, but for the rounding of each share.

use crate::system::error::Error;
use crate::system::filesystems::Filesystems;
use crate::system::maps::{self, Mapping};
use crate::system::proc::Proc;
use crate::system::text::{key, kib, lines, words};

/// Sums over all mappings of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rollup {
    /// Resident, shared or not.
    pub rss: u64,
    /// Resident, its share of it.
    pub pss: u64,
    /// The anonymous part of `pss`.
    pub pss_anon: u64,
    /// The part of files.
    pub pss_file: u64,
    /// The part of shared memory.
    pub pss_shmem: u64,
    /// Mapped by others, too.
    pub shared: u64,
    /// Accessed since bits were last cleared.
    pub referenced: u64,
    /// In swap; with shared memory where a mapping shows it.
    pub swap: u64,
    /// Its share of `swap`.
    pub swap_pss: u64,
}

/// The sums of a rollup text; `None` if it has none (the process has no memory).
#[must_use]
pub fn parse_rollup(text: &[u8]) -> Option<Rollup> {
    let mut rollup = Rollup::default();
    let mut found = false;
    for (key, value) in lines(text).filter_map(key) {
        let size = || kib(value).unwrap_or(0);
        match key {
            b"Rss" => {
                rollup.rss = size();
                found = true;
            }
            b"Pss" => rollup.pss = size(),
            b"Pss_Anon" => rollup.pss_anon = size(),
            b"Pss_File" => rollup.pss_file = size(),
            b"Pss_Shmem" => rollup.pss_shmem = size(),
            b"Shared_Clean" | b"Shared_Dirty" => rollup.shared += size(),
            b"Referenced" => rollup.referenced = size(),
            b"Swap" => rollup.swap = size(),
            b"SwapPss" => rollup.swap_pss = size(),
            _ => {}
        }
    }
    found.then_some(rollup)
}

/// One mapping and what is resident of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Smap {
    /// Where it is.
    pub mapping: Mapping,
    /// Address space.
    pub size: u64,
    /// Resident.
    pub rss: u64,
    /// Resident, its share.
    pub pss: u64,
    /// Accessed since bits were last cleared (`clear_refs`), through these tables.
    pub referenced: u64,
    /// Anonymous pages, in private mappings of files too.
    pub anonymous: u64,
    /// In swap.
    pub swap: u64,
    /// In swap, its share.
    pub swap_pss: u64,
    /// Two letters each: `lo` locked, `pf` frames without books, `ht` huge.
    pub flags: Vec<[u8; 2]>,
}

impl Smap {
    /// Whether the mapping has a flag of `VmFlags`.
    #[must_use]
    pub fn has(&self, flag: [u8; 2]) -> bool {
        self.flags.contains(&flag)
    }
}

/// The mappings of a smaps text, in order. Mappings of unknown devices pass for files, as in
/// [`maps::parse`].
#[must_use]
pub fn parse_smaps(text: &[u8], filesystems: &Filesystems) -> Vec<Smap> {
    let mut smaps: Vec<Smap> = Vec::new();
    let mut before = 0;
    // Values that follow a mapping which was left out belong to nobody.
    let mut open = false;
    for line in lines(text) {
        if let Some((mut mapping, name)) = maps::parse_line(line) {
            mapping.kind = maps::classify(&mapping, name, filesystems).unwrap_or(maps::Kind::File);
            open = mapping.start >= before;
            if open {
                before = mapping.end;
                smaps.push(empty(mapping));
            }
        } else if let (true, Some(smap), Some((key, value))) = (open, smaps.last_mut(), key(line)) {
            fill(smap, key, value);
        }
    }
    smaps
}

fn empty(mapping: Mapping) -> Smap {
    Smap {
        mapping,
        size: 0,
        rss: 0,
        pss: 0,
        referenced: 0,
        anonymous: 0,
        swap: 0,
        swap_pss: 0,
        flags: Vec::new(),
    }
}

fn fill(smap: &mut Smap, key: &[u8], value: &[u8]) {
    let size = || kib(value).unwrap_or(0);
    match key {
        b"Size" => smap.size = size(),
        b"Rss" => smap.rss = size(),
        b"Pss" => smap.pss = size(),
        b"Referenced" => smap.referenced = size(),
        b"Anonymous" => smap.anonymous = size(),
        b"Swap" => smap.swap = size(),
        b"SwapPss" => smap.swap_pss = size(),
        b"VmFlags" => smap.flags = words(value).filter_map(|w| w.try_into().ok()).collect(),
        _ => {}
    }
}

impl Proc {
    /// The kernel's own sums; `None` if the process is gone or has no memory.
    ///
    /// # Errors
    /// If they may not be read (`PTRACE_MODE_READ` is needed).
    pub fn smaps_rollup(&self, pid: u32) -> Result<Option<Rollup>, Error> {
        let mut text = Vec::with_capacity(2048);
        Ok(if self.read(pid, "smaps_rollup", &mut text)? {
            parse_rollup(&text)
        } else {
            None
        })
    }

    /// Mappings with what is resident of each; `None` if the process is gone.
    ///
    /// # Errors
    /// As [`Proc::smaps_rollup`].
    pub fn smaps(
        &self,
        pid: u32,
        filesystems: &mut Filesystems,
    ) -> Result<Option<Vec<Smap>>, Error> {
        let mut text = Vec::with_capacity(64 << 10);
        if !self.read(pid, "smaps", &mut text)? {
            return Ok(None);
        }
        // Unknown devices are found by a look at maps' part of the text alone.
        let unknown = maps::parse(&text, filesystems).unknown;
        if !unknown.is_empty() {
            self.learn_mounts(pid, &unknown, filesystems);
        }
        Ok(Some(parse_smaps(&text, filesystems)))
    }
}
