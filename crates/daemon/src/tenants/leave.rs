//! The thread that unmounts the tree at the end.
//!
//! Invariant: it begins before anything is mounted. At the end there may be no thread to be had, and
//! unmounting waits for answers that the caller gives meanwhile.

use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use super::mount::Mounted;
use crate::error::Error;

/// The thread, which waits for what it unmounts. Dropped, it ends.
#[derive(Debug)]
pub(super) struct Leaving {
    give: Sender<Mounted>,
    thread: JoinHandle<()>,
}

impl Leaving {
    /// Begins the thread.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(super) fn begin() -> Result<Leaving, Error> {
        let (give, take) = channel();
        let thread = std::thread::Builder::new().name("unmount".to_owned());
        let thread = thread.spawn(move || drop(take.recv())).map_err(|error| {
            let what = format!("cannot begin a thread: {error}");
            Error::failed(what, "is the limit of processes (ulimit -u) high enough?")
        })?;
        Ok(Leaving { give, thread })
    }

    /// Unmounts; the thread has finished when that is done.
    pub(super) fn leave(self, mounted: Option<Mounted>) -> JoinHandle<()> {
        if let Some(mounted) = mounted {
            // The other end lives as long as its thread, which waits for this.
            let _ = self.give.send(mounted);
        }
        self.thread
    }
}
