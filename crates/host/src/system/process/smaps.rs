//! `/proc/PID/smaps_rollup` and `/proc/PID/smaps` (proc_pid_smaps(5)). The kernel walks the page
//! tables for them, so a read takes milliseconds per gigabyte.
//!
//! Invariant: sizes are bytes. Pss divides the size of a page among the processes that map it. So
//! the sum of Pss over all these processes counts each page once, except for rounding.

use pagetables::{Mapping, MappingKind as Kind};

use crate::system::error::Error;
use crate::system::filesystems::Filesystems;
use crate::system::maps;
use crate::system::proc::Proc;
use crate::system::text::{key, kib, lines, words};

/// The kernel's sums over all mappings of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rollup {
    /// Resident memory, shared or not.
    pub rss: u64,
    /// The process's share of resident memory.
    pub pss: u64,
    /// The anonymous part of `pss`.
    pub pss_anon: u64,
    /// The part of `pss` that is pages of files.
    pub pss_file: u64,
    /// The part of `pss` that is shared memory.
    pub pss_shmem: u64,
    /// Resident memory that other processes map, too.
    pub shared: u64,
    /// Memory accessed since the accessed bits were last cleared.
    pub referenced: u64,
    /// Swapped-out memory, including shared memory of mappings for which the kernel reports it.
    pub swap: u64,
    /// The process's share of `swap`.
    pub swap_pss: u64,
}

/// Parses the text of `smaps_rollup`; `None` if it has no sums, because the process has no memory.
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

/// One mapping and its sizes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Smap {
    /// The mapping.
    pub mapping: Mapping,
    /// Whether it is secret memory (memfd_secret(2)), which the kernel itself cannot read.
    pub is_secret: bool,
    /// Whether it maps something by name: not only pages that the kernel maps into every process,
    /// such as `[vdso]`.
    pub is_named: bool,
    /// Whether it maps an anonymous inode, such as a ring of io_uring. All of these have one inode
    /// number.
    pub is_anon_inode: bool,
    /// Size of the address range.
    pub size: u64,
    /// Resident memory.
    pub rss: u64,
    /// The process's share of resident memory.
    pub pss: u64,
    /// Memory accessed by this process since its accessed bits were last cleared (`clear_refs`).
    pub referenced: u64,
    /// Resident anonymous pages; a private mapping of a file can have some.
    pub anonymous: u64,
    /// Swapped-out memory.
    pub swap: u64,
    /// The process's share of swapped-out memory.
    pub swap_pss: u64,
    /// `VmFlags`, two letters each: `lo` locked, `pf` frames without struct page, `ht` huge.
    pub flags: Vec<[u8; 2]>,
}

/// Parses a smaps text; returns its mappings in order. Mappings of unknown devices count as files,
/// as in [`maps::parse`].
#[must_use]
pub fn parse_smaps(text: &[u8], filesystems: &Filesystems) -> Vec<Smap> {
    let mut smaps: Vec<Smap> = Vec::new();
    let mut before = 0;
    // Whether the following lines belong to a mapping that was not skipped.
    let mut open = false;
    for line in lines(text) {
        if let Some((mut mapping, name)) = maps::parse_line(line) {
            mapping.kind = maps::classify(&mapping, name, filesystems).unwrap_or(Kind::File);
            open = mapping.start >= before;
            if open {
                before = mapping.end;
                smaps.push(Smap {
                    is_secret: name.starts_with(b"/secretmem"),
                    is_anon_inode: name.starts_with(b"anon_inode:"),
                    is_named: !name.is_empty() && !name.starts_with(b"["),
                    ..empty(mapping)
                });
            }
        } else if let (true, Some(smap), Some((key, value))) = (open, smaps.last_mut(), key(line)) {
            fill(smap, key, value);
        }
    }
    smaps
}

/// Returns a mapping without sizes.
fn empty(mapping: Mapping) -> Smap {
    Smap {
        mapping,
        is_secret: false,
        is_named: false,
        is_anon_inode: false,
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

/// Sets the size or the flags that a line `key: value` reports.
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

impl Smap {
    /// Whether its frames may have no struct page (`VM_PFNMAP`): the kernel counts them in no Rss.
    #[must_use]
    pub fn is_pfn_map(&self) -> bool {
        self.flags.contains(b"pf")
    }
}

impl Proc {
    /// Returns the kernel's sums over all mappings; `None` if the process is gone or has no memory.
    ///
    /// # Errors
    /// This user may not read them (`PTRACE_MODE_READ` is needed).
    pub fn smaps_rollup(&self, pid: u32) -> Result<Option<Rollup>, Error> {
        let mut text = Vec::with_capacity(2048);
        Ok(if self.read(pid, "smaps_rollup", &mut text)? {
            parse_rollup(&text)
        } else {
            None
        })
    }

    /// Returns the mappings with their sizes; `None` if the process is gone.
    ///
    /// # Errors
    /// Those of [`Proc::smaps_rollup`].
    pub fn smaps(
        &self,
        pid: u32,
        filesystems: &mut Filesystems,
    ) -> Result<Option<Vec<Smap>>, Error> {
        let mut text = Vec::with_capacity(64 << 10);
        if !self.read(pid, "smaps", &mut text)? {
            return Ok(None);
        }
        // Some lines of smaps have the format of maps; these lines suffice to find unknown devices.
        let unknown = maps::parse(&text, filesystems).unknown;
        if !unknown.is_empty() {
            self.learn_mounts(pid, &unknown, filesystems);
        }
        Ok(Some(parse_smaps(&text, filesystems)))
    }
}
