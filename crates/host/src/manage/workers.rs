//! Pages out or reads back with several threads; each gets a part of the address ranges. The kernel
//! spends most of the time compressing or decompressing pages, which idle processors can do.
//!
//! Invariant: each range goes to one thread, and all threads have ended when the call returns. The
//! number of threads, with the caller's, is at most the number of idle processors.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::time::Duration;

use engine::units::PAGE_SIZE;
use pagetables::Advice;

use super::advise::{Advised, advise_rest, pieces, until_stopped};
use crate::system::{Proc, thread_cpu};

/// Maximum number of threads. More would wait for the locks of one address space and one swap area.
const WORKERS_MAX: usize = 4;
/// Minimum number of pages for a thread. Starting a thread takes about 100 us, and a page about 4
/// us. Also, a page that is put back waits for its LRU list on the thread's processor, where it is
/// not tried a second time. So a small program is paged out by one thread.
const PAGES_MIN: u64 = 256;

/// Returns how many threads may now work on `pages` pages: the number of idle processors that we
/// may use, at most [`WORKERS_MAX`]. Returns 1 if the pages are too few for two threads.
pub(super) fn free(proc: &Proc, processors: usize, pages: usize) -> usize {
    if (pages as u64) < 2 * PAGES_MIN {
        return 1;
    }
    proc.idle(processors).min(WORKERS_MAX)
}

/// Result of [`advise`].
pub(super) struct Work {
    pub(super) advised: Advised,
    /// Processor time of the threads other than the caller's.
    pub(super) others: Duration,
}

/// Advises `ranges` of a process, with up to `workers` threads. `edges` is as in
/// [`super::advise::advise`].
pub(super) fn advise(
    process: (u32, &OwnedFd),
    (ranges, advice): (&[Range<u64>], Advice),
    workers: usize,
    edges: impl FnOnce() -> Vec<u64>,
) -> Work {
    let parts = parts(&pieces(ranges), workers);
    let (mine, theirs) = match parts.split_first() {
        Some((mine, theirs)) => (&mine[..], theirs),
        None => (&[][..], &[][..]),
    };
    let mut others = Duration::ZERO;
    // For each part that a call could not complete: its ranges from the one on at which it stopped.
    let mut left = Vec::new();
    let mut refused = None;
    let mut note = |part: &[Range<u64>], done: Result<usize, Advised>| match done {
        Ok(done) => left.extend_from_slice(&part[done..]),
        Err(what) => refused = Some(what),
    };
    std::thread::scope(|scope| {
        let begin = |part| {
            let name = std::thread::Builder::new().name("advise".to_owned());
            let work = move || timed(process, part, advice);
            name.spawn_scoped(scope, work).ok()
        };
        let threads: Vec<_> = theirs.iter().map(|part| (part, begin(part))).collect();
        note(mine, until_stopped(process, mine, advice));
        for (part, thread) in threads {
            // If a thread could not begin, or failed, it is unknown what it has done: its whole
            // part is advised below.
            match thread.and_then(|thread| thread.join().ok()) {
                Some((done, took)) => {
                    note(part, done);
                    others += took;
                }
                None => note(part, Ok(0)),
            }
        }
    });
    let advised = match refused {
        Some(what) => what,
        None => advise_rest(process, &left, advice, edges),
    };
    Work { advised, others }
}

/// Advises one part of the ranges. Returns the result of [`until_stopped`], then the processor
/// time.
fn timed(
    process: (u32, &OwnedFd),
    part: &[Range<u64>],
    advice: Advice,
) -> (Result<usize, Advised>, Duration) {
    let done = until_stopped(process, part, advice);
    (done, thread_cpu())
}

/// Splits `ranges` into up to `workers` parts of about the same size, at least [`PAGES_MIN`] pages
/// each.
fn parts(ranges: &[Range<u64>], workers: usize) -> Vec<Vec<Range<u64>>> {
    let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    let pages = bytes / PAGE_SIZE;
    let workers = u64::try_from(workers)
        .unwrap_or(1)
        .min(pages / PAGES_MIN)
        .max(1);
    let each = pages.div_ceil(workers) * PAGE_SIZE;
    let (mut parts, mut part, mut room) = (Vec::new(), Vec::new(), each);
    for range in ranges {
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + room);
            part.push(start..end);
            room -= end - start;
            start = end;
            if room == 0 {
                parts.push(std::mem::take(&mut part));
                room = each;
            }
        }
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn pages(from: u64, to: u64) -> Range<u64> {
        from * 4096..to * 4096
    }

    #[test]
    fn parts_are_of_one_size_and_complete() {
        assert!(parts(&[], 2).is_empty());
        // These pages are too few for two threads.
        let few = [pages(0, 200)];
        assert_eq!(parts(&few, 4), [few.to_vec()]);
        let ranges = [pages(0, 300), pages(1000, 1100), pages(2000, 2112)];
        assert_eq!(parts(&ranges, 1), [ranges.to_vec()]);
        let second = [pages(256, 300), pages(1000, 1100), pages(2000, 2112)];
        assert_eq!(parts(&ranges, 2), [vec![pages(0, 256)], second.to_vec()]);
        for workers in 1..6 {
            let parts = parts(&ranges, workers);
            assert!(parts.len() <= workers.min(4), "{workers}");
            let bytes: u64 = parts.iter().flatten().map(|one| one.end - one.start).sum();
            assert_eq!(bytes, 512 * 4096);
        }
    }

    /// All threads end, and none fails, if the ranges are not mapped.
    #[test]
    fn all_threads_end_if_nothing_is_mapped() {
        let pid = rustix::process::getpid();
        let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty());
        let pidfd = pidfd.expect("our own");
        // At these addresses nothing is mapped, or nothing that accepts the advice.
        let ranges = [pages(1 << 28, (1 << 28) + 1024)];
        for workers in [1, 2, 4] {
            let work = advise(
                (std::process::id(), &pidfd),
                (&ranges, Advice::PageOut),
                workers,
                Vec::new,
            );
            assert!(matches!(work.advised, Advised::Done), "{:?}", work.advised);
        }
    }

    #[test]
    fn there_is_always_one_worker() {
        let proc = Proc::system().expect("/proc");
        for processors in [1, 2, 64] {
            let free = free(&proc, processors, 512);
            assert!((1..=WORKERS_MAX.min(processors)).contains(&free));
        }
    }
}
