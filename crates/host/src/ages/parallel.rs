//! Several threads walk processes in parallel.
//!
//! Invariant: a process is walked once, by one thread, and all threads have ended when the call
//! returns. There are no more threads, including the caller's, than idle processors.
//!
//! Most of a scan's time is the kernel's clearing of bits, which idle processors can do. Only the
//! caller's thread updates the age table: it receives each walk when the walk is finished.

use std::io;
use std::sync::mpsc::{self, RecvError, Sender};
use std::sync::{Mutex, PoisonError};

use pagetables::WalkResult;

use super::buffered_walk::BufferedWalk;
use super::costs::Costs;
use super::reader::{Job, ProcessReader, WalkBounds, WalkStart};
use crate::system::thread_cpu;

/// Most threads. More threads would mostly wait for locks of /proc.
const WORKERS_MAX: usize = 4;
/// Estimated work, in microseconds, from which helper threads pay off: starting a thread takes 100
/// us.
const PARALLEL_MIN_US: u64 = 600;
/// Time to open the /proc files of one process, in microseconds.
const PROCESS_US: u64 = 60;
/// Number of entries that are read and cleared in a microsecond.
const ENTRIES_PER_US: u64 = 4;

/// Result of a walk; `None` if the process has no memory.
pub(super) type Read = io::Result<Option<(WalkStart, BufferedWalk, WalkResult)>>;

/// Returns the best number of threads for these jobs. `free` returns the number of idle processors.
pub(super) fn workers(jobs: &[Job], free: impl FnOnce() -> usize) -> usize {
    let us = |job: &Job| PROCESS_US + job.space.entries() / ENTRIES_PER_US;
    if jobs.len() < 2 || jobs.iter().map(us).sum::<u64>() < PARALLEL_MIN_US {
        return 1;
    }
    free().min(WORKERS_MAX).min(jobs.len())
}

/// What the calling thread does next.
pub(super) enum Next {
    /// Walk this process, and report its pages.
    Read(Box<Job>),
    /// Report the pages of this process, which another thread has walked.
    Report(Box<(Job, Read)>),
}

/// Walks all `jobs`. Each helper walks in a thread of its own. The calling thread runs `own`, for
/// finished walks of helpers first, otherwise for a job. Returns what the helpers' walks cost.
pub(super) fn read(
    helpers: &mut [ProcessReader],
    (jobs, bounds): (Vec<Job>, WalkBounds),
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
            let name = std::thread::Builder::new().name("walk".to_owned());
            // If a thread cannot be started, the others do its work.
            name.spawn_scoped(scope, work).ok()
        };
        let threads: Vec<_> = helpers.iter_mut().filter_map(spawn).collect();
        drop(sender);
        loop {
            let read = done.try_recv().ok();
            let next_step = match read {
                Some(read) => Next::Report(read),
                None => match next() {
                    Some(job) => Next::Read(Box::new(job)),
                    None => match done.recv() {
                        Ok(read) => Next::Report(read),
                        Err(RecvError) => break,
                    },
                },
            };
            own(next_step);
        }
        for thread in threads {
            let costs = thread.join();
            all.add(costs.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    all
}

/// Runs in a helper thread: walks jobs until none remains. Returns what these walks cost.
fn read_all(
    reader: &mut ProcessReader,
    bounds: WalkBounds,
    next: impl Fn() -> Option<Job>,
    done: &Sender<Box<(Job, Read)>>,
) -> Costs {
    let mut costs = Costs::default();
    while let Some(mut job) = next() {
        let worked = thread_cpu();
        let read = read_one(reader, &mut job, bounds, &mut costs);
        job.took = thread_cpu().saturating_sub(worked);
        // The receiver lives until all threads have ended.
        let _ = done.send(Box::new((job, read)));
    }
    costs.by_others = thread_cpu();
    costs
}

/// Walks one process that is small enough to be buffered.
pub(super) fn read_one(
    reader: &mut ProcessReader,
    job: &mut Job,
    bounds: WalkBounds,
    costs: &mut Costs,
) -> Read {
    let Some(begun) = reader.begin(job, bounds)? else {
        return Ok(None);
    };
    let (walk, reading) = reader.read_buffered(job, &begun, costs)?;
    Ok(Some((begun, walk, reading)))
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::time::Duration;

    use pagetables::Referenced;

    use super::*;
    use crate::age_table::AgeTable;
    use crate::ages::pauses::Pauses;
    use crate::ages::space::{ActivityCounters, Space};
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

    fn jobs(children: &[Child], age_table: &mut AgeTable) -> Vec<Job> {
        let proc = Proc::system().expect("/proc");
        let job = |child: &Child| Job {
            identity: proc
                .stat(child.id())
                .expect("ours")
                .expect("alive")
                .identity(),
            space: Space::new(age_table.add_owner().expect("few")),
            now: ActivityCounters::default(),
            apart: Duration::from_secs(1),
            took: Duration::ZERO,
            idle: false,
        };
        children.iter().map(job).collect()
    }

    /// Whatever the number of threads, each process is walked once and reported once, with its own
    /// pages.
    #[test]
    fn each_process_is_walked_once_and_reported() {
        let sleep = |_| Command::new("sleep").arg("60").spawn().expect("sleep");
        let mut children: Vec<Child> = (0..9).map(sleep).collect();
        let mut age_table = AgeTable::new(0);
        let bounds = WalkBounds {
            pauses: Pauses::new(None, Duration::from_secs(1)),
            keeps_file_bits: false,
        };
        for others in 0..4 {
            let mut helpers: Vec<ProcessReader> = (0..others).map(|_| reader()).collect();
            let (mut own, mut costs, mut pids) = (reader(), Costs::default(), Vec::new());
            let jobs = jobs(&children, &mut age_table);
            let by_others = read(&mut helpers, (jobs, bounds), |next| {
                let (job, read) = match next {
                    Next::Report(done) => *done,
                    Next::Read(mut job) => {
                        let read = read_one(&mut own, &mut job, bounds, &mut costs);
                        (*job, read)
                    }
                };
                let (begun, walk, _) = read.expect("ours").expect("it has memory");
                assert_eq!(begun.before.owner, job.space.owner);
                assert!(walk.present.iter().sum::<u64>() > 0);
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
    fn little_work_starts_no_thread() {
        let mut age_table = AgeTable::new(0);
        let mut jobs = |entries: &[u64]| -> Vec<Job> {
            let job = |entries: &u64| {
                let mut space = Space::new(age_table.add_owner().expect("few"));
                space.found.entries = [*entries, 0];
                Job {
                    identity: crate::system::Identity { pid: 1, started: 0 },
                    space,
                    now: ActivityCounters::default(),
                    apart: Duration::from_secs(1),
                    took: Duration::ZERO,
                    idle: false,
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
