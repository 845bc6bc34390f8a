//! Several threads read processes at once: what a look takes is mostly the kernel's clearing of bits, which goes as well on
//! processors that nobody uses. The books have one thread, the caller's, which hears of each when it was read.
//!
//! Invariant: a process is read by one thread, once, and all threads have ended when the call returns; there are no more of
//! them than processors without work, and one of them is the caller's.

use std::io;
use std::sync::mpsc::{self, RecvError, Sender};
use std::sync::{Mutex, PoisonError};

use pagetables::Reading;

use super::costs::Costs;
use super::held::Held;
use super::reader::{Begun, Bounds, Job, ProcessReader};
use crate::system::thread_cpu;

/// More would mostly wait for each other's turn in /proc.
const WORKERS_MAX: usize = 4;
/// What a thread must save before it is worth its beginning (some 100 us), microseconds.
const WORTH_US: u64 = 600;
/// What a process takes however small it is, microseconds: its files in /proc.
const PROCESS_US: u64 = 60;
/// Entries that are read and cleared in a microsecond.
const ENTRIES_PER_US: u64 = 4;

/// What a reading gave; none if the process has no memory.
pub(super) type Read = io::Result<Option<(Begun, Held, Reading)>>;

/// How many threads are worth it for these, where `free` processors have no work.
pub(super) fn workers(jobs: &[Job], free: impl FnOnce() -> usize) -> usize {
    let us = |job: &Job| PROCESS_US + job.space.entries() / ENTRIES_PER_US;
    if jobs.len() < 2 || jobs.iter().map(us).sum::<u64>() < WORTH_US {
        return 1;
    }
    free().min(WORKERS_MAX).min(jobs.len())
}

/// What the calling thread does next.
pub(super) enum Next {
    /// To read one, and to tell of it.
    Read(Box<Job>),
    /// To tell of one that another thread has read.
    Tell(Box<(Job, Read)>),
}

