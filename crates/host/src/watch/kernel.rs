//! The kernel's own sums over the same processes, to stand beside ours, and what only it knows: shared
//! memory in swap, of which page tables say nothing.
//!
//! Invariant: asking costs no more than a four-hundredth of the time: the kernel walks all tables for
//! `smaps_rollup`, so the next question waits for 400 times what the last one took.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use engine::Millis;

use crate::system::{Device, Filesystems, Identity, Kind, Proc};

/// How much longer than a question the pause behind it is.
const PAUSE: u32 = 400;

/// Sums of `smaps_rollup`, and shared memory in swap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Sums {
    pub(super) pss: u64,
    pub(super) swap_pss: u64,
    /// Bytes of shared memory in swap, of each file once.
    pub(super) shared_swap: u64,
}

/// The last answer, and when the next may be asked for.
#[derive(Debug, Default)]
pub(super) struct Kernel {
    sums: Option<Sums>,
    asked: Option<Instant>,
    next: Option<Instant>,
    filesystems: Option<Filesystems>,
}

impl Kernel {
    /// Asks, unless it is too early.
    pub(super) fn ask(&mut self, members: &[Identity], proc: &Proc) {
        let begin = Instant::now();
        if self.next.is_some_and(|next| begin < next) {
            return;
        }
        self.sums = self.sum(members, proc);
        self.asked = Some(begin);
        let took = begin.elapsed().max(Duration::from_micros(100));
        self.next = Some(begin + took * PAUSE);
    }

    /// The last sums; `None` where one may not be read.
    pub(super) fn sums(&self) -> Option<Sums> {
        self.sums
    }

    /// How old they are, milliseconds.
    pub(super) fn age_ms(&self) -> u64 {
        let age = self.asked.map(|asked| asked.elapsed()).unwrap_or_default();
        Millis::from(age).0
    }

    fn sum(&mut self, members: &[Identity], proc: &Proc) -> Option<Sums> {
        let mut sums = Sums::default();
        let mut of_files = BTreeMap::new();
        for identity in members {
            // A process that has ended has nothing.
            let Some(rollup) = proc.smaps_rollup(identity.pid).ok()? else {
                continue;
            };
            sums.pss += rollup.pss;
            sums.swap_pss += rollup.swap_pss;
            let private = proc
                .status(identity.pid)
                .ok()
                .flatten()
                .map_or(0, |status| status.swap);
            if rollup.swap > private {
                self.add_shared(identity.pid, proc, &mut of_files);
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
