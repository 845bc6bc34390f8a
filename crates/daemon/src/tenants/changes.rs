//! Clients that wait for a file to change: poll(2) on cgroup.events and memory.events.
//!
//! Invariant: a waiting client is woken within a tenth of a second after a change, or a little
//! later if reading is costly. While no client waits nothing is read. Changes are found by
//! comparing contents, so none is lost between a client's read and its poll.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use super::inode::Inode;

/// Time between two reads of the files.
const READ_EVERY: Duration = Duration::from_millis(100);
/// Divisor: reading takes at most `1 / SHARE` of the time.
const SHARE: u32 = 20;

/// Makes the waiting client poll again.
pub(super) type Wake = Box<dyn FnOnce() + Send>;

/// A client that waits for its file to change.
struct Waiter {
    inode: Inode,
    /// The content that the client has read last.
    known: Vec<u8>,
    wake: Wake,
}

/// All waiting clients, by the handles of their open files.
#[derive(Default)]
pub(super) struct Changes {
    waiting: BTreeMap<u64, Waiter>,
    next_read: Option<Instant>,
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} wait", self.waiting.len())
    }
}

impl Changes {
    /// Registers the client that has opened the file by `handle`: `wake` is called when the file's
    /// content differs from `known`.
    pub(super) fn wait(&mut self, handle: u64, (inode, known): (Inode, Vec<u8>), wake: Wake) {
        let waiter = Waiter { inode, known, wake };
        self.waiting.insert(handle, waiter);
    }

    /// Forgets a client when its file is closed.
    pub(super) fn wait_no_more(&mut self, handle: u64) {
        self.waiting.remove(&handle);
    }

    /// Reads the files by `read` if [`READ_EVERY`] has passed, and wakes the clients whose file has
    /// changed or is gone. Returns the time until the next call.
    pub(super) fn wake(
        &mut self,
        now: Instant,
        mut read: impl FnMut(Inode) -> Option<Vec<u8>>,
    ) -> Duration {
        if self.waiting.is_empty() {
            return Duration::MAX;
        }
        let next = self.next_read.unwrap_or(now);
        let left = next.saturating_duration_since(now);
        if !left.is_zero() {
            return left;
        }
        // Each file is read once for all its clients.
        let mut texts: BTreeMap<u64, Option<Vec<u8>>> = BTreeMap::new();
        for (handle, one) in std::mem::take(&mut self.waiting) {
            let text = texts.entry(one.inode.number());
            let text = text.or_insert_with(|| read(one.inode));
            match text.as_ref() == Some(&one.known) {
                true => {
                    self.waiting.insert(handle, one);
                }
                false => (one.wake)(),
            }
        }
        let pause = READ_EVERY.max(now.elapsed() * SHARE);
        self.next_read = Some(now + pause);
        pause
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::super::file::File;
    use super::*;

    #[test]
    fn a_change_wakes_each_waiting_client_once() {
        let woken = Arc::new(AtomicU32::new(0));
        let wake = |bit: u32| -> Wake {
            let woken = Arc::clone(&woken);
            Box::new(move || {
                woken.fetch_add(bit, Ordering::Relaxed);
            })
        };
        let now = || woken.load(Ordering::Relaxed);
        let (a, b) = (
            Inode::File(1, File::CgroupEvents),
            Inode::File(2, File::Events),
        );
        let mut changes = Changes::default();
        // This time is in the future, so the time that reading takes is computed as 0.
        let begin = Instant::now() + Duration::from_secs(3600);
        assert_eq!(changes.wake(begin, |_| None), Duration::MAX);
        changes.wait(1, (a, b"0".to_vec()), wake(1));
        changes.wait(2, (a, b"0".to_vec()), wake(16));
        changes.wait(3, (b, b"x".to_vec()), wake(256));
        let mut reads = 0;
        let mut text = |inode| {
            reads += 1;
            Some(if inode == a { b"0" } else { b"x" }.to_vec())
        };
        assert_eq!(changes.wake(begin, &mut text), READ_EVERY);
        assert_eq!(
            changes.wake(begin + READ_EVERY / 2, &mut text),
            READ_EVERY / 2
        );
        assert_eq!((reads, now()), (2, 0), "each once, and not too often");
        let changed = |inode| Some(if inode == a { b"1" } else { b"x" }.to_vec());
        assert_eq!(changes.wake(begin + READ_EVERY, changed), READ_EVERY);
        assert_eq!(now(), 17);
        assert_eq!(changes.wake(begin + READ_EVERY * 2, changed), READ_EVERY);
        assert_eq!(now(), 17);
        // One client has closed its file; the file of another is gone.
        changes.wait(4, (a, b"1".to_vec()), wake(4096));
        changes.wait_no_more(4);
        assert_eq!(changes.wake(begin + READ_EVERY * 3, |_| None), READ_EVERY);
        assert_eq!(now(), 17 + 256);
        assert_eq!(
            changes.wake(begin + READ_EVERY * 4, |_| None),
            Duration::MAX
        );
    }
}