/// Has all of `jobs` read by a thread with each of the `helpers` and by this one, which does by `own` what comes next: to tell
/// of what was read comes first. What the others took.
pub(super) fn read(
    helpers: &mut [ProcessReader],
    (jobs, bounds): (Vec<Job>, Bounds),
    mut own: impl FnMut(Next),
) -> Costs {
    let queue = Mutex::new(jobs.into_iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let (sender, done) = mpsc::channel();
    let mut all = Costs::default();
    std::thread::scope(|scope| {
        let spawn = |reader| {
            let sender = sender.clone();
            let work = move || read_all(reader, bounds, next, &sender);
            let name = std::thread::Builder::new().name("look".to_owned());
            // One that cannot begin leaves its part to the others.
            name.spawn_scoped(scope, work).ok()
        };
        let threads: Vec<_> = helpers.iter_mut().filter_map(spawn).collect();
        drop(sender);
        loop {
            let read = done.try_recv().ok();
            let what = match read {
                Some(read) => Next::Tell(read),
                None => match next() {
                    Some(job) => Next::Read(Box::new(job)),
                    None => match done.recv() {
                        Ok(read) => Next::Tell(read),
                        Err(RecvError) => break,
                    },
                },
            };
            own(what);
        }
        for thread in threads {
            let costs = thread.join();
            all.add(costs.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    all
}

/// What one of the other threads does, and what it took.
fn read_all(
    reader: &mut ProcessReader,
    bounds: Bounds,
    next: impl Fn() -> Option<Job>,
    done: &Sender<Box<(Job, Read)>>,
) -> Costs {
    let mut costs = Costs::default();
    while let Some(mut job) = next() {
        let worked = thread_cpu();
        let read = read_one(reader, &mut job, bounds, &mut costs);
        job.took = thread_cpu().saturating_sub(worked);
        // Who hears waits until all threads have ended.
        let _ = done.send(Box::new((job, read)));
    }
    costs.by_others = thread_cpu();
    costs
}

/// A process that is small enough to be held back.
pub(super) fn read_one(
    reader: &mut ProcessReader,
    job: &mut Job,
    bounds: Bounds,
    costs: &mut Costs,
) -> Read {
    let Some(begun) = reader.begin(job, bounds)? else {
        return Ok(None);
    };
    let (held, reading) = reader.read_held(job, &begun, costs)?;
    Ok(Some((begun, held, reading)))
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::time::Duration;

    use pagetables::Referenced;

    use super::*;
    use crate::ages::pauses::Pauses;
    use crate::ages::space::{Activity, Space};
    use crate::books::Books;
    use crate::system::{Filesystems, Proc};

    fn reader() -> ProcessReader {
        let proc = Proc::system().expect("/proc");
        ProcessReader {
            source: Box::new(Referenced::default()),
            filesystems: Filesystems::system(&proc).expect("mounts"),
            needs_names: false,
            proc,
        }
    }

    fn jobs(children: &[Child], books: &mut Books) -> Vec<Job> {
        let proc = Proc::system().expect("/proc");
        let job = |child: &Child| Job {
            identity: proc
                .stat(child.id())
                .expect("ours")
                .expect("alive")
                .identity(),
            space: Space::new(books.add_owner().expect("few")),
            now: Activity::default(),
            apart: Duration::from_secs(1),
            took: Duration::ZERO,
            slept: false,
        };
        children.iter().map(job).collect()
    }

    /// However many threads there are, each process is read once and told once, with its own pages.
    #[test]
    fn each_is_read_once_and_told() {
        let sleep = |_| Command::new("sleep").arg("60").spawn().expect("sleep");
        let mut children: Vec<Child> = (0..9).map(sleep).collect();
        let mut books = Books::new(0);
        let bounds = Bounds {
            pauses: Pauses::new(None, Duration::from_secs(1)),
            spares_files: false,
        };
        for others in 0..4 {
            let mut helpers: Vec<ProcessReader> = (0..others).map(|_| reader()).collect();
            let (mut own, mut costs, mut pids) = (reader(), Costs::default(), Vec::new());
            let jobs = jobs(&children, &mut books);
            let by_others = read(&mut helpers, (jobs, bounds), |next| {
                let (job, read) = match next {
                    Next::Tell(done) => *done,
                    Next::Read(mut job) => {
                        let read = read_one(&mut own, &mut job, bounds, &mut costs);
                        (*job, read)
                    }
                };
                let (begun, held, _) = read.expect("ours").expect("it has memory");
                assert_eq!(begun.before.owner, job.space.owner);
                assert!(held.present.iter().sum::<u64>() > 0);
                pids.push(job.identity.pid);
            });
            pids.sort_unstable();
            let mut ours: Vec<u32> = children.iter().map(Child::id).collect();
            ours.sort_unstable();
            assert_eq!(pids, ours, "{others} more");
            assert!((by_others.by_others > Duration::ZERO) == (others > 0));
        }
        for child in &mut children {
            child.kill().and_then(|()| child.wait()).expect("ours");
        }
    }

    #[test]
    fn little_is_not_worth_a_thread() {
        let mut books = Books::new(0);
        let mut jobs = |entries: &[u64]| -> Vec<Job> {
            let job = |entries: &u64| {
                let mut space = Space::new(books.add_owner().expect("few"));
                space.found.entries = [*entries, 0];
                Job {
                    identity: crate::system::Identity { pid: 1, started: 0 },
                    space,
                    now: Activity::default(),
                    apart: Duration::from_secs(1),
                    took: Duration::ZERO,
                    slept: false,
                }
            };
            entries.iter().map(job).collect()
        };
        assert_eq!(workers(&jobs(&[]), || 8), 1);
        assert_eq!(workers(&jobs(&[100; 2]), || 8), 1);
        assert_eq!(workers(&jobs(&[100_000]), || 8), 1, "one is read by one");
        assert_eq!(workers(&jobs(&[2000; 2]), || 8), 2);
        assert_eq!(workers(&jobs(&[10; 40]), || 8), WORKERS_MAX);
        assert_eq!(workers(&jobs(&[2000; 9]), || 1), 1, "all processors work");
    }
}
