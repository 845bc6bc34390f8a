//! What open files have read, and who waits for them to hold something else (poll(2)).
//!
//! Invariant: as of the kernel's own files, who has not read what there is now is ready, and so is whoever asks for a file of a tenant that is gone.
//! Whoever may wait is kept, whatever it is answered: one that goes by edges (EPOLLET) does not ask again before it is woken.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuser::{PollEvents, PollNotifier};

use super::desk::Tree;
use super::directory;
use super::inode::Inode;

/// What open files have read, by their handle.
#[derive(Clone, Default)]
pub(super) struct Open(Arc<Mutex<BTreeMap<u64, Opened>>>);

/// One of them.
#[derive(Default)]
pub(super) struct Opened {
    pub(super) text: Option<Vec<u8>>,
    /// How often its readers had been told of pressure when it was read last.
    pub(super) told: Option<u64>,
    /// Somebody waits for more.
    pub(super) has_polled: bool,
}

impl Open {
    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Opened>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What poll(2) answers whoever asks by a handle; `who` is woken when that changes.
pub(super) fn poll(
    tree: &mut Tree,
    open: &Open,
    (inode, handle): (Option<Inode>, u64),
    who: PollNotifier,
) -> PollEvents {
    let ready = PollEvents::POLLIN | PollEvents::POLLOUT;
    let changed = ready | PollEvents::POLLPRI | PollEvents::POLLERR;
    // As the kernel's files of a group that is gone: whoever asks for changes alone would wait for ever.
    let Some(inode) = inode.filter(|inode| directory::entry(tree, *inode).is_ok()) else {
        return changed;
    };
    let is_seen = if directory::tells_changes(inode) {
        let Ok(held) = directory::read(tree, inode) else {
            return changed;
        };
        let is_seen = polled(open, handle, |one| one.text.as_ref() == Some(&held));
        let wake = Box::new(move || {
            // It is closed already.
            let _ = who.notify();
        });
        tree.changes.wait(handle, (inode, held), wake);
        is_seen
    } else if let Some(serial) = directory::report_of(tree, inode) {
        let told = tree.reports.wait(serial, handle, who);
        polled(open, handle, |one| one.told == Some(told))
    } else {
        return ready;
    };
    if is_seen { ready } else { changed }
}

/// Something of an open file that somebody polls.
fn polled<T>(open: &Open, handle: u64, of: impl FnOnce(&Opened) -> T) -> T {
    let mut open = open.lock();
    let opened = open.entry(handle).or_default();
    opened.has_polled = true;
    of(opened)
}

/// A file is closed that somebody polled.
pub(super) fn close(tree: &mut Tree, (inode, handle): (Option<Inode>, u64)) {
    tree.changes.wait_no_more(handle);
    if let Some(serial) = inode.and_then(|inode| directory::report_of(tree, inode)) {
        tree.reports.wait_no_more(serial, handle);
    }
}
