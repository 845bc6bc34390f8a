//! Where our thread runs while it pages out: on the processor of the process whose pages leave.
//!
//! Invariant: when a [`Near`] is gone, the thread may run wherever it might before.
//!
//! The kernel interrupts the processor where a process runs, and waits for it to have forgotten translations: for each page
//! that was written since it came in, and once for each range. Under a hypervisor (docs/benchmarks.md, `outsider`) written
//! pages leave at 15 to 18 us from another processor and hold the program up for half of that, from its own at 8 to 11 us,
//! half of them the program's. What was only read leaves in ranges at 5 to 6 us, and the program loses some 1 us.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::system::Proc;
use crate::system::process::Stat;

/// Whether pages that leave, in so many ranges, and so many of them dirty, had better do so from the processor of
/// their process: from another one there would be an interrupt for every second page, or more.
pub(super) const fn pays(pages: usize, ranges: usize, dirty: usize) -> bool {
    (ranges + dirty) * 2 > pages
}

/// To ask more threads than that where they run would take longer than is saved.
const THREADS_MAX: usize = 64;

/// As long as it lives, the thread that made it runs on one processor.
pub(super) struct Near {
    processor: usize,
    before: CpuSet,
}

impl Near {
    /// On the one processor where threads of this process run at the moment; none if all of them sleep (then nobody is
    /// interrupted), if they run on several (somebody is, from wherever), or if the kernel does not let us.
    pub(super) fn to(proc: &Proc, pid: u32) -> Option<Near> {
        let first = proc.stat(pid).ok().flatten()?;
        if first.threads <= 1 {
            return Near::on(Some(first).filter(is_running)?);
        }
        // Of Java's threads the first one does nothing at all.
        let threads = proc.threads(pid).ok()?;
        if threads.len() > THREADS_MAX {
            return None;
        }
        let stat = |thread: &u32| proc.thread_stat(pid, *thread).ok().flatten();
        let mut running = threads.iter().filter_map(stat).filter(is_running);
        let one = running.next()?;
        let same = running.all(|other| other.processor == one.processor);
        same.then(|| Near::on(one)).flatten()
    }

    /// On the processor where a thread of this process runs, or its first one ran last; none if the kernel does not let us. Pages that came in there
    /// wait there for their list, some thirty of them, and only a call from there takes them off.
    pub(super) fn to_last(proc: &Proc, pid: u32) -> Option<Near> {
        let first = proc.stat(pid).ok().flatten()?;
        let threads = match first.threads {
            0 | 1 => Vec::new(),
            _ => proc.threads(pid).unwrap_or_default(),
        };
        let stat = |thread: &u32| proc.thread_stat(pid, *thread).ok().flatten();
        let mut running = threads
            .iter()
            .take(THREADS_MAX)
            .filter_map(stat)
            .filter(is_running);
        Near::on(running.next().unwrap_or(first))
    }

    fn on(stat: Stat) -> Option<Near> {
        let before = sched_getaffinity(None).ok()?;
        let processor = usize::try_from(stat.processor).ok()?;
        // Those that we were not given are not ours to run on.
        if processor >= CpuSet::MAX_CPU || !before.is_set(processor) {
            return None;
        }
        let mut one = CpuSet::new();
        one.set(processor);
        sched_setaffinity(None, &one).ok()?;
        Some(Near { processor, before })
    }
}

fn is_running(stat: &Stat) -> bool {
    stat.state == b'R'
}

impl Drop for Near {
    fn drop(&mut self) {
        // A thread that may run elsewhere stays where it is, and would do all else at the cost of the process: so it is
        // sent away first. One processor alone cannot be left, and that fails.
        let mut others = self.before;
        others.unset(self.processor);
        let _ = sched_setaffinity(None, &others);
        // It was allowed before; if it is not any more, the kernel has chosen others.
        let _ = sched_setaffinity(None, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::pays;

    #[test]
    fn what_interrupts_for_every_second_page_goes_from_near() {
        assert!(pays(512, 1, 512), "written pages in one range");
        assert!(pays(512, 400, 0), "scattered pages");
        assert!(
            !pays(512, 1, 0) && !pays(512, 60, 128),
            "ranges that were read"
        );
    }
}
