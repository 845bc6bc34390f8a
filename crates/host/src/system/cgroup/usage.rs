//! How much memory a group uses, including the groups below it.
//!
//! Invariant: sizes are bytes; a size that the kernel does not report is `None`. A page is charged
//! to the group whose process touched it first. So processes of one group may map page cache that
//! is charged to another group. The kernel sums these counters lazily: they may be off by some
//! hundred pages per CPU.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Group, Groups, Version};
use crate::system::error::Error;
use crate::system::proc::read_path;
use crate::system::text::{flat, lines, number, number32, words};

/// The memory use of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// All memory charged to the group, including page cache and kernel memory (`memory.current`,
    /// `memory.usage_in_bytes`); `None` for the root group of version 2.
    pub current: Option<u64>,
    /// The largest charge so far (`memory.peak`, since Linux 5.19; `memory.max_usage_in_bytes`).
    pub peak: Option<u64>,
    /// Swapped-out memory (`memory.swap.current`; `total_swap`).
    pub swap: Option<u64>,
    /// Kernel memory: stacks, page tables, slab ... (`kernel` or `memory.kmem.usage_in_bytes`).
    /// Before Linux 5.18, version 2 reports only some parts, so the sum is too small.
    pub kernel: Option<u64>,
    /// The page cache of the group.
    pub cache: Option<Cache>,
    /// The part of `cache` that is unmapped page cache of files and was accessed more than once, as
    /// far as the kernel's counters show that: [`parse_used_cache`].
    pub used_cache: Option<u64>,
    /// What zswap holds for the group; `None` in version 1, and without zswap.
    pub zswap: Option<Zswap>,
}

/// The pages of a group that zswap holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Zswap {
    /// Uncompressed size of the pages.
    pub stored: u64,
    /// Memory that zswap uses for the pages.
    pub memory: u64,
}

/// Returns what zswap holds for a group, from a `memory.stat` text of version 2; groups below are
/// included.
fn parse_zswap(text: &[u8]) -> Option<Zswap> {
    Some(Zswap {
        stored: flat(text, "zswapped")?,
        memory: flat(text, "zswap")?,
    })
}

/// The page cache of a group: pages of files, of tmpfs and of shared memory.
///
/// The kernel counts which of these pages are shared memory (`shmem`), and which are mapped by a
/// process (`mapped`), but not which are both. So [`Cache::unmapped`] is exact, but for pages of
/// files alone only bounds are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cache {
    /// All page cache, without the swap cache, which contains anonymous pages.
    pub total: u64,
    /// The part of `total` in tmpfs, shared anonymous memory and System V segments.
    pub shmem: u64,
    /// The part of `total` that a process of any group maps. The kernel may count a whole large
    /// folio if one page of it is mapped.
    pub mapped: u64,
}

impl Cache {
    /// Returns the unmapped page cache of files and of tmpfs together: `total - mapped`, exact.
    #[must_use]
    pub fn unmapped(&self) -> u64 {
        self.total.saturating_sub(self.mapped)
    }

    /// Returns a lower bound of the unmapped page cache of files: `total - shmem - mapped`. It is
    /// exact if no mapped page is shared memory.
    #[must_use]
    pub fn unmapped_file_least(&self) -> u64 {
        self.total
            .saturating_sub(self.shmem)
            .saturating_sub(self.mapped)
    }

    /// Returns an upper bound of the unmapped page cache of files. It is exact if all shared memory
    /// is mapped, as it is if programs use memfd or shared anonymous memory and keep no files in
    /// tmpfs.
    #[cfg(test)]
    pub(super) fn unmapped_file_most(&self) -> u64 {
        let mapped_file = self.mapped.saturating_sub(self.shmem);
        self.total
            .saturating_sub(self.shmem)
            .saturating_sub(mapped_file)
    }
}

/// Returns the counter `name` (as on version 2) from a `memory.stat` text, including groups below.
/// Only for counters that have the same name on both versions, apart from version 1's `total_`.
#[must_use]
pub(crate) fn parse_counter(text: &[u8], version: Version, name: &str) -> Option<u64> {
    match version {
        Version::V1 => flat(text, &format!("total_{name}")),
        Version::V2 => flat(text, name),
    }
}

