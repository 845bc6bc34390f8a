//! The swap areas and the memory of the machine: `/proc/swaps` and `/proc/meminfo` (proc_swaps(5),
//! proc_meminfo(5)).
//!
//! Invariant: sizes are bytes. In a container the two files may be another program's, such as
//! lxcfs's. [`Proc::invented`] finds that out, and the kernel's own totals come from sysinfo(2).

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::error::Error;
use super::proc::{Proc, read_path};
use super::text::{key, kib, lines, number, number32, unescape, words};

/// One active swap area.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SwapArea {
    /// The device or file.
    pub path: PathBuf,
    /// Whether the area is a block device (a partition, zram) rather than a file.
    pub device: bool,
    /// Size of the area in bytes, without the header.
    pub size: u64,
    /// Bytes of the area that contain swapped-out pages.
    pub used: u64,
    /// Swap priority: the kernel fills areas of higher priority first.
    pub priority: i32,
}

/// The kind of storage that an area uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SwapKind {
    /// Compressed memory (zram).
    Zram,
    /// A disk, or a partition of one.
    Partition,
    /// A file in a file system.
    File,
}

impl fmt::Display for SwapKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            SwapKind::Zram => "zram",
            SwapKind::Partition => "partition",
            SwapKind::File => "file",
        })
    }
}

impl SwapArea {
    /// Returns the kind of storage that the area uses.
    #[must_use]
    pub fn kind(&self) -> SwapKind {
        match self.device {
            true if self.zram().is_some() => SwapKind::Zram,
            true => SwapKind::Partition,
            false => SwapKind::File,
        }
    }

    /// Returns N if the area is the device `/dev/zramN`; `None` if the area is not a zram.
    #[must_use]
    pub fn zram(&self) -> Option<u32> {
        let name = self.path.file_name()?.to_str()?;
        self.device.then_some(())?;
        number32(name.strip_prefix("zram")?.as_bytes())
    }
}

/// Parses the text of `/proc/swaps`: a title line, then lines of `Filename Type Size Used
/// Priority`, with sizes in KiB.
#[must_use]
pub fn parse_swaps(text: &[u8]) -> Vec<SwapArea> {
    lines(text).skip(1).filter_map(parse_area).collect()
}

fn parse_area(line: &[u8]) -> Option<SwapArea> {
    // Users choose only the first field, and the kernel escapes blanks in it.
    let mut fields = words(line);
    let path = PathBuf::from(OsString::from_vec(unescape(fields.next()?)));
    let device = fields.next()? == b"partition";
    let size = number(fields.next()?)?.checked_mul(1024)?;
    let used = number(fields.next()?)?.checked_mul(1024)?;
    let priority = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    Some(SwapArea {
        path,
        device,
        size,
        used,
        priority,
    })
}

/// The machine's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    /// All memory that the kernel manages.
    pub total: u64,
    /// The kernel's estimate of how much memory programs can still get without swapping.
    pub available: u64,
    /// Size of all swap areas.
    pub swap_total: u64,
    /// Free part of `swap_total`.
    pub swap_free: u64,
    /// Memory that zswap uses for the pages that it holds; `None` if the kernel does not report it.
    pub zswap: Option<u64>,
    /// Uncompressed size of the pages that zswap holds; `None` if the kernel does not report it.
    pub zswapped: Option<u64>,
}

/// Parses a meminfo text; `None` if it has no total.
#[must_use]
pub fn parse_meminfo(text: &[u8]) -> Option<Memory> {
    let mut memory = Memory::default();
    for (key, value) in lines(text).filter_map(key) {
        let field = match key {
            b"MemTotal" => &mut memory.total,
            b"MemAvailable" => &mut memory.available,
            b"SwapTotal" => &mut memory.swap_total,
            b"SwapFree" => &mut memory.swap_free,
            b"Zswap" => memory.zswap.insert(0),
            b"Zswapped" => memory.zswapped.insert(0),
            _ => continue,
        };
        *field = kib(value)?;
    }
    (memory.total > 0).then_some(memory)
}

/// Returns the size of a page in bytes.
#[must_use]
pub fn page_size() -> u64 {
    u64::try_from(rustix::param::page_size()).unwrap_or(4096)
}

