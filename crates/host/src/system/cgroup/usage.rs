//! How much a group holds, those below it included.
//!
//! Invariant: bytes; what a kernel does not tell is `None`. A page counts to the group that first
//! touched it, so a group's cache may be mapped by processes of another. The kernel sums these
//! counters lazily: some hundred pages per CPU may be missing or too many.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Group, Groups, Version};
use crate::system::error::Error;
use crate::system::proc::read_path;
use crate::system::text::{flat, lines, number, number32, words};

/// What a group holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// All that counts to it, page cache and kernel memory too (`memory.current`,
    /// `memory.usage_in_bytes`); none for the root group of version 2.
    pub current: Option<u64>,
    /// The most it ever was (`memory.peak`, since Linux 5.19; `memory.max_usage_in_bytes`).
    pub peak: Option<u64>,
    /// In swap (`memory.swap.current`; `total_swap`).
    pub swap: Option<u64>,
    /// Stacks, tables, slab ... (`kernel`, before Linux 5.18 the sum of its parts, which is less;
    /// `memory.kmem.usage_in_bytes`).
    pub kernel: Option<u64>,
    /// Page cache.
    pub cache: Option<Cache>,
}

/// The page cache of a group: pages of files, of tmpfs and of shared memory.
///
/// The kernel counts two properties of these pages apart, shared memory (`shmem`) and mapped by
/// somebody (`mapped`), and not both together. So what nobody maps is exact over all cache, and has
/// bounds over the pages of files alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cache {
    /// All of it, without the swap cache, which holds anonymous pages.
    pub total: u64,
    /// Of `total`: tmpfs, shared anonymous memory, System V.
    pub shmem: u64,
    /// Of `total`: mapped by some process, of this group or of another. With large folios kernels may
    /// count the whole folio as mapped.
    pub mapped: u64,
}

impl Cache {
    /// What nobody maps, pages of files and of tmpfs together: exact.
    #[must_use]
    pub fn unmapped(&self) -> u64 {
        self.total.saturating_sub(self.mapped)
    }

    /// Pages of files that nobody maps are at least this: as if nothing mapped was shared memory.
    #[must_use]
    pub fn unmapped_file_least(&self) -> u64 {
        self.total
            .saturating_sub(self.shmem)
            .saturating_sub(self.mapped)
    }

    /// And at most this: as if all shared memory was mapped, as it is where programs use memfd or
    /// shared anonymous memory and keep no files in tmpfs. Without shared memory, exact.
    #[cfg(test)]
    pub(super) fn unmapped_file_most(&self) -> u64 {
        let mapped_file = self.mapped.saturating_sub(self.shmem);
        self.total
            .saturating_sub(self.shmem)
            .saturating_sub(mapped_file)
    }
}

/// The page cache of a `memory.stat` text, with the groups below.
#[must_use]
pub fn parse_cache(text: &[u8], version: Version) -> Option<Cache> {
    let [total, shmem, mapped, swap_cache] = match version {
        Version::V1 => [
            "total_cache",
            "total_shmem",
            "total_mapped_file",
            "total_swapcached",
        ],
        Version::V2 => ["file", "shmem", "file_mapped", "swapcached"],
    };
    let swap_cache = flat(text, swap_cache).unwrap_or(0);
    Some(Cache {
        total: flat(text, total)?.saturating_sub(swap_cache),
        shmem: flat(text, shmem)?,
        mapped: flat(text, mapped)?,
    })
}

/// Anonymous pages that nobody maps any more, of a `memory.stat` text, with the groups below: written to swap, and in memory until somebody
/// needs it. They stand on the lists, and no more among what is mapped.
#[must_use]
pub fn parse_written(text: &[u8], version: Version) -> Option<u64> {
    let names = match version {
        Version::V1 => [
            "total_inactive_anon",
            "total_active_anon",
            "total_rss",
            "total_shmem",
        ],
        Version::V2 => ["inactive_anon", "active_anon", "anon", "shmem"],
    };
    let [inactive, active, mapped, shmem] = names.map(|name| flat(text, name));
    let on_lists = inactive?.saturating_add(active?);
    Some(on_lists.saturating_sub(mapped?.saturating_add(shmem?)))
}

/// Pages of files of a `memory.stat` text that the kernel will take first, that nobody maps and that need not be written, with the groups below: at
/// least so many bytes, as if all others were among the inactive ones.
#[must_use]
pub fn parse_idle_cache(text: &[u8], version: Version) -> Option<u64> {
    let name = match version {
        Version::V1 => "total_inactive_file",
        Version::V2 => "inactive_file",
    };
    let cache = parse_cache(text, version)?;
    let others = cache.mapped.saturating_add(parse_dirty(text, version));
    let idle = flat(text, name)?.saturating_sub(others);
    Some(idle.min(cache.unmapped_file_least()))
}

