//! Several of our threads page out or read back at once, each a part of the ranges: most of what that takes is the kernel's compressing
//! of pages, or the reverse, which goes as well on processors that nobody uses.
//!
//! Invariant: a range is given to one thread, and all threads have ended when the call returns; there are no more of them
//! than processors without work, and one of them is the caller's.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::time::Duration;

use pagetables::Advice;

use super::advise::{Advised, advise_rest, pieces, until_stopped};
use crate::system::{Proc, thread_cpu};

/// More would wait for the locks of one address space and one swap area.
const WORKERS_MAX: usize = 4;
/// A thread takes some 100 us to begin; below so many pages (4 us each) it is not worth it. And what is put back waits on the processor of that
/// thread for its list, where the second try does not come by: of a small program all is to leave.
const PAGES_MIN: u64 = 256;

/// How many threads may work at this moment on so many pages: processors that we may use and nobody works on. For fewer than two are worth it the
/// kernel is not asked.
pub(super) fn free(proc: &Proc, processors: usize, pages: usize) -> usize {
    if (pages as u64) < 2 * PAGES_MIN {
        return 1;
    }
    proc.idle(processors).min(WORKERS_MAX)
}

/// What [`advise`] came to.
pub(super) struct Work {
    pub(super) advised: Advised,
    /// Processor time of the threads that were not the caller's.
    pub(super) others: Duration,
}

/// Gives `advice` for `ranges` of a process, by up to `workers` threads. `edges` as in [`super::advise::advise`].
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
    // What is left of each part, from the range on that a call stopped at.
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
            // One that could not begin, or did not end well, has done nothing that is known: its part is done below.
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

/// A part, and the processor time that its thread took.
fn timed(
    process: (u32, &OwnedFd),
    part: &[Range<u64>],
    advice: Advice,
) -> (Result<usize, Advised>, Duration) {
    let done = until_stopped(process, part, advice);
    (done, thread_cpu())
}

/// `ranges` in up to `workers` parts of about as many pages, each worth a thread.
fn parts(ranges: &[Range<u64>], workers: usize) -> Vec<Vec<Range<u64>>> {
    let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    let pages = bytes / 4096;
    let workers = u64::try_from(workers)
        .unwrap_or(1)
        .min(pages / PAGES_MIN)
        .max(1);
    let each = pages.div_ceil(workers) * 4096;
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
    fn parts_are_of_one_size_and_none_is_left_out() {
        assert!(parts(&[], 2).is_empty());
        // Too few for two.
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

    /// What is not mapped stops nobody.
    #[test]
    fn all_threads_come_back() {
        let pid = rustix::process::getpid();
        let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty());
        let pidfd = pidfd.expect("our own");
        // Nothing is mapped there, or nothing that takes the advice.
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
    fn there_is_always_one() {
        let proc = Proc::system().expect("/proc");
        for processors in [1, 2, 64] {
            let free = free(&proc, processors, 512);
            assert!((1..=WORKERS_MAX.min(processors)).contains(&free));
        }
    }
}