/// Returns whether the area is a zram device at its memory limit, which accepts no more pages.
fn takes_no_more(area: &SwapArea) -> bool {
    let stat = |number| read_path(Path::new(&format!("/sys/block/zram{number}/mm_stat")));
    let text = area.zram().and_then(|number| stat(number).ok().flatten());
    text.is_some_and(|text| is_at_limit(&text))
}

/// Returns whether a zram may refuse the next page: its memory (third number of `mm_stat`) is less
/// than 64 KiB below `mem_limit` (fourth number; 0 means no limit).
fn is_at_limit(mm_stat: &[u8]) -> bool {
    const LEAST: u64 = 64 << 10;
    let numbers: Vec<u64> = words(mm_stat).map_while(number).collect();
    let limit = numbers.get(3).copied().filter(|limit| *limit > 0);
    limit.is_some_and(|limit| numbers[2] + LEAST >= limit)
}

/// Returns the kernel's own total of swap in bytes (sysinfo(2)), which no mount over `/proc`
/// changes.
fn kernels_total() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalswap.saturating_mul(u64::from(info.mem_unit))
}

/// Returns why `/proc/swaps` or `/proc/meminfo` cannot be the kernel's; `None` if both can. The
/// first lists areas of `listed` bytes, the second reports `reported` bytes of swap; the kernel has
/// `kernel` bytes.
///
/// More in `/proc/swaps` than in the total proves nothing: while an area is switched off, the
/// kernel still lists it.
fn difference(listed: u64, reported: u64, kernel: u64) -> Option<String> {
    let (name, bytes) = match kernel {
        total if reported != total => ("/proc/meminfo", reported),
        total if listed < total => ("/proc/swaps", listed),
        _ => return None,
    };
    let [bytes, total] = [bytes, kernel].map(|bytes| bytes >> 20);
    Some(format!(
        "{name} shows {bytes} MiB of swap where the kernel has {total} MiB"
    ))
}

impl Proc {
    /// Returns the kernel's own total of swap in bytes; in a test's tree that of its meminfo.
    ///
    /// # Errors
    /// Those of [`Proc::memory`].
    pub fn swap_total(&self) -> Result<u64, Error> {
        match self.is_real() {
            true => Ok(kernels_total()),
            false => Ok(self.memory()?.swap_total),
        }
    }

    /// Returns why `/proc/swaps` or `/proc/meminfo` is not the kernel's, in words; `None` if both
    /// are. Then neither says what swap the host has, nor of what kind.
    #[must_use]
    pub fn invented(&self) -> Option<String> {
        let names = ["swaps", "meminfo"];
        if let Some(name) = names.iter().find(|name| !self.is_kernels(name)) {
            let what = "is not the kernel's: a file of another file system is mounted over it";
            return Some(format!("/proc/{name} {what}, as in containers with lxcfs"));
        }
        let differ = || {
            let areas = self.swaps().ok()?;
            let listed = areas.iter().map(|area| area.size).sum();
            difference(
                listed,
                self.memory().ok()?.swap_total,
                self.swap_total().ok()?,
            )
        };
        // Another program may switch swap between two reads, so only a lasting difference counts.
        let is_real = self.is_real();
        let mut found = is_real.then(differ).flatten();
        for _ in 0..2 {
            found = found.and_then(|_| differ());
        }
        found
    }

    /// Returns the active swap areas; none if the kernel has no swap.
    ///
    /// # Errors
    /// `/proc/swaps` exists but may not be read.
    pub fn swaps(&self) -> Result<Vec<SwapArea>, Error> {
        Ok(self
            .read_own("swaps")?
            .as_deref()
            .map(parse_swaps)
            .unwrap_or_default())
    }

    /// Returns whether any active swap area is slower than memory, which any area but a zram is.
    /// After writing a page to such an area the kernel keeps the page in memory, clean and charged,
    /// until memory is needed. (A page that is written to zram is freed at once.)
    #[must_use]
    pub fn has_slow_swap(&self) -> bool {
        let areas = self.swaps().unwrap_or_default();
        areas.iter().any(|area| area.kind() != SwapKind::Zram)
    }

    /// Returns the memory of the machine.
    ///
    /// # Errors
    /// `/proc/meminfo` cannot be read, or has an unknown format.
    pub fn memory(&self) -> Result<Memory, Error> {
        let text = self.read_own("meminfo")?.unwrap_or_default();
        parse_meminfo(&text).ok_or_else(|| Error::Unknown {
            path: self.own_path("meminfo"),
            what: "there is no MemTotal in it".to_owned(),
        })
    }

