//! What open files have read, and clients that wait for changes (poll(2)).
//!
//! Invariant: as for the kernel's own files, a client that has not read the current content is
//! ready, and so is one that polls a file of a removed tenant. Each client that polls is
//! registered, also if it is ready: with edge triggering (EPOLLET) it does not poll again before it
//! is woken.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuser::{PollEvents, PollNotifier};

use super::directory;
use super::inode::Inode;
use super::request_queue::Tree;

/// The open files, by handle.
#[derive(Clone, Default)]
pub(super) struct Open(Arc<Mutex<BTreeMap<u64, OpenFile>>>);

/// What is known of one open file.
#[derive(Default)]
pub(super) struct OpenFile {
    pub(super) text: Option<Vec<u8>>,
    /// Number of pressure notifications when the file was last read; `None` before the first read.
    pub(super) reported: Option<u64>,
    /// Whether a client has polled the file.
    pub(super) has_polled: bool,
}

impl Open {
    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, OpenFile>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the events of poll(2) for an open file; `notifier` is notified when they change.
pub(super) fn poll(
    tree: &mut Tree,
    open: &Open,
    (inode, handle): (Option<Inode>, u64),
    notifier: PollNotifier,
) -> PollEvents {
    let ready = PollEvents::POLLIN | PollEvents::POLLOUT;
    let changed = ready | PollEvents::POLLPRI | PollEvents::POLLERR;
    // The kernel does the same for files of a removed group: a client that waits only for changes
    // would wait for ever.
    let Some(inode) = inode.filter(|inode| directory::entry(tree, *inode).is_ok()) else {
        return changed;
    };
    let is_seen = if directory::tells_changes(inode) {
        let Ok(held) = directory::read(tree, inode) else {
            return changed;
        };
        let is_seen = polled(open, handle, |one| one.text.as_ref() == Some(&held));
        let wake = Box::new(move || {
            // This fails if the client has closed the file; then no client needs it.
            let _ = notifier.notify();
        });
        tree.changes.wait(handle, (inode, held), wake);
        is_seen
    } else if let Some(serial) = directory::report_of(tree, inode) {
        let reported = tree.reports.wait(serial, handle, notifier);
        polled(open, handle, |one| one.reported == Some(reported))
    } else {
        return ready;
    };
    if is_seen { ready } else { changed }
}

/// Returns what `of` reads from an open file, and notes that the file is polled.
fn polled<T>(open: &Open, handle: u64, of: impl FnOnce(&OpenFile) -> T) -> T {
    let mut open = open.lock();
    let opened = open.entry(handle).or_default();
    opened.has_polled = true;
    of(opened)
}

/// Forgets a polled file that is closed.
pub(super) fn close(tree: &mut Tree, (inode, handle): (Option<Inode>, u64)) {
    tree.changes.wait_no_more(handle);
    if let Some(serial) = inode.and_then(|inode| directory::report_of(tree, inode)) {
        tree.reports.wait_no_more(serial, handle);
    }
}
