//! CPU affinity of our thread while it pages out: the thread runs on the processor of the process
//! that is reclaimed from.
//!
//! Invariant: when a [`CpuAffinity`] is dropped, the thread may run on the same processors as
//! before.
//!
//! To flush address translations, the kernel interrupts the processor on which the process runs,
//! and waits. It does so once for each page written since it was swapped in, and once for each
//! range of pages. Measured under a hypervisor (docs/benchmarks.md, `outsider`):
//!
//! - Written pages, paged out from another processor: 15 to 18 us a page.
//! - Written pages, paged out from the program's own processor: 8 to 11 us a page.
//! - Pages that were only read, paged out in ranges: 5 to 6 us a page.
//!
//! A written page delays the program by half of its time, a page that was only read by about 1 us.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::system::Proc;
use crate::system::process::Stat;

/// Whether paging out should run on the processor of the process. `pages` pages in `ranges` ranges
/// are to be paged out, `dirty` of them dirty. From another processor each range and each dirty
/// page cause one interrupt; more than one interrupt for two pages is too many.
pub(super) const fn pays(pages: usize, ranges: usize, dirty: usize) -> bool {
    (ranges + dirty) * 2 > pages
}

/// Maximum number of threads in a process for which we find the processor where they run. With more
/// threads, finding it would take longer than it saves.
const THREADS_MAX: usize = 64;

/// Binds the thread that made this value to one processor, until the value is dropped.
pub(super) struct CpuAffinity {
    /// Number of the processor.
    processor: usize,
    /// The processors on which the thread could run before.
    before: CpuSet,
}

impl CpuAffinity {
    /// Binds our thread to the processor where the threads of this process run now. Returns `None`
    /// in three cases: all its threads sleep (no processor is interrupted then), they run on
    /// several processors (one is interrupted anyway), or the kernel refuses.
    pub(super) fn to(proc: &Proc, pid: u32) -> Option<CpuAffinity> {
        let first = proc.stat(pid).ok().flatten()?;
        if first.threads <= 1 {
            return CpuAffinity::on(Some(first).filter(is_running)?);
        }
        // All threads are checked: in Java the first one does nothing.
        let threads = proc.threads(pid).ok()?;
        if threads.len() > THREADS_MAX {
            return None;
        }
        let stat = |thread: &u32| proc.thread_stat(pid, *thread).ok().flatten();
        let mut running = threads.iter().filter_map(stat).filter(is_running);
        let one = running.next()?;
        let same = running.all(|other| other.processor == one.processor);
        same.then(|| CpuAffinity::on(one)).flatten()
    }

    /// Binds our thread to the processor where a thread of this process runs; if none runs, to that
    /// where its first thread ran last. `None` if the kernel refuses.
    ///
    /// Up to about thirty pages that were faulted in on that processor wait there before they are
    /// put on an LRU list. Only a call on that processor puts them on the list.
    pub(super) fn to_last(proc: &Proc, pid: u32) -> Option<CpuAffinity> {
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
        CpuAffinity::on(running.next().unwrap_or(first))
    }

    /// Binds our thread to the processor where the thread of `stat` ran last; `None` if that is not
    /// allowed.
    fn on(stat: Stat) -> Option<CpuAffinity> {
        let before = sched_getaffinity(None).ok()?;
        let processor = usize::try_from(stat.processor).ok()?;
        // Our thread may not run on processors outside of its affinity mask.
        if processor >= CpuSet::MAX_CPU || !before.is_set(processor) {
            return None;
        }
        let mut one = CpuSet::new();
        one.set(processor);
        sched_setaffinity(None, &one).ok()?;
        Some(CpuAffinity { processor, before })
    }
}

/// Whether a thread runs now, or waits for a processor.
fn is_running(stat: &Stat) -> bool {
    stat.state == b'R'
}

impl Drop for CpuAffinity {
    fn drop(&mut self) {
        // A thread that is allowed more processors again still stays on this one, where its further
        // work would delay the process. So the thread is moved away first. That fails if it is
        // allowed only this processor.
        let mut others = self.before;
        others.unset(self.processor);
        let _ = sched_setaffinity(None, &others);
        // The mask was allowed before. If it no longer is, the kernel has chosen other processors.
        let _ = sched_setaffinity(None, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::pays;

    #[test]
    fn affinity_pays_from_one_interrupt_for_two_pages_on() {
        assert!(pays(512, 1, 512), "written pages in one range");
        assert!(pays(512, 400, 0), "scattered pages");
        assert!(
            !pays(512, 1, 0) && !pays(512, 60, 128),
            "ranges that were read"
        );
    }
}
