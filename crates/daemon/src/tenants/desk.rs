//! Questions to the tree from other threads.
//!
//! Invariant: one job is done with the tree at a time, by its owner or, while that only waits, by whoever asks: nobody who asks
//! ever waits for a lock. (Until a read went through the owner each time, two threads were woken for it, which cost more than
//! the answer.)

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use host::manage::Reclaimed;
use host::manage::tenants::{Bell, Tenants};
use rustix::io::Errno;

use super::changes::Changes;
use super::configured::Configured;
use super::reports::Reports;
use crate::rights::hex;

/// Jobs are done for so long at a time: then what is due by itself has its turn.
const TURN: Duration = Duration::from_millis(20);

/// What jobs are done with.
pub(super) struct Tree {
    pub(super) tenants: Tenants,
    pub(super) reports: Reports,
    pub(super) changes: Changes,
    pub(super) waiting: Waiting,
    /// What tenants get that come.
    pub(super) configured: Configured,
}

/// Whether a signal waits for a thread that it does not block.
fn has_signal(thread: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    pending(&status)
}

fn pending(status: &str) -> bool {
    let [own, shared, blocked] =
        ["SigPnd:", "ShdPnd:", "SigBlk:"].map(|name| hex(status, name).unwrap_or(0));
    (own | shared) & !blocked != 0
}

/// Answers whoever wrote to memory.reclaim.
type Answer = Box<dyn FnOnce(Result<Reclaimed, Errno>) + Send>;

/// Those who wrote to memory.reclaim and wait for its end, by the reclaim's number: the thread that wrote, and how it is answered.
///
/// Such a thread sleeps until it is answered, whatever signal it gets: the first time that one had to be interrupted the kernel asked
/// for it (FUSE_INTERRUPT), was told by the crate `fuser` that nobody handles that, and never asks again. So the tree's owner looks,
/// time and again, whether a signal waits for one of them.
#[derive(Default)]
pub(super) struct Waiting(BTreeMap<u64, (u32, Answer)>);

impl Waiting {
    pub(super) fn put(
        &mut self,
        (number, writer): (u64, u32),
        answer: impl FnOnce(Result<Reclaimed, Errno>) + Send + 'static,
    ) {
        self.0.insert(number, (writer, Box::new(answer)));
    }

    /// Those whose writer has a signal to handle, as by ^C or `timeout`.
    pub(super) fn interrupted(&self) -> Vec<u64> {
        let all = self.0.iter();
        let all = all.filter(|(_, (writer, _))| has_signal(*writer));
        all.map(|(number, _)| *number).collect()
    }

    /// Whoever waits for this one is answered; else what it came to is given back.
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

    /// We end: as a signal ends the kernel's own.
    pub(super) fn abandon(&mut self) {
        for (_, answer) in std::mem::take(&mut self.0).into_values() {
            answer(Err(Errno::INTR));
        }
    }
}

/// Something to be done with the tree; it answers whoever asked by itself.
pub(super) type Job = Box<dyn FnOnce(&mut Tree) + Send>;

/// The tree, for its owner and for those who ask.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<Tree>>);

/// Where others leave their jobs.
#[derive(Clone)]
pub(super) struct Desk {
    tree: Shared,
    jobs: Sender<Job>,
    /// Ends a wait.
    pipe: Arc<UnixStream>,
    /// Ends a slice of what the owner does by itself.
    bell: Bell,
}

/// Where the owner finds them.
pub(super) struct Inbox {
    jobs: Receiver<Job>,
    pipe: UnixStream,
    /// The other end, held open: once nobody was at a desk (no mount, or none any more) the pipe was readable for ever, and each wait was
    /// over at once.
    _theirs: Arc<UnixStream>,
    bell: Bell,
}

/// Both ends.
pub(super) fn open(tree: &Shared) -> std::io::Result<(Desk, Inbox)> {
    let bell = tree.lock().tenants.bell();
    let (sender, receiver) = channel();
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    theirs.set_nonblocking(true)?;
    let theirs = Arc::new(theirs);
    let desk = Desk {
        tree: tree.clone(),
        jobs: sender,
        pipe: Arc::clone(&theirs),
        bell: bell.clone(),
    };
    Ok((
        desk,
        Inbox {
            jobs: receiver,
            pipe: ours,
            _theirs: theirs,
            bell: bell.clone(),
        },
    ))
}

impl Shared {
    pub(super) fn new(tree: Tree) -> Shared {
        Shared(Arc::new(Mutex::new(tree)))
    }

    /// For its owner, who gives it back whenever it waits.
    pub(super) fn lock(&self) -> MutexGuard<'_, Tree> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For anybody else, unless something is being done with it.
    fn try_lock(&self) -> Option<MutexGuard<'_, Tree>> {
        match self.0.try_lock() {
            Ok(tree) => Some(tree),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Desk {
    /// Does a short job here and now, or leaves it if the owner is at work.
    pub(super) fn ask(&self, job: impl FnOnce(&mut Tree) + Send + 'static) {
        match self.tree.try_lock() {
            Some(mut tree) => job(&mut tree),
            None => self.leave(job),
        }
    }

    /// Leaves a job to the owner: one that takes long, or after which something else may be due. It is dropped unanswered if
    /// the owner has ended.
    pub(super) fn leave(&self, job: impl FnOnce(&mut Tree) + Send + 'static) {
        let _ = self.jobs.send(Box::new(job));
        self.bell.ring();
        // A full pipe is readable already.
        let _ = (&*self.pipe).write(&[1]);
    }
}

impl Inbox {
    /// What is readable when somebody waits.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Does what waits, for a while; whether that was all.
    pub(super) fn work(&mut self, tree: &mut Tree) -> bool {
        let begin = Instant::now();
        self.bell.silence();
        let _ = self.pipe.read(&mut [0; 4096]);
        while let Ok(job) = self.jobs.try_recv() {
            job(tree);
            if begin.elapsed() > TURN {
                self.bell.ring();
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
    fn a_signal_that_is_not_blocked_waits() {
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
        // It is gone.
        assert!(!pending(""));
    }
}