    /// Returns how many pages can still be swapped out. Free slots of a zram at its `mem_limit` do
    /// not count: the zram refuses more pages, so pages meant for it stay in memory.
    ///
    /// # Errors
    /// Those of [`Proc::memory`].
    pub fn swap_free_pages(&self) -> Result<u64, Error> {
        let areas = self.swaps().unwrap_or_default();
        let in_vain = areas.iter().filter(|area| takes_no_more(area));
        let in_vain: u64 = in_vain
            .map(|area| area.size.saturating_sub(area.used))
            .sum();
        Ok(self.memory()?.swap_free.saturating_sub(in_vain) / page_size())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_zram_at_its_limit_takes_no_more() {
        for (text, is_full) in [
            ("8437760 8367957 8388608 8388608 8454144 0 0", true),
            ("8437760 8367957 8330000 8388608 8454144 0 0", true),
            ("8437760 8367957 8000000 8388608 8454144 0 0", false),
            ("8437760 8367957 8388608 0 8454144 0 0", false),
            ("", false),
        ] {
            assert_eq!(is_at_limit(text.as_bytes()), is_full, "{text}");
        }
    }

    /// Regression: in a container, `/proc/swaps` of lxcfs listed no zram, and the doctor said that
    /// swap was not on zram.
    #[test]
    fn files_that_disagree_with_the_kernel_are_invented() {
        let kernel = 4 << 20;
        assert_eq!(difference(4 << 20, 4 << 20, kernel), None);
        let why = difference(0, 4 << 20, kernel).unwrap_or_default();
        assert_eq!(
            why,
            "/proc/swaps shows 0 MiB of swap where the kernel has 4 MiB"
        );
        let why = difference(4 << 20, 1 << 20, kernel).unwrap_or_default();
        assert!(why.starts_with("/proc/meminfo shows 1 MiB"), "{why}");
        // An area that is just being switched off is still listed.
        assert_eq!(difference(8 << 20, 4 << 20, kernel), None);
    }

    #[test]
    fn what_zswap_holds_is_read_where_the_kernel_reports_it() {
        let text = "MemTotal: 8 kB\nZswap:  4 kB\nZswapped:  12 kB\n";
        let memory = parse_meminfo(text.as_bytes()).unwrap();
        assert_eq!((memory.zswap, memory.zswapped), (Some(4096), Some(12288)));
        assert_eq!(parse_meminfo(b"MemTotal: 8 kB\n").unwrap().zswap, None);
    }

    #[test]
    fn this_machine() {
        let proc = Proc::system().unwrap();
        let memory = proc.memory().unwrap();
        assert!(memory.total > memory.available && memory.available > 0);
        let size: u64 = proc.swaps().unwrap().iter().map(|area| area.size).sum();
        // Another program may change the areas between the two reads; usually both show the same.
        assert!(size == memory.swap_total || size == proc.memory().unwrap().swap_total);
        assert_eq!(proc.invented(), None);
        assert!(page_size().is_power_of_two() && page_size() >= 4096);
    }

    #[test]
    fn areas() {
        let text = b"Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
            /dev/zram0                              partition\t1048572\t\t4\t\t100\n\
            /my\\040swap\\040(deleted)\t\tfile\t\t2048\t\t0\t\t-2\n";
        let areas = parse_swaps(text);
        assert_eq!(areas.len(), 2);
        assert!(areas[0].device && areas[0].size == 1_048_572 << 10 && areas[0].used == 4096);
        assert_eq!(areas[1].path.to_str(), Some("/my swap (deleted)"));
        assert_eq!((areas[1].device, areas[1].priority), (false, -2));
        assert_eq!(
            (areas[0].kind(), areas[0].zram()),
            (SwapKind::Zram, Some(0))
        );
        assert_eq!((areas[1].kind(), areas[1].zram()), (SwapKind::File, None));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn anything_goes(bytes in any::<Vec<u8>>(), text in "x\n(/[a-z\\\\0-9]{0,5}[ \t](file|partition)( -?[0-9]{0,20}){0,4}\n){0,3}(MemTotal: [0-9]{0,22} kB\n)?") {
            for text in [&bytes[..], text.as_bytes()] {
                let _ = (parse_swaps(text), parse_meminfo(text));
            }
        }
    }
}