/// Pages of files of a `memory.stat` text that must be written before they can be dropped, with the groups below.
#[must_use]
pub fn parse_dirty(text: &[u8], version: Version) -> u64 {
    let names = match version {
        Version::V1 => ["total_dirty", "total_writeback"],
        Version::V2 => ["file_dirty", "file_writeback"],
    };
    let [dirty, under_way] = names.map(|name| flat(text, name).unwrap_or(0));
    dirty.saturating_add(under_way)
}

/// The page cache on each of these nodes, of a version 2 `memory.numa_stat`: lines of a name and `N0=BYTES N1=BYTES ...`.
#[must_use]
pub fn parse_node_caches(text: &[u8], nodes: &[u32]) -> Option<Vec<Cache>> {
    let values = |name: &str| {
        let mut lines = lines(text).map(words);
        let line =
            lines.find_map(|mut words| (words.next() == Some(name.as_bytes())).then_some(words))?;
        let value = |word: &[u8]| {
            let word = word.strip_prefix(b"N")?;
            let at = word.iter().position(|byte| *byte == b'=')?;
            Some((number32(&word[..at])?, number(&word[at + 1..])?))
        };
        Some(line.filter_map(value).collect::<BTreeMap<u32, u64>>())
    };
    let [file, shmem, mapped] = [values("file")?, values("shmem")?, values("file_mapped")?];
    let swap_cache = values("swapcached").unwrap_or_default();
    let of = |all: &BTreeMap<u32, u64>, node: &u32| all.get(node).copied().unwrap_or(0);
    let cache = |node: &u32| Cache {
        total: of(&file, node).saturating_sub(of(&swap_cache, node)),
        shmem: of(&shmem, node),
        mapped: of(&mapped, node),
    };
    Some(nodes.iter().map(cache).collect())
}

/// All that a version 2 `memory.stat` counts by kind: for the first group, which has no `memory.current`.
#[must_use]
pub fn parse_sum(text: &[u8]) -> Option<u64> {
    let programs = flat(text, "anon")?.saturating_add(flat(text, "file")?);
    Some(programs.saturating_add(parse_kernel(text).unwrap_or(0)))
}

/// Kernel memory of a version 2 `memory.stat`.
pub(super) fn parse_kernel(text: &[u8]) -> Option<u64> {
    flat(text, "kernel").or_else(|| {
        let parts = ["kernel_stack", "pagetables", "percpu", "slab"].map(|name| flat(text, name));
        parts.iter().any(Option::is_some).then(|| {
            parts
                .iter()
                .flatten()
                .fold(0u64, |sum, &part| sum.saturating_add(part))
        })
    })
}

impl Groups {
    /// How much of a group may be in swap: the least of its own limit and those of the groups above that are seen from here, bytes. None
    /// where nobody limits it, and on version 1, where a limit is of memory and swap together: what leaves for swap stays in it.
    #[must_use]
    pub fn swap_limit(&self, group: &Group) -> Option<u64> {
        if self.version == Version::V1 {
            return None;
        }
        let above = group.path.ancestors().count();
        let dirs = group.dir.ancestors().take(above);
        // `max` is no number.
        dirs.filter_map(|dir| value(&dir.join("memory.swap.max")).ok()?)
            .min()
    }

    /// What a group holds; `None` if it is gone.
    ///
    /// # Errors
    /// If it may not be read.
    pub fn usage(&self, group: &Group) -> Result<Option<Usage>, Error> {
        let stat = read(&group.dir.join("memory.stat"))?;
        let stat = stat.unwrap_or_default();
        let number = |name: &str| value(&group.dir.join(name));
        let usage = match self.version {
            Version::V1 => Usage {
                current: number("memory.usage_in_bytes")?,
                peak: number("memory.max_usage_in_bytes")?,
                swap: flat(&stat, "total_swap"),
                kernel: number("memory.kmem.usage_in_bytes")?,
                cache: parse_cache(&stat, Version::V1),
            },
            Version::V2 => Usage {
                current: number("memory.current")?,
                peak: number("memory.peak")?,
                swap: number("memory.swap.current")?,
                kernel: parse_kernel(&stat),
                cache: parse_cache(&stat, Version::V2),
            },
        };
        // The root of version 2 has none of these files, and is there.
        Ok((usage != Usage::default() || group.dir.is_dir()).then_some(usage))
    }
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    // Files that a kernel has and does not support (kmem without accounting) tell nothing.
    match read_path(path) {
        Ok(text) => Ok(text),
        Err(rustix::io::Errno::OPNOTSUPP) => Ok(None),
        Err(errno) => Err(Error::reading(path, errno)),
    }
}

fn value(path: &Path) -> Result<Option<u64>, Error> {
    Ok(read(path)?.and_then(|text| number(text.trim_ascii())))
}