/// Returns the page cache from a `memory.stat` text, including groups below.
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

/// Returns the bytes of unmapped page cache that programs accessed more than once, from a
/// `memory.stat` text, including groups below. The result is `active_file - (file_mapped - shmem)`:
/// the file pages on the kernel's active list, without mapped ones. This assumes that all shared
/// memory is mapped and all mapped pages are active.
#[must_use]
pub fn parse_used_cache(text: &[u8], version: Version) -> Option<u64> {
    let cache = parse_cache(text, version)?;
    let mapped = cache.mapped.saturating_sub(cache.shmem);
    Some(
        parse_counter(text, version, "active_file")?
            .saturating_sub(mapped)
            .min(cache.unmapped()),
    )
}

/// Returns the bytes of anonymous pages that were written to swap and are unmapped, but still in
/// memory, from a `memory.stat` text, including groups below. The kernel frees these pages when
/// memory is short. The result is the anonymous LRU lists without mapped pages and shared memory:
/// `inactive_anon + active_anon - anon - shmem`.
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

/// Returns a lower bound, in bytes, of the page cache of files that the kernel reclaims first:
/// unmapped, clean and inactive. The result is `inactive_file - mapped - dirty`, from a
/// `memory.stat` text, including groups below. This assumes that all mapped and all dirty pages are
/// inactive.
#[must_use]
pub fn parse_idle_cache(text: &[u8], version: Version) -> Option<u64> {
    let cache = parse_cache(text, version)?;
    let others = cache.mapped.saturating_add(parse_dirty(text, version));
    let inactive = parse_counter(text, version, "inactive_file")?;
    let idle = inactive.saturating_sub(others);
    Some(idle.min(cache.unmapped_file_least()))
}

/// Returns the bytes of dirty file pages and of pages under writeback, from a `memory.stat` text,
/// including groups below. The kernel must write these pages before it can drop them.
#[must_use]
pub fn parse_dirty(text: &[u8], version: Version) -> u64 {
    let names = match version {
        Version::V1 => ["total_dirty", "total_writeback"],
        Version::V2 => ["file_dirty", "file_writeback"],
    };
    let [dirty, under_way] = names.map(|name| flat(text, name).unwrap_or(0));
    dirty.saturating_add(under_way)
}

/// Returns the page cache on each of the NUMA nodes `nodes`, in their order, from a
/// `memory.numa_stat` text of version 2. Each line is a counter's name and `N0=BYTES N1=BYTES ...`.
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
    let bytes_on = |all: &BTreeMap<u32, u64>, node: &u32| all.get(node).copied().unwrap_or(0);
    let cache = |node: &u32| Cache {
        total: bytes_on(&file, node).saturating_sub(bytes_on(&swap_cache, node)),
        shmem: bytes_on(&shmem, node),
        mapped: bytes_on(&mapped, node),
    };
    Some(nodes.iter().map(cache).collect())
}

/// Returns `anon + file + kernel` from a `memory.stat` text of version 2, in bytes: the memory use
/// of the root group, which has no `memory.current`.
#[must_use]
pub fn parse_sum(text: &[u8]) -> Option<u64> {
    let programs = flat(text, "anon")?.saturating_add(flat(text, "file")?);
    Some(programs.saturating_add(parse_kernel(text).unwrap_or(0)))
}

/// Returns the kernel memory from a `memory.stat` text of version 2, in bytes: the counter
/// `kernel`, or, before Linux 5.18, the sum of its parts.
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

/// Returns how many pages of a group the kernel scanned to reclaim memory, from a `memory.stat`
/// text of version 2, including groups below. Pages scanned on request (`memory.reclaim`) are
/// included only on kernels that do not count them separately, as `pgscan_proactive`.
#[must_use]
pub fn parse_scanned(text: &[u8]) -> Option<u64> {
    let names = ["pgscan_kswapd", "pgscan_direct", "pgscan_khugepaged"];
    let counts = names.map(|name| flat(text, name));
    let sum = counts
        .iter()
        .flatten()
        .fold(0, |sum: u64, one| sum.saturating_add(*one));
    counts.iter().any(Option::is_some).then_some(sum)
}

