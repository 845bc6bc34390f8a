//! The kernel's own sums over the same processes, to stand beside ours, and what only it knows: shared
//! memory in swap, of which page tables say nothing.
//!
//! Invariant: asking costs no more than a four-hundredth of the time: the kernel walks all tables for
//! `smaps_rollup`, so the next question waits for 400 times what the last one took. And no process is held for longer than a clearing
//! of its bits may hold it, as far as that can be foreseen: the kernel has its lock while it goes through one mapping, and mmap,
//! munmap and the faults behind them wait for that. (The story: of a program of 8 GiB one mmap in a run took 80 ms.)

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use engine::Millis;

use crate::system::{Device, Filesystems, Kind, Proc};

/// How much longer than a question the pause behind it is.
const PAUSE: u32 = 400;
/// What the kernel takes for an entry, nanoseconds: 10 ms a GiB of small pages.
const ENTRY_NS: u64 = 40;
/// What all processes together may take: who waits for a report waits for this, too.
const ALL_MAX: Duration = Duration::from_secs(1);

/// A process whose sums are asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) pid: u32,
    /// Present entries, as of the last look; a huge page is one.
    pub(super) entries: u64,
    /// It may be held for so long.
    pub(super) at_most: Duration,
}

impl Member {
    fn takes(&self) -> Duration {
        Duration::from_nanos(self.entries.saturating_mul(ENTRY_NS))
    }
}

/// Sums of `smaps_rollup`, and shared memory in swap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Sums {
    pub(super) pss: u64,
    pub(super) swap_pss: u64,
    /// What one of them maps that others map, too: of the one with the most.
    pub(super) shared: u64,
    /// Bytes of shared memory in swap, of each file once.
    pub(super) shared_swap: u64,
}

/// The last answer, and when the next may be asked for.
#[derive(Debug, Default)]
pub(super) struct KernelSums {
    sums: Option<Sums>,
    asked: Option<Instant>,
    next: Option<Instant>,
    /// Why the kernel was not asked when it was time.
    unasked: Option<String>,
    filesystems: Option<Filesystems>,
}

impl KernelSums {
    /// Asks, unless it is too early, or would take too long.
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
        self.asked = Some(begin);
        let took = begin.elapsed().max(Duration::from_micros(100));
        self.next = Some(begin + took * PAUSE);
    }

    /// Why there are no sums, where that was our choice.
    pub(super) fn unasked(&self) -> Option<&str> {
        self.unasked.as_deref()
    }

    /// The last sums; `None` where one may not be read, or would take too long.
    pub(super) fn sums(&self) -> Option<Sums> {
        self.sums
    }

    /// How old they are, milliseconds.
    pub(super) fn age_ms(&self) -> u64 {
        let age = self.asked.map(|asked| asked.elapsed()).unwrap_or_default();
        Millis::from(age).0
    }

    fn sum(&mut self, members: &[Member], proc: &Proc, begin: Instant) -> Option<Sums> {
        // Device numbers are given out anew, and this is asked seldom. (The story: what a container's /dev/shm had in swap was in no sum where a file
        // system that is gone had had the number.)
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
                // A process that has ended has nothing.
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

    /// What of each file of shared memory a process's mappings show as swapped. Processes may map
    /// different parts of one; the most that one of them shows is at least there.
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
            // Of a private mapping, entries tell.
            if smap.mapping.kind == Kind::Shmem && smap.mapping.shared {
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

/// Why these are not asked for, if they are not.
fn too_long(members: &[Member]) -> Option<String> {
    let is_held = |one: &&Member| one.takes() > one.at_most;
    let held = members.iter().filter(is_held).max_by_key(|one| one.takes());
    if let Some(one) = held {
        let (pid, ms) = (one.pid, one.takes().as_millis());
        return Some(format!(
            "the kernel's own sums (Pss, shared memory in swap) were not asked for: that would hold pid {pid} up for some \
             {ms} ms (--max-wait of who looks at it)"
        ));
    }
    let all = members.iter().map(Member::takes).sum();
    (all > ALL_MAX).then(|| for_all(all))
}

fn locked(pid: u32) -> String {
    format!(
        "the kernel's own sums (Pss, shared memory in swap) are left out: the memory of pid {pid} is locked"
    )
}

fn for_all(takes: Duration) -> String {
    let ms = takes.as_millis();
    format!(
        "the kernel's own sums (Pss, shared memory in swap) are left out: of so much memory they take {ms} ms and more"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(members: &[Member]) -> KernelSums {
        let mut kernel = KernelSums::default();
        kernel.ask(members, &Proc::system().expect("/proc"));
        kernel
    }

    /// A process of 4 TiB that may be held for 5 ms is not asked about; one that is small, or that waits for nothing, is.
    #[test]
    fn who_would_be_held_for_too_long_is_not_asked_about() {
        let ms = Duration::from_millis;
        let member = |entries, at_most| Member {
            pid: std::process::id(),
            entries,
            at_most,
        };
        let small = member(1000, ms(5));
        let kernel = asked(&[small, member(1 << 30, ms(5))]);
        assert_eq!(kernel.sums(), None);
        let why = kernel.unasked().unwrap_or_default();
        assert!(
            why.contains("42949 ms (--max-wait of who looks at it)"),
            "{why}"
        );
        let kernel = asked(&[small, member(1 << 20, ms(250))]);
        assert!(kernel.sums().is_some_and(|sums| sums.pss > 0));
        assert_eq!(kernel.unasked(), None);
        // Many that are small by themselves.
        let kernel = asked(&[member(1 << 20, ms(250)); 30]);
        assert!(kernel.sums().is_none() && kernel.unasked().is_some());
    }
}
