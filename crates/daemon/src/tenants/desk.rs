//! Questions to the tree from other threads, answered by the one that has it.
//!
//! Invariant: the tree has one owner, who does one job at a time; whoever asks never waits for a lock.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};

use host::manage::tenants::Tenants;

use super::reports::Reports;

/// What the owner has.
pub(super) struct Tree {
    pub(super) tenants: Tenants,
    pub(super) reports: Reports,
}

/// Something to be done with the tree; it answers whoever asked by itself.
pub(super) type Job = Box<dyn FnOnce(&mut Tree) + Send>;

/// Where others leave their jobs.
#[derive(Clone)]
pub(super) struct Desk {
    jobs: Sender<Job>,
    bell: std::sync::Arc<UnixStream>,
}

/// Where the owner finds them.
pub(super) struct Inbox {
    jobs: Receiver<Job>,
    bell: UnixStream,
}

/// Both ends.
pub(super) fn open() -> std::io::Result<(Desk, Inbox)> {
    let (sender, receiver) = channel();
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    theirs.set_nonblocking(true)?;
    let desk = Desk {
        jobs: sender,
        bell: std::sync::Arc::new(theirs),
    };
    Ok((
        desk,
        Inbox {
            jobs: receiver,
            bell: ours,
        },
    ))
}

impl Desk {
    /// Leaves a job. It is dropped unanswered if the owner has ended.
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

    /// Does all that wait; whether there were any.
    pub(super) fn work(&mut self, tree: &mut Tree) -> bool {
        let _ = self.bell.read(&mut [0; 4096]);
        let mut any = false;
        while let Ok(job) = self.jobs.try_recv() {
            any = true;
            job(tree);
        }
        any
    }
}
