//! The kernel's own sums over the watched processes, to compare with ours; and shared memory in
//! swap, which page tables do not show.
//!
//! Invariant: reading the sums takes at most 1/400 of the time: after a read that took a time T,
//! the next read waits for 400 * T, as the kernel walks all page tables for `smaps_rollup`.
//!
//! No process is delayed for longer than clearing its bits may delay it, as far as can be
//! predicted. While the kernel goes through one mapping it holds the process's mmap lock, and mmap,
//! munmap and page faults wait (up to 80 ms for one mmap of a program of 8 GiB).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use engine::Millis;

use crate::system::{Device, Filesystems, Kind, Proc};

/// Pause after a read, as a multiple of the time that the read took.
const PAUSE: u32 = 400;
/// Time that the kernel takes for one page table entry, nanoseconds: 10 ms for 1 GiB of 4 KiB
/// pages.
const ENTRY_NS: u64 = 40;
/// Most time that reading all processes together may take: the caller waits for the report.
const ALL_MAX: Duration = Duration::from_secs(1);

/// A process that the sums cover.
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
    /// The most bytes that any one of the processes shares with others.
    pub(super) shared: u64,
    /// Bytes of shared memory in swap; each file counts once.
    pub(super) shared_swap: u64,
}

/// The last sums that were read, and the time from which they may be read again.
#[derive(Debug, Default)]
pub(super) struct KernelSums {
    sums: Option<Sums>,
    requested: Option<Instant>,
    next: Option<Instant>,
    /// Why the sums were not read when the pause was over; `None` if they were read.
    unasked: Option<String>,
    filesystems: Option<Filesystems>,
}

impl KernelSums {
    /// Reads the sums, unless the pause is not over yet or the read would take too long.
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

    /// Returns why there are no sums, if we chose not to read them.
    pub(super) fn unasked(&self) -> Option<&str> {
        self.unasked.as_deref()
    }

    /// Returns the last sums; `None` if a process may not be read, or the read would take too long.
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

    /// Reads and adds up the sums of all processes; `None` if one may not be read.
    fn sum(&mut self, members: &[Member], proc: &Proc, begin: Instant) -> Option<Sums> {
        // The kernel reuses device numbers, so the list of file systems is read anew: the number of
        // an unmounted file system may now be that of a container's /dev/shm.
        self.filesystems = None;
        let mut sums = Sums::default();
        let mut of_files = BTreeMap::new();
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
            if rollup.swap > private {
                self.add_shared(pid, proc, &mut of_files);
            }
        }
        sums.shared_swap = of_files.into_values().sum();
        Some(sums)
    }

    /// Adds the swapped bytes of each shared-memory file, as one process's mappings show them.
    /// Processes may map different parts of a file: the largest amount is kept, a lower bound.
    fn add_shared(&mut self, pid: u32, proc: &Proc, of_files: &mut BTreeMap<(Device, u64), u64>) {
        if self.filesystems.is_none() {
            self.filesystems = Filesystems::system(proc).ok();
        }
        let Some(filesystems) = &mut self.filesystems else {
            return;
        };
        let mut own: BTreeMap<(Device, u64), u64> = BTreeMap::new();
        for smap in proc
            .smaps(pid, filesystems)
            .ok()
            .flatten()
            .unwrap_or_default()
        {
            // For private mappings our walks count swap entries.
            if smap.mapping.kind == Kind::Shmem && smap.mapping.is_shared {
                let file = (smap.mapping.device, smap.mapping.inode);
                *own.entry(file).or_default() += smap.swap;
            }
        }
        for (file, bytes) in own {
            let known = of_files.entry(file).or_default();
            *known = bytes.max(*known);
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

/// Returns the reason that a process's mmap_lock is held, in words.
fn locked(pid: u32) -> String {
    format!(
        "the kernel's own sums (Pss, shared memory in swap) are left out: the memory of pid {pid} is locked"
    )
}

/// Returns the reason that reading all processes takes too long, in words.
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

    /// No sums are read of a process of 4 TiB that may be delayed for 5 ms. They are read of a
    /// small process, and of one that may be delayed for long.
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