/// Returns how often the kernel reclaimed from a group because its usage met its own limits, from a
/// `memory.events.local` text of version 2.
#[must_use]
pub fn parse_limit_reclaims(text: &[u8]) -> Option<u64> {
    Some(flat(text, "max")?.saturating_add(flat(text, "high")?))
}

/// Limits of this size or more mean "no limit" in version 1: no host has so much memory.
const NO_LIMIT: u64 = 1 << 60;

impl Groups {
    /// Returns how much of a group's memory may be swapped out, in bytes: the lowest limit of the
    /// group and of the visible groups above it. `None` if there is no limit. Also `None` on
    /// version 1, whose limit is on memory and swap together: swapping a page out does not lower
    /// that sum.
    #[must_use]
    pub fn swap_limit(&self, group: &Group) -> Option<u64> {
        if self.version == Version::V1 {
            return None;
        }
        least_of(group, &["memory.swap.max"])
    }

    /// Returns how much memory a group may use, in bytes: the lowest limit of the group and of the
    /// visible groups above it. `None` if there is no limit.
    #[must_use]
    pub fn memory_limit(&self, group: &Group) -> Option<u64> {
        let names: &[&str] = match self.version {
            Version::V1 => &["memory.limit_in_bytes"],
            Version::V2 => &["memory.max", "memory.high"],
        };
        least_of(group, names).filter(|limit| *limit < NO_LIMIT)
    }

    /// Returns how often the kernel reclaimed from the group at `dir` because a charge met the
    /// group's own limit; `None` if the kernel does not report that.
    #[must_use]
    pub fn limit_reclaims(&self, dir: &Path) -> Option<u64> {
        let number = |name: &str| value(&dir.join(name)).ok().flatten();
        match self.version {
            Version::V1 => {
                let both = number("memory.memsw.failcnt").unwrap_or(0);
                Some(number("memory.failcnt")?.saturating_add(both))
            }
            Version::V2 => {
                let text = read(&dir.join("memory.events.local")).ok().flatten()?;
                parse_limit_reclaims(&text)
            }
        }
    }

    /// Returns the memory use of a group; `None` if the group is gone.
    ///
    /// # Errors
    /// Its files may not be read.
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
                used_cache: parse_used_cache(&stat, Version::V1),
                zswap: None,
            },
            Version::V2 => Usage {
                current: number("memory.current")?,
                peak: number("memory.peak")?,
                swap: number("memory.swap.current")?,
                kernel: parse_kernel(&stat),
                cache: parse_cache(&stat, Version::V2),
                used_cache: parse_used_cache(&stat, Version::V2),
                zswap: parse_zswap(&stat),
            },
        };
        // The root of version 2 has none of these files, but exists.
        Ok((usage != Usage::default() || group.dir.is_dir()).then_some(usage))
    }
}

/// Reads a file of a group; `None` if there is none.
fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    // Some files exist but cannot be read (kmem without accounting): they count as missing.
    match read_path(path) {
        Ok(text) => Ok(text),
        Err(rustix::io::Errno::OPNOTSUPP) => Ok(None),
        Err(errno) => Err(Error::reading(path, errno)),
    }
}

/// Returns the lowest number in the files `names` of a group and of the visible groups above it;
/// `None` if no file contains a number (`max` is not a number).
fn least_of(group: &Group, names: &[&str]) -> Option<u64> {
    let above = group.path.ancestors().count();
    let dirs = group.dir.ancestors().take(above);
    let all = dirs.flat_map(|dir| names.iter().map(move |name| value(&dir.join(name)).ok()?));
    all.flatten().min()
}

/// Reads the number in a file of a group; `None` if the file is missing or contains no number.
fn value(path: &Path) -> Result<Option<u64>, Error> {
    Ok(read(path)?.and_then(|text| number(text.trim_ascii())))
}
