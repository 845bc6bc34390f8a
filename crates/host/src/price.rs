//! What a page costs that comes back: from swap, and from a file.
//!
//! Invariant: a price is measured on this host, on pages and a file of pagetide itself, or its text says that it was not. A
//! measurement reads fewer than 100 pages. `SwapInCost` repeats it once a minute at most.

use std::ffi::OsStr;
use std::fs::File;
use std::hint::black_box;
use std::io::IoSliceMut;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use pagetables::{Advice, advise, unlock};
use rustix::fs::{Advice as FileAdvice, FileType, fadvise, major, minor, stat};
use rustix::io::{ReadWriteFlags, preadv2};
use rustix::process::{PidfdFlags, getpid, pidfd_open};

use crate::report::Price;
use crate::system::Proc;
use crate::system::maps::parse_line;
use crate::system::swap::{SwapArea, SwapKind};
use crate::system::text::{number, words};

/// Pages that are paged out to see what one costs.
const PAGES: usize = 64;
const PAGE: usize = 4096;
/// What a read takes of a device that does not say.
const DISK: Duration = Duration::from_millis(1);
/// What one costs is measured again after so long: other swap may be on, and the host busier.
const STALE: Duration = Duration::from_secs(60);

/// What a page from zram is taken to cost where none can be measured.
const ZRAM: Duration = Duration::from_micros(15);
/// What a page from a file is taken to cost where none can be measured.
const FILE: Duration = Duration::from_micros(100);
/// Reads of pagetide's own file, and how far apart they are.
const READS: u64 = 16;
const APART: u64 = 1 << 20;

/// What a page costs on this host, as far as it can be measured.
///
/// # Errors
/// None: what cannot be measured is a usual value, and says so.
#[must_use]
pub fn price(proc: &Proc) -> Price {
    let areas = proc.swaps().unwrap_or_default();
    let name = match areas.iter().max_by_key(|area| area.priority) {
        None => "zram",
        Some(area) if area.kind() == SwapKind::Zram => "zram",
        Some(_) => "swap",
    };
    let measured = match areas.is_empty() {
        true => None,
        false => measure(proc).unwrap_or_default(),
    };
    let (anon, anon_from) = match measured {
        Some(cost) => (cost, format!("{name}, measured")),
        None if name == "swap" => (of_devices(proc), "swap, by its device's reads".to_owned()),
        None => (ZRAM, "zram, not measured: a usual value".to_owned()),
    };
    let (file, file_from) = match file_read() {
        Some(cost) => (cost, "disk, measured".to_owned()),
        None => (FILE, "disk, not measured: a usual value".to_owned()),
    };
    let us = |cost: Duration| cost.as_secs_f64() * 1e6;
    Price {
        anon_us: us(anon),
        file_us: us(file),
        anon_from,
        file_from,
    }
}

/// The file that holds pagetide's code: the program, or the library that another program (Python) has loaded.
fn own_file() -> Option<File> {
    let here = (price as fn(&Proc) -> Price as *const ()).addr() as u64;
    let maps = std::fs::read("/proc/self/maps").ok()?;
    let mut mappings = maps.split(|byte| *byte == b'\n').filter_map(parse_line);
    let own = mappings.find(|(mapping, _)| (mapping.start..mapping.end).contains(&here));
    File::open(OsStr::from_bytes(own?.1)).ok()
}

/// Median time of reading a page of [`own_file`] that is not in memory; `None` where all are.
fn file_read() -> Option<Duration> {
    let file = own_file()?;
    let length = file.metadata().ok()?.len();
    fadvise(&file, 0, None, FileAdvice::Random).ok()?;
    let mut page = [0; PAGE];
    let mut took = Vec::new();
    for at in (0..READS)
        .map(|read| read * APART)
        .take_while(|at| at + APART <= length)
    {
        let size = std::num::NonZeroU64::new(PAGE as u64);
        // Pages that a process maps stay in memory.
        fadvise(&file, at, size, FileAdvice::DontNeed).ok()?;
        let mut buffers = [IoSliceMut::new(&mut page)];
        if preadv2(&file, &mut buffers, at, ReadWriteFlags::NOWAIT).is_ok() {
            // It did not leave memory.
            continue;
        }
        let begin = Instant::now();
        file.read_exact_at(&mut page, at).ok()?;
        took.push(begin.elapsed());
        black_box(page[0]);
    }
    took.sort_unstable();
    took.get(took.len() / 2).copied()
}

/// What it costs here to bring a page back from swap.
#[derive(Debug, Default)]
pub(crate) struct SwapInCost(Option<(Instant, Duration)>);

impl SwapInCost {
    /// As measured on pages of our own, at most a minute ago; where these were not read, what the devices have taken for one since the boot.
    pub(crate) fn get(&mut self, proc: &Proc) -> Duration {
        if let Some((_, cost)) = self.0.filter(|(then, _)| then.elapsed() < STALE) {
            return cost;
        }
        let measured = measure(proc).unwrap_or_default();
        let cost = measured.unwrap_or_else(|| of_devices(proc));
        self.0 = Some((Instant::now(), cost));
        cost
    }
}

