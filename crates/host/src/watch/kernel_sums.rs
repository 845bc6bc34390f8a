//! The kernel's own sums over the watched processes, to compare with ours. Also what our walks do
//! not show: shared memory in swap, secret memory, and memory of devices.
//!
//! Invariant: reading the sums takes at most 1/400 of the time, because for `smaps_rollup` the
//! kernel walks all page tables. After a read that took a time T, the next read is at least 400 * T
//! later.
//!
//! No process is delayed for longer than clearing its bits may delay it, as far as that can be
//! predicted. While the kernel walks one mapping it holds the process's mmap_lock, and the
//! process's mmap, munmap and page faults wait (for up to 80 ms in a program of 8 GiB).

use std::time::{Duration, Instant};

use engine::Millis;

use super::mapped_files::MappedFiles;
use crate::system::{Filesystems, Kind, Mapping, Proc};

/// Pause after a read, as a multiple of the time that the read took.
const PAUSE: u32 = 400;
/// Time that the kernel takes for one page table entry, nanoseconds; 1 GiB of 4 KiB pages takes 10
/// ms.
const ENTRY_NS: u64 = 40;
/// Maximum time for reading the sums of all processes together, as the caller waits for its report.
const ALL_MAX: Duration = Duration::from_secs(1);

/// A process that the sums include.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) pid: u32,
    /// Present page table entries as of the last scan; a huge page has one entry.
    pub(super) entries: u64,
    /// Longest time for which the process may be delayed.
    pub(super) at_most: Duration,
}

impl Member {
    /// Returns the time for which the kernel is expected to hold the process's mmap lock.
    fn takes(&self) -> Duration {
        Duration::from_nanos(self.entries.saturating_mul(ENTRY_NS))
    }
}

/// Sums of the processes' `smaps_rollup`, and of their shared memory in swap, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Sums {
    pub(super) pss: u64,
    pub(super) swap_pss: u64,
    /// The most bytes that a single process shares with others.
    pub(super) shared: u64,
    /// Bytes of shared memory in swap. Each part of a file counts once, however often it is mapped.
    pub(super) shared_swap: u64,
    /// Resident secret memory (memfd_secret(2)), which is never in swap and has no ages.
    pub(super) secret: u64,
    /// Resident memory of devices and rings (packet sockets, io_uring, perf), which has no ages.
    pub(super) device: u64,
    /// Size of mappings whose frames the kernel counts in no Rss (memory of a device).
    pub(super) pfn: u64,
}

/// What is mapped of files that our walks do not show.
#[derive(Debug, Default)]
struct Unwalked {
    swap: MappedFiles,
    secret: MappedFiles,
    device: MappedFiles,
    /// Bytes of anonymous inodes, which all have one inode number.
    rings: u64,
    pfn: MappedFiles,
}

/// The last sums that were read, and the time from which they may be read again.
#[derive(Debug, Default)]
pub(super) struct KernelSums {
    sums: Option<Sums>,
    requested: Option<Instant>,
    next: Option<Instant>,
    /// Why the sums were not read although the pause was over; `None` if they were read.
    unasked: Option<String>,
    filesystems: Option<Filesystems>,
}

impl KernelSums {
    /// Reads the sums, unless the pause is not over or the read would take too long.
    pub(super) fn ask(&mut self, members: &[Member], proc: &Proc) {
        let begin = Instant::now();
        if self.next.is_some_and(|next| begin < next) {
            return;
        }
        self.unasked = too_long(members);
        self.sums = match self.unasked {
            Some(_) => None,
            None => self.sum(members, proc, begin),
        };
        self.requested = Some(begin);
        let took = begin.elapsed().max(Duration::from_micros(100));
        self.next = Some(begin + took * PAUSE);
    }

    /// Returns the reason if we chose not to read the sums; otherwise `None`.
    pub(super) fn unasked(&self) -> Option<&str> {
        self.unasked.as_deref()
    }

    /// Returns the last sums; `None` if a process may not be read, or if the read would take too
    /// long.
    pub(super) fn sums(&self) -> Option<Sums> {
        self.sums
    }

    /// Returns the age of the sums, milliseconds.
    pub(super) fn age_ms(&self) -> u64 {
        let age = self
            .requested
            .map(|requested| requested.elapsed())
            .unwrap_or_default();
        Millis::from(age).0
    }

    /// Reads and adds up the sums of all processes; `None` if a process may not be read.
    fn sum(&mut self, members: &[Member], proc: &Proc, begin: Instant) -> Option<Sums> {
        // The kernel reuses device numbers, so the list of file systems is read again: the number
        // of an unmounted file system may now be that of a container's /dev/shm.
        self.filesystems = None;
        let mut sums = Sums::default();
        let mut unwalked = Unwalked::default();
        for Member { pid, .. } in members.iter().copied() {
            let took = begin.elapsed();
            if took > ALL_MAX {
                self.unasked = Some(for_all(took));
                return None;
            }
            let rollup = match proc.smaps_rollup(pid) {
                Ok(Some(rollup)) => rollup,
                // The process has ended, and adds nothing.
                Ok(None) => continue,
                Err(error) => {
                    self.unasked = error.is_locked().then(|| locked(pid));
                    return None;
                }
            };
            sums.pss += rollup.pss;
            sums.swap_pss += rollup.swap_pss;
            sums.shared = sums.shared.max(rollup.shared);
            let private = proc
                .status(pid)
                .ok()
                .flatten()
                .map_or(0, |status| status.swap);
            if rollup.swap > private || self.maps_devices(pid, proc) {
                self.add_unwalked(pid, proc, &mut unwalked);
            }
        }
        sums.shared_swap = unwalked.swap.sum();
        sums.secret = unwalked.secret.sum();
        sums.device = unwalked.device.sum().saturating_add(unwalked.rings);
        sums.pfn = unwalked.pfn.sum();
        Some(sums)
    }

