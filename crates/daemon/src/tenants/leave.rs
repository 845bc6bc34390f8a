//! The thread that unmounts the tree when `serve` ends.
//!
//! Invariant: the thread is started before anything is mounted: at the end it might be impossible
//! to start one. It is needed because unmounting waits for replies that the caller must send
//! meanwhile.

use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use super::mount::Mounted;
use crate::error::Error;

/// The thread, which waits for the mount that it is to unmount. It ends when this value is dropped.
#[derive(Debug)]
pub(super) struct Leaving {
    mount_sender: Sender<Mounted>,
    thread: JoinHandle<()>,
}

impl Leaving {
    /// Starts the thread that unmounts.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub(super) fn begin() -> Result<Leaving, Error> {
        let (mount_sender, mount_receiver) = channel();
        let thread = std::thread::Builder::new().name("unmount".to_owned());
        let thread = thread
            .spawn(move || drop(mount_receiver.recv()))
            .map_err(|error| {
                let what = format!("cannot begin a thread: {error}");
                Error::failed(what, "is the limit of processes (ulimit -u) high enough?")
            })?;
        Ok(Leaving {
            mount_sender,
            thread,
        })
    }

    /// Lets the thread unmount; the returned thread ends when the mount is gone.
    pub(super) fn leave(self, mounted: Option<Mounted>) -> JoinHandle<()> {
        if let Some(mounted) = mounted {
            // This cannot fail: the thread waits for the mount.
            let _ = self.mount_sender.send(mounted);
        }
        self.thread
    }
}
