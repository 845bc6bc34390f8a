//! Memory pressure of a tenant that the kernel tells none of (version 1, or PSI switched off): how long its tasks waited for
//! pages to come back from swap.
//!
//! Invariant: an estimate, from two figures that were measured: how many pages the kernel says have come back, and what one
//! costs here. It never says that more time was waited than has passed. Averages decay as the kernel's do
//! (Documentation/accounting/psi.rst).

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use pagetables::{Advice, advise, unlock};
use rustix::fs::{FileType, major, minor, stat};
use rustix::process::{PidfdFlags, getpid, pidfd_open};

use crate::system::Proc;
use crate::system::cgroup::Version;
use crate::system::pressure::{Pressure, Stall};
use crate::system::swap::{SwapArea, SwapKind};
use crate::system::text::{flat, number, words};

/// What is waited for is averaged over so many seconds.
const WINDOWS: [f64; 3] = [10.0, 60.0, 300.0];
/// Pages that are paged out to see what one costs.
const PAGES: usize = 64;
const PAGE: usize = 4096;
/// What a read takes of a device that does not say.
const DISK: Duration = Duration::from_millis(1);
/// What one costs is measured again after so long: other swap may be on, and the host busier.
const STALE: Duration = Duration::from_secs(60);

/// How often the tasks of a group, with all below it, have waited for a page of theirs to come back: no more often than the
/// kernel counts major faults, as pages that are read ahead come by themselves.
pub(super) fn swap_ins(stat: &[u8], version: Version) -> u64 {
    let names = match version {
        Version::V1 => ["total_workingset_refault_anon", "total_pgmajfault"],
        Version::V2 => ["workingset_refault_anon", "pgmajfault"],
    };
    let counts = names.map(|name| flat(stat, name).unwrap_or(0));
    counts[0].min(counts[1])
}

/// What it costs here to bring a page back from swap.
#[derive(Debug, Default)]
pub(super) struct SwapInCost(Option<(Instant, Duration)>);

impl SwapInCost {
    /// As measured on pages of our own, at most a minute ago; where these were not read, what the devices have taken for one since the boot.
    pub(super) fn get(&mut self, proc: &Proc) -> Duration {
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

/// What a tenant's tasks have waited.
#[derive(Debug)]
pub(super) struct Stalls {
    seen: u64,
    at: Instant,
    total: Duration,
    /// Percent, by [`WINDOWS`].
    averages: [f64; 3],
}

impl Stalls {
    /// From now on; `swap_ins` were before.
    pub(super) fn new(swap_ins: u64, now: Instant) -> Stalls {
        Stalls {
            seen: swap_ins,
            at: now,
            total: Duration::ZERO,
            averages: [0.0; 3],
        }
    }

    /// There were so many by now.
    pub(super) fn update(&mut self, swap_ins: u64, cost: Duration, now: Instant) -> Pressure {
        let passed = now.saturating_duration_since(self.at);
        let more = swap_ins.saturating_sub(self.seen);
        let waited = cost.saturating_mul(u32::try_from(more).unwrap_or(u32::MAX));
        let waited = waited.min(passed);
        (self.seen, self.at) = (swap_ins, now);
        self.total += waited;
        if !passed.is_zero() {
            let share = 100.0 * waited.as_secs_f64() / passed.as_secs_f64();
            for (average, window) in self.averages.iter_mut().zip(WINDOWS) {
                let decay = (-passed.as_secs_f64() / window).exp();
                *average = share + (*average - share) * decay;
            }
        }
        let hundredths = |at: usize| hundredths(self.averages[at]);
        let some = Stall {
            avg10: hundredths(0),
            avg60: hundredths(1),
            avg300: hundredths(2),
            total_us: u64::try_from(self.total.as_micros()).unwrap_or(u64::MAX),
        };
        // Whether others could run meanwhile is not known.
        Pressure { some, full: None }
    }
}

/// Of a percent, as the kernel tells shares.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share is 0 to 100"
)]
fn hundredths(percent: f64) -> u32 {
    (percent * 100.0).round() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_decays_and_is_no_more_than_what_has_passed() {
        let begin = Instant::now();
        let mut stalls = Stalls::new(100, begin);
        let cost = Duration::from_micros(50);
        let second = Duration::from_secs(1);
        // 2,000 of 50 us in a second: 10%, of which 1 - exp(-1/10) is in the average by then.
        let one = stalls.update(2100, cost, begin + second).some;
        assert_eq!((one.total_us, one.avg10), (100_000, 95));
        let later = stalls.update(2100, cost, begin + second * 11).some;
        assert_eq!((later.total_us, later.avg10), (100_000, 35));
        assert!(later.avg300 < later.avg60 && later.avg60 < later.avg10);
        // Several tasks wait at once: a second is a second.
        let full = stalls.update(1_000_000, cost, begin + second * 12).some;
        assert_eq!(full.total_us, 1_100_000);
        // A group that was made anew counts from nought.
        let same = stalls.update(5, cost, begin + second * 13).some;
        assert_eq!(same.total_us, 1_100_000);
    }

    #[test]
    fn read_ahead_is_not_waited_for() {
        let text = b"workingset_refault_anon 9\ntotal_workingset_refault_anon 80\ntotal_pgmajfault 10\npgmajfault 3\n";
        assert_eq!(swap_ins(text, Version::V1), 10);
        assert_eq!(swap_ins(text, Version::V2), 3);
        assert_eq!(swap_ins(b"", Version::V2), 0);
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
