//! Price of a refault: the time that it takes to read a page back from swap, and from a file.
//!
//! Invariant: a price is measured on this host, with memory and a file of pagetide itself;
//! otherwise the price's text says that it was not measured. One measurement reads fewer than 100
//! pages. `SwapInCost` measures at most once a minute.

use std::ffi::OsStr;
use std::fs::File;
use std::hint::black_box;
use std::io::IoSliceMut;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use engine::units::{PAGE_LEN, PAGE_SIZE};
use pagetables::{Advice, advise};
use rustix::fs::{Advice as FileAdvice, FileType, fadvise, major, minor, stat};
use rustix::io::{ReadWriteFlags, preadv2};
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use sys::unlock;

use crate::report::Price;
use crate::system::Proc;
use crate::system::maps::parse_line;
use crate::system::swap::{SwapArea, SwapKind};
use crate::system::text::{number, words};

/// Number of pages that a measurement pages out.
const PAGES: usize = 64;
/// Assumed time to read a page from a swap device if the device has no statistics.
const DISK: Duration = Duration::from_millis(1);
/// Time after which a measurement is repeated: swap areas and the host's load may have changed.
const STALE: Duration = Duration::from_secs(60);

/// Assumed time to swap in a page from zram if no time could be measured.
const ZRAM: Duration = Duration::from_micros(15);
/// Assumed time to read a page of a file if no time could be measured.
const FILE: Duration = Duration::from_micros(100);
/// Maximum number of pages that are read from pagetide's own file (`READS`), and the distance
/// between two of them in bytes (`APART`).
const READS: u64 = 16;
const APART: u64 = 1 << 20;

/// Text in a report for a price that was measured on this host.
const HERE: &str = "measured here";
/// Text in a report for a price that was not measured on this host.
const USUAL: &str = "a usual value, not measured here";

/// Returns the largest number of pages that the kernel reads for a fault on one page of a file: the
/// maximum of `read_ahead_kb` over all devices of this host.
#[must_use]
pub fn read_around() -> u64 {
    // The kernel's default, if no device reports a value.
    const UNSET_KIB: u64 = 128;
    let devices = std::fs::read_dir("/sys/class/bdi").into_iter().flatten();
    let kib = devices.flatten().filter_map(|device| {
        let text = std::fs::read(device.path().join("read_ahead_kb")).ok()?;
        number(text.trim_ascii())
    });
    kib.max().unwrap_or(UNSET_KIB) / 4
}

/// Returns the price of a refault on this host. If it cannot be measured, returns a usual value,
/// and the text says so.
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
    let devices = || reported_by_devices(proc);
    let (anon, anon_how) = match measured {
        Some(cost) => (cost, HERE),
        None if name == "swap" => match devices() {
            Some(cost) => (cost, "an average of its device's reads here"),
            None => (DISK, USUAL),
        },
        None => (ZRAM, USUAL),
    };
    let (file, file_how) = file_read().map_or((FILE, USUAL), |cost| (cost, HERE));
    let us = |cost: Duration| cost.as_secs_f64() * 1e6;
    Price {
        anon_us: us(anon),
        file_us: us(file),
        anon_from: format!("{name}, {anon_how}"),
        file_from: format!("disk, {file_how}"),
        anon_measured: anon_how != USUAL,
        file_measured: file_how != USUAL,
    }
}

/// Opens the file that contains pagetide's code: the executable, or the shared library if another
/// program (Python) loaded pagetide.
fn own_file() -> Option<File> {
    let here = (price as fn(&Proc) -> Price as *const ()).addr() as u64;
    let maps = std::fs::read("/proc/self/maps").ok()?;
    let mut mappings = maps.split(|byte| *byte == b'\n').filter_map(parse_line);
    let own = mappings.find(|(mapping, _)| (mapping.start..mapping.end).contains(&here));
    File::open(OsStr::from_bytes(own?.1)).ok()
}

