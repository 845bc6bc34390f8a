//! Where our thread runs while it pages out: on the processor of the process whose pages leave.
//!
//! Invariant: when a [`Near`] is gone, the thread may run wherever it might before.
//!
//! From another processor each page that leaves interrupts the one where its process runs, and waits for it to
//! have forgotten the page: 55 us a page under a hypervisor, against 9 us from its own.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::system::Proc;

/// As long as it lives, the thread that made it runs on one processor.
pub(super) struct Near(CpuSet);

impl Near {
    /// On the processor where this process runs at the moment; none if it sleeps (then nobody is interrupted), or
    /// if the kernel does not let us.
    pub(super) fn to(proc: &Proc, pid: u32) -> Option<Near> {
        let stat = proc.stat(pid).ok().flatten()?;
        if stat.state != b'R' {
            return None;
        }
        let before = sched_getaffinity(None).ok()?;
        let processor = usize::try_from(stat.processor).ok()?;
        if processor >= CpuSet::MAX_CPU {
            return None;
        }
        let mut one = CpuSet::new();
        one.set(processor);
        sched_setaffinity(None, &one).ok()?;
        Some(Near(before))
    }
}

impl Drop for Near {
    fn drop(&mut self) {
        // It was allowed before; if it is not any more, the kernel has chosen others.
        let _ = sched_setaffinity(None, &self.0);
    }
}