    /// Returns the file systems of this host, read at most once for all processes.
    fn filesystems(&mut self, proc: &Proc) -> Option<&mut Filesystems> {
        if self.filesystems.is_none() {
            self.filesystems = Filesystems::system(proc).ok();
        }
        self.filesystems.as_mut()
    }

    /// Whether a process maps memory that our walks do not read: of a device, a ring, or secret.
    /// Finding that out is much cheaper than smaps, and few processes do.
    fn maps_devices(&mut self, pid: u32, proc: &Proc) -> bool {
        let maps = self
            .filesystems(proc)
            .and_then(|filesystems| proc.named_maps(pid, filesystems).ok().flatten());
        let is_unwalked = |(mapping, name): (&Mapping, &[u8])| {
            mapping.kind == Kind::Device && !name.is_empty() && !name.starts_with(b"[")
        };
        maps.is_some_and(|maps| maps.named().any(is_unwalked))
    }

    /// Adds what one process maps of shared memory in swap, of secret memory, and of devices.
    fn add_unwalked(&mut self, pid: u32, proc: &Proc, unwalked: &mut Unwalked) {
        let smaps = self
            .filesystems(proc)
            .and_then(|filesystems| proc.smaps(pid, filesystems).ok().flatten());
        for smap in smaps.unwrap_or_default() {
            let mapping = &smap.mapping;
            match mapping.kind {
                // For private mappings our walks count swap entries.
                Kind::Shmem if mapping.is_shared => unwalked.swap.add(mapping, smap.swap),
                Kind::Device if smap.is_secret => unwalked.secret.add(mapping, smap.rss),
                Kind::Device if smap.is_named && smap.is_pfn_map() => {
                    unwalked.pfn.add(mapping, smap.size);
                }
                Kind::Device if smap.is_anon_inode => unwalked.rings += smap.rss,
                Kind::Device if smap.is_named => unwalked.device.add(mapping, smap.rss),
                _ => {}
            }
        }
    }
}

/// Returns why the sums of these processes are not read; `None` if they can be read.
fn too_long(members: &[Member]) -> Option<String> {
    let is_held = |one: &&Member| one.takes() > one.at_most;
    let held = members.iter().filter(is_held).max_by_key(|one| one.takes());
    if let Some(one) = held {
        let (pid, ms) = (one.pid, one.takes().as_millis());
        return Some(format!(
            "the kernel's own sums (Pss, shared memory in swap) were not read: that would stall \
             pid {pid} for about {ms} ms, longer than --max-wait of the pagetide that scans it \
             allows"
        ));
    }
    let all = members.iter().map(Member::takes).sum();
    (all > ALL_MAX).then(|| for_all(all))
}

/// Returns, in words, the reason that another task holds a process's mmap_lock.
fn locked(pid: u32) -> String {
    format!(
        "the kernel's own sums (Pss, shared memory in swap) are left out: the memory of pid {pid} is locked"
    )
}

/// Returns, in words, the reason that reading all processes takes too long.
fn for_all(takes: Duration) -> String {
    let ms = takes.as_millis();
    format!(
        "the kernel's own sums (Pss, shared memory in swap) are left out: with so much memory they take {ms} ms or more"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requested(members: &[Member]) -> KernelSums {
        let mut kernel = KernelSums::default();
        kernel.ask(members, &Proc::system().expect("/proc"));
        kernel
    }

    /// No sums are read of a process of 4 TiB that may be delayed for 5 ms only. Sums are read of a
    /// small process, and of a process that may be delayed for long.
    #[test]
    fn no_sums_of_a_process_that_would_be_delayed_too_long() {
        let ms = Duration::from_millis;
        let member = |entries, at_most| Member {
            pid: std::process::id(),
            entries,
            at_most,
        };
        let small = member(1000, ms(5));
        let kernel = requested(&[small, member(1 << 30, ms(5))]);
        assert_eq!(kernel.sums(), None);
        let why = kernel.unasked().unwrap_or_default();
        assert!(why.contains("42949 ms, longer than --max-wait"), "{why}");
        let kernel = requested(&[small, member(1 << 20, ms(250))]);
        assert!(kernel.sums().is_some_and(|sums| sums.pss > 0));
        assert_eq!(kernel.unasked(), None);
        // Many processes, each of them small.
        let kernel = requested(&[member(1 << 20, ms(250)); 30]);
        assert!(kernel.sums().is_none() && kernel.unasked().is_some());
    }
}