/// Returns the median time of reading a page of [`own_file`] that is not in memory; `None` if all
/// pages that were tried are in memory.
fn file_read() -> Option<Duration> {
    let file = own_file()?;
    let length = file.metadata().ok()?.len();
    fadvise(&file, 0, None, FileAdvice::Random).ok()?;
    let mut page = [0; PAGE_LEN];
    let mut took = Vec::new();
    for at in (0..READS)
        .map(|read| read * APART)
        .take_while(|at| at + APART <= length)
    {
        let size = std::num::NonZeroU64::new(PAGE_SIZE);
        // The kernel keeps pages that a process maps.
        fadvise(&file, at, size, FileAdvice::DontNeed).ok()?;
        let mut buffers = [IoSliceMut::new(&mut page)];
        if preadv2(&file, &mut buffers, at, ReadWriteFlags::NOWAIT).is_ok() {
            // The page is still in memory.
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

/// Keeps the time that swapping in one page takes on this host; measures it at most once a minute.
#[derive(Debug, Default)]
pub(crate) struct SwapInCost(Option<(Instant, Duration)>);

impl SwapInCost {
    /// Returns the time, measured on our own pages at most a minute ago. If those pages were not
    /// read from swap, returns the average read time of the slowest swap device since boot.
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

/// Returns the average read time of the slowest swap device, as it is unknown which swap area has a
/// page. Returns zero if all swap is zram or there is none.
fn of_devices(proc: &Proc) -> Duration {
    let areas = proc.swaps().unwrap_or_default();
    let slow = areas.iter().filter(|area| area.kind() != SwapKind::Zram);
    slow.map(|area| takes(area).unwrap_or(DISK))
        .max()
        .unwrap_or_default()
}

/// Returns the average read time of the slowest swap device that has statistics; `None` if no
/// device has any. Ignores zram.
fn reported_by_devices(proc: &Proc) -> Option<Duration> {
    let areas = proc.swaps().unwrap_or_default();
    let slow = areas.iter().filter(|area| area.kind() != SwapKind::Zram);
    slow.filter_map(takes).max()
}

/// Returns the average read time of a swap area's device; `None` if it has no statistics.
fn takes(area: &SwapArea) -> Option<Duration> {
    of_reads(&device_of(&area.path)?)
}

/// Returns the `stat` file of the block device that is the swap area, or that contains the swap
/// file.
fn device_of(area: &Path) -> Option<Vec<u8>> {
    let stat = stat(area).ok()?;
    let number = match FileType::from_raw_mode(stat.st_mode) {
        FileType::BlockDevice => stat.st_rdev,
        _ => stat.st_dev,
    };
    let (major, minor) = (major(number), minor(number));
    std::fs::read(format!("/sys/dev/block/{major}:{minor}/stat")).ok()
}

/// Returns the average time of a read from the text of a device's `stat` file; `None` if the device
/// was never read. The first number is the number of reads, the fourth is their total time in
/// milliseconds (Documentation/block/stat.rst).
fn of_reads(stat: &[u8]) -> Option<Duration> {
    let numbers: Vec<u64> = words(stat).map_while(number).collect();
    let (reads, ms) = (*numbers.first()?, *numbers.get(3)?);
    Some(Duration::from_micros((ms * 1000).checked_div(reads)?))
}

/// Returns the median of `took`, the times to touch paged-out pages. `None` if `read`, the number
/// of touches that read from swap, is less than half of all touches. Pages just written to a disk
/// are still in memory, and touching them takes only a microsecond.
fn median(mut took: Vec<Duration>, read: u64) -> Option<Duration> {
    took.sort_unstable();
    let is_read = read * 2 >= took.len() as u64;
    took.get(took.len() / 2).copied().filter(|_| is_read)
}

/// Pages out [`PAGES`] pages of our own, touches them, and returns the median time of a touch;
/// `None` if fewer than half of the touches read from swap.
fn measure(proc: &Proc) -> std::io::Result<Option<Duration>> {
    // Half of each page is random, so that it compresses like a program's memory.
    let mut noise = 0x9E37_79B9_7F4A_7C15_u64;
    let mut memory: Vec<u8> = (0..(PAGES + 1) * PAGE_LEN)
        .map(|at| {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            if at % PAGE_LEN < PAGE_LEN / 2 {
                noise.to_le_bytes()[0]
            } else {
                0
            }
        })
        .collect();
    let base = memory.as_mut_ptr().addr();
    let skip = base.next_multiple_of(PAGE_LEN) - base;
    let pages = &mut memory[skip..skip + PAGES * PAGE_LEN];
    // All our memory is locked, and locked pages cannot be paged out.
    unlock(pages)?;
    let start = (base + skip) as u64;
    let own = pidfd_open(getpid(), PidfdFlags::empty())?;
    let range = start..start + (PAGES * PAGE_LEN) as u64;
    advise(&own, std::slice::from_ref(&range), Advice::PageOut)?;
    let majors = || {
        let stat = proc.stat(std::process::id()).ok().flatten();
        stat.map_or(0, |stat| stat.major_faults)
    };
    let before = majors();
    let took: Vec<Duration> = pages
        .chunks(PAGE_LEN)
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
    fn a_price_says_how_it_was_found() {
        let price = price(&Proc::system().expect("/proc"));
        assert!(price.anon_us > 0.0 && price.file_us > 0.0, "{price:?}");
        assert_eq!(
            price.anon_measured,
            !price.anon_from.ends_with(USUAL),
            "{price:?}"
        );
        assert_eq!(
            price.file_measured,
            !price.file_from.ends_with(USUAL),
            "{price:?}"
        );
        let words = price.words();
        assert!(
            words.contains(&price.anon_from) && words.contains(&price.file_from),
            "{words}"
        );
    }

    #[test]
    fn a_page_costs_something() {
        let (mut cost, proc) = (SwapInCost::default(), Proc::system().expect("/proc"));
        let first = cost.get(&proc);
        // The cost is zero without swap, and microseconds with zram; a second call returns the
        // same.
        assert_eq!(cost.get(&proc), first);
    }

    #[test]
    fn touches_that_read_nothing_yield_no_price() {
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
