//! Who waits for a file to hold something else: poll(2) on cgroup.events and memory.events.
//!
//! Invariant: whoever waits is woken within a tenth of a second of a change, or a little later where reading is dear; where nobody waits nothing is
//! read. What counts is what a file holds, not what was told of it: no change is lost between a reading and a question.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use super::inode::Inode;

/// Between two readings.
const EVERY: Duration = Duration::from_millis(100);
/// Reading takes one in so many parts of the time at most.
const SHARE: u32 = 20;

/// Has whoever waits ask anew.
pub(super) type Wake = Box<dyn FnOnce() + Send>;

/// Somebody who waits.
struct Waiter {
    inode: Inode,
    /// What it holds until it has changed.
    held: Vec<u8>,
    wake: Wake,
}

/// All who wait, by the handles of their open files.
#[derive(Default)]
pub(super) struct Changes {
    waiting: BTreeMap<u64, Waiter>,
    next: Option<Instant>,
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} wait", self.waiting.len())
    }
}

impl Changes {
    /// Whoever has this open is to be woken when the file holds something else.
    pub(super) fn wait(&mut self, handle: u64, (inode, held): (Inode, Vec<u8>), wake: Wake) {
        let waiter = Waiter { inode, held, wake };
        self.waiting.insert(handle, waiter);
    }

    /// The file is closed.
    pub(super) fn wait_no_more(&mut self, handle: u64) {
        self.waiting.remove(&handle);
    }

    /// Wakes those whose file has changed, or is gone, if it is time to `read`; how long it is not.
    pub(super) fn wake(
        &mut self,
        now: Instant,
        mut read: impl FnMut(Inode) -> Option<Vec<u8>>,
    ) -> Duration {
        if self.waiting.is_empty() {
            return Duration::MAX;
        }
        let next = self.next.unwrap_or(now);
        let left = next.saturating_duration_since(now);
        if !left.is_zero() {
            return left;
        }
        // Of a file that many wait for one reading does.
        let mut texts: BTreeMap<u64, Option<Vec<u8>>> = BTreeMap::new();
        for (handle, one) in std::mem::take(&mut self.waiting) {
            let text = texts.entry(one.inode.number());
            let text = text.or_insert_with(|| read(one.inode));
            match text.as_ref() == Some(&one.held) {
                true => {
                    self.waiting.insert(handle, one);
                }
                false => (one.wake)(),
            }
        }
        let pause = EVERY.max(now.elapsed() * SHARE);
        self.next = Some(now + pause);
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
    fn who_waits_is_woken_once_by_a_change() {
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
        // An hour from now nothing takes any time.
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
        assert_eq!(changes.wake(begin, &mut text), EVERY);
        assert_eq!(changes.wake(begin + EVERY / 2, &mut text), EVERY / 2);
        assert_eq!((reads, now()), (2, 0), "each once, and not too often");
        let changed = |inode| Some(if inode == a { b"1" } else { b"x" }.to_vec());
        assert_eq!(changes.wake(begin + EVERY, changed), EVERY);
        assert_eq!(now(), 17);
        assert_eq!(changes.wake(begin + EVERY * 2, changed), EVERY);
        assert_eq!(now(), 17);
        // Gone.
        changes.wait(4, (a, b"1".to_vec()), wake(4096));
        changes.wait_no_more(4);
        assert_eq!(changes.wake(begin + EVERY * 3, |_| None), EVERY);
        assert_eq!(now(), 17 + 256);
        assert_eq!(changes.wake(begin + EVERY * 4, |_| None), Duration::MAX);
    }
}
