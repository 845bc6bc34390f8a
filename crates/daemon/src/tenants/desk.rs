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

use host::manage::tenants::Tenants;

use super::reports::Reports;

/// What jobs are done with.
pub(super) struct Tree {
    pub(super) tenants: Tenants,
    pub(super) reports: Reports,
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
    bell: Arc<UnixStream>,
}

/// Where the owner finds them.
pub(super) struct Inbox {
    jobs: Receiver<Job>,
    bell: UnixStream,
}

/// Both ends.
pub(super) fn open(tree: &Shared) -> std::io::Result<(Desk, Inbox)> {
    let (sender, receiver) = channel();
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    theirs.set_nonblocking(true)?;
    let desk = Desk {
        tree: tree.clone(),
        jobs: sender,
        bell: Arc::new(theirs),
    };
    Ok((
        desk,
        Inbox {
            jobs: receiver,
            bell: ours,
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
        // A full pipe rings already.
        let _ = (&*self.bell).write(&[1]);
    }
}

impl Inbox {
    /// What rings.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Does all that wait.
    pub(super) fn work(&mut self, tree: &mut Tree) {
        let _ = self.bell.read(&mut [0; 4096]);
        while let Ok(job) = self.jobs.try_recv() {
            job(tree);
        }
    }
}
