//! The request queue: jobs for the tree from other threads.
//!
//! Invariant: only one job at a time uses the tree. The tree's owner does it or, while the owner
//! waits, the requesting thread itself. No requesting thread ever waits for a lock. Doing short
//! jobs in the requesting thread avoids two wakeups of threads, which cost more than the job.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use host::manage::Reclaimed;
use host::manage::tenants::{Tenants, Wakeup};
use rustix::io::Errno;

use super::changes::Changes;
use super::configured::Configured;
use super::reports::Reports;
use crate::rights::hex;

/// Longest time for which the owner does jobs before it does its own pending work.
const WORK_MAX: Duration = Duration::from_millis(20);

/// The tree of tenants, with all other state that jobs use.
pub(super) struct Tree {
    pub(super) tenants: Tenants,
    pub(super) reports: Reports,
    pub(super) changes: Changes,
    pub(super) waiting: ReclaimWriters,
    /// The configuration of tenants that may be made later.
    pub(super) configured: Configured,
}

/// Whether a thread has a pending signal that it does not block.
fn has_signal(thread: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    pending(&status)
}

fn pending(status: &str) -> bool {
    let [own, shared, blocked] =
        ["SigPnd:", "ShdPnd:", "SigBlk:"].map(|name| hex(status, name).unwrap_or(0));
    (own | shared) & !blocked != 0
}

/// Completes a write to memory.reclaim with the reclaim's result.
type Answer = Box<dyn FnOnce(Result<Reclaimed, Errno>) + Send>;

/// Threads that write to memory.reclaim and wait for the reclaim to end. By the reclaim's number:
/// the id of the writing thread, and how to complete its write.
///
/// Such a thread sleeps until its write is completed, also if a signal arrives. When a signal first
/// interrupted a writer, the kernel sent FUSE_INTERRUPT, the crate `fuser` replied that this is not
/// supported, and the kernel never sends it again. So the tree's owner regularly checks whether a
/// signal is pending for one of these threads.
#[derive(Default)]
pub(super) struct ReclaimWriters(BTreeMap<u64, (u32, Answer)>);

impl ReclaimWriters {
    pub(super) fn put(
        &mut self,
        (number, writer): (u64, u32),
        answer: impl FnOnce(Result<Reclaimed, Errno>) + Send + 'static,
    ) {
        self.0.insert(number, (writer, Box::new(answer)));
    }

    /// Returns the numbers of the reclaims whose writing thread has a signal to handle, as from ^C.
    pub(super) fn interrupted(&self) -> Vec<u64> {
        let all = self.0.iter();
        let all = all.filter(|(_, (writer, _))| has_signal(*writer));
        all.map(|(number, _)| *number).collect()
    }

    /// Completes the write that waits for this reclaim. If no write does, returns the result.
    pub(super) fn answer(
        &mut self,
        number: u64,
        got: Result<Reclaimed, Errno>,
    ) -> Option<Result<Reclaimed, Errno>> {
        match self.0.remove(&number) {
            Some((_, answer)) => {
                answer(got);
                None
            }
            None => Some(got),
        }
    }

    /// Completes all writes with EINTR because the manager ends, as if a signal had come.
    pub(super) fn abandon(&mut self) {
        for (_, answer) in std::mem::take(&mut self.0).into_values() {
            answer(Err(Errno::INTR));
        }
    }
}

/// A job for the tree; it sends its result to the requester itself.
pub(super) type Job = Box<dyn FnOnce(&mut Tree) + Send>;

/// The tree, shared by its owner and the requesting threads.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<Tree>>);

/// The requesters' end of the queue.
#[derive(Clone)]
pub(super) struct RequestQueue {
    tree: Shared,
    jobs: Sender<Job>,
    /// Writing a byte to it ends the owner's wait.
    pipe: Arc<UnixStream>,
    /// Interrupts the owner's own work, so that it serves the queue.
    wakeup: Wakeup,
}

/// The owner's end of the queue.
pub(super) struct RequestReceiver {
    jobs: Receiver<Job>,
    pipe: UnixStream,
    /// Keeps the requesters' end of the pipe open. If there are no requesters (no mount), the
    /// owner's end would otherwise be readable for ever, and each wait would end at once.
    _requester_end: Arc<UnixStream>,
    wakeup: Wakeup,
}

/// Creates both ends of the queue.
pub(super) fn open(tree: &Shared) -> std::io::Result<(RequestQueue, RequestReceiver)> {
    let wakeup = tree.lock().tenants.wakeup();
    let (sender, receiver) = channel();
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    theirs.set_nonblocking(true)?;
    let theirs = Arc::new(theirs);
    let request_queue = RequestQueue {
        tree: tree.clone(),
        jobs: sender,
        pipe: Arc::clone(&theirs),
        wakeup: wakeup.clone(),
    };
    Ok((
        request_queue,
        RequestReceiver {
            jobs: receiver,
            pipe: ours,
            _requester_end: theirs,
            wakeup: wakeup.clone(),
        },
    ))
}

impl Shared {
    pub(super) fn new(tree: Tree) -> Shared {
        Shared(Arc::new(Mutex::new(tree)))
    }

    /// Locks the tree for its owner, which unlocks it whenever it waits.
    pub(super) fn lock(&self) -> MutexGuard<'_, Tree> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the tree for a requesting thread; `None` if it is in use.
    fn try_lock(&self) -> Option<MutexGuard<'_, Tree>> {
        match self.0.try_lock() {
            Ok(tree) => Some(tree),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl RequestQueue {
    /// Runs a short job in the calling thread, or queues the job if the owner is using the tree.
    pub(super) fn run_or_enqueue(&self, job: impl FnOnce(&mut Tree) + Send + 'static) {
        match self.tree.try_lock() {
            Some(mut tree) => job(&mut tree),
            None => self.enqueue(job),
        }
    }

    /// Queues a job for the owner: one that takes long, or that may make other work pending. If the
    /// owner has ended, the job is dropped and its requester gets no reply.
    pub(super) fn enqueue(&self, job: impl FnOnce(&mut Tree) + Send + 'static) {
        let _ = self.jobs.send(Box::new(job));
        self.wakeup.ring();
        // The write fails if the pipe is full; then the owner wakes up anyway.
        let _ = (&*self.pipe).write(&[1]);
    }
}

impl RequestReceiver {
    /// Returns a descriptor that is readable while a job waits.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Does waiting jobs for at most [`WORK_MAX`]; returns whether none waits any more.
    pub(super) fn work(&mut self, tree: &mut Tree) -> bool {
        let begin = Instant::now();
        self.wakeup.silence();
        let _ = self.pipe.read(&mut [0; 4096]);
        while let Ok(job) = self.jobs.try_recv() {
            job(tree);
            if begin.elapsed() > WORK_MAX {
                self.wakeup.ring();
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unblocked_signal_is_pending() {
        let status = |own: &str, shared: &str, blocked: &str| {
            format!("Name:\tsh\nSigPnd:\t{own}\nShdPnd:\t{shared}\nSigBlk:\t{blocked}\n")
        };
        let none = "0000000000000000";
        assert!(!pending(&status(none, none, none)));
        assert!(pending(&status(none, "0000000000004000", none)));
        assert!(pending(&status("0000000000000100", none, none)));
        assert!(!pending(&status(
            none,
            "0000000000004000",
            "0000000000004000"
        )));
        // An empty text stands for a thread that has ended.
        assert!(!pending(""));
    }
}