/// What reading a page takes where swap is slower than memory: the slowest area's device counts, as nobody knows where a page is. Nothing
/// where all is zram, or nothing.
fn of_devices(proc: &Proc) -> Duration {
    let areas = proc.swaps().unwrap_or_default();
    let slow = areas.iter().filter(|area| area.kind() != SwapKind::Zram);
    let takes = |area: &SwapArea| device_of(&area.path).and_then(|text| of_reads(&text));
    slow.map(|area| takes(area).unwrap_or(DISK))
        .max()
        .unwrap_or_default()
}

/// The figures of the device that an area is, or that its file is on.
fn device_of(area: &Path) -> Option<Vec<u8>> {
    let stat = stat(area).ok()?;
    let number = match FileType::from_raw_mode(stat.st_mode) {
        FileType::BlockDevice => stat.st_rdev,
        _ => stat.st_dev,
    };
    let (major, minor) = (major(number), minor(number));
    std::fs::read(format!("/sys/dev/block/{major}:{minor}/stat")).ok()
}

/// What a read took on average (Documentation/block/stat.rst: reads, ..., milliseconds in fourth place); none of a device that was never read.
fn of_reads(stat: &[u8]) -> Option<Duration> {
    let numbers: Vec<u64> = words(stat).map_while(number).collect();
    let (reads, ms) = (*numbers.first()?, *numbers.get(3)?);
    Some(Duration::from_micros((ms * 1000).checked_div(reads)?))
}

/// What touches took: their median, if most of them had to read; none else. (The story: what was written to a disk is still in memory when it is touched
/// at once, so one from there was told to take a microsecond, and `pressure` squeezed who waited half of its time.)
fn median(mut took: Vec<Duration>, read: u64) -> Option<Duration> {
    took.sort_unstable();
    let is_read = read * 2 >= took.len() as u64;
    took.get(took.len() / 2).copied().filter(|_| is_read)
}

/// The median of [`PAGES`]; of a host without swap it is next to nothing, as is what is waited for there.
fn measure(proc: &Proc) -> std::io::Result<Option<Duration>> {
    // Half of each page is noise: it compresses as programs' memory does.
    let mut noise = 0x9E37_79B9_7F4A_7C15_u64;
    let mut memory: Vec<u8> = (0..(PAGES + 1) * PAGE)
        .map(|at| {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            if at % PAGE < PAGE / 2 {
                noise.to_le_bytes()[0]
            } else {
                0
            }
        })
        .collect();
    let base = memory.as_mut_ptr().addr();
    let skip = base.next_multiple_of(PAGE) - base;
    let pages = &mut memory[skip..skip + PAGES * PAGE];
    // All our memory is locked.
    unlock(pages)?;
    let start = (base + skip) as u64;
    let own = pidfd_open(getpid(), PidfdFlags::empty())?;
    let range = start..start + (PAGES * PAGE) as u64;
    advise(&own, std::slice::from_ref(&range), Advice::PageOut)?;
    let majors = || {
        let stat = proc.stat(std::process::id()).ok().flatten();
        stat.map_or(0, |stat| stat.major_faults)
    };
    let before = majors();
    let took: Vec<Duration> = pages
        .chunks(PAGE)
        .map(|page| {
            let begin = Instant::now();
            black_box(page[0]);
            begin.elapsed()
        })
        .collect();
    Ok(median(took, majors().saturating_sub(before)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_price_and_it_says_where_it_is_from() {
        let price = price(&Proc::system().expect("/proc"));
        assert!(price.anon_us > 0.0 && price.file_us > 0.0, "{price:?}");
        assert!(price.anon_from.contains("measured") || price.anon_from.contains("device"));
        assert!(price.file_from.contains("disk"), "{price:?}");
    }

    #[test]
    fn a_page_costs_something() {
        let (mut cost, proc) = (SwapInCost::default(), Proc::system().expect("/proc"));
        let first = cost.get(&proc);
        // Without swap it is nothing; with zram some microseconds. In either case it is kept.
        assert_eq!(cost.get(&proc), first);
    }

    #[test]
    fn what_had_not_to_be_read_says_nothing() {
        let took = |micros: u64| vec![Duration::from_micros(micros); 64];
        assert_eq!(median(took(1), 0), None);
        assert_eq!(median(took(6), 64), Some(Duration::from_micros(6)));
        assert_eq!(median(Vec::new(), 0), None);
        let stat = b"     200        7     1600      160        9 0 72 3 0 4 5\n";
        assert_eq!(of_reads(stat), Some(Duration::from_micros(800)));
        assert_eq!(of_reads(b"0 0 0 0 0\n"), None);
        assert_eq!(of_reads(b""), None);
    }
}
