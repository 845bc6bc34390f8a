//! Finds out whether a process's memory lock (mmap_lock) is held for long, by reading the two words
//! of the lock. Does not take the lock.
//!
//! Invariant: a lock counts as held only if it was never seen free during [`WINDOW`], and its
//! holder was never seen to change. If the same holder held the lock at the last check, one check
//! is enough. A lock that cannot be read counts as free.
//!
//! The lock is the kernel's rw_semaphore. It consists of a count (bit 0: held for writing; from bit
//! 8 on: the number of readers) and of the task that took it last, with flags in the low bits.
//! Source: Linux, kernel/locking/rwsem.c, as of 5.3 and later.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use crate::access::Access;
use crate::btf::Btf;
use crate::reader::{Mm, Reader};

/// Values in the count: a writer, and one reader.
const WRITER: u64 = 1;
const READER: u64 = 1 << 8;
/// Flags in the low bits of the task's address. They may change while the same task holds the lock.
const OWNER_FLAGS: u64 = 7;
/// How long a lock is watched before it counts as held.
const WINDOW: Duration = Duration::from_millis(30);
/// How long a lock is watched once watching all locks has taken [`BUDGET`] within [`BUDGET_TIME`].
const SHORT_WINDOW: Duration = Duration::from_millis(2);
const BUDGET: Duration = Duration::from_millis(120);
const BUDGET_TIME: Duration = Duration::from_secs(10);
/// Time between two checks.
const STEP: Duration = Duration::from_micros(500);
/// Number of times that one check reads the lock, in one run of the BPF program.
const SCANS: usize = 8;

/// The holder of a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Holder {
    Free,
    /// A writer: kernel address of its task.
    Writer(u64),
    /// Number of readers, and kernel address of the task of the last one.
    Readers(u64, u64),
}

impl Holder {
    /// Decodes the lock's two words.
    fn of(count: u64, owner: u64) -> Holder {
        let owner = owner & !OWNER_FLAGS;
        match (count & WRITER, count / READER) {
            (WRITER, _) => Holder::Writer(owner),
            (_, 0) => Holder::Free,
            (_, readers) => Holder::Readers(readers, owner),
        }
    }

    /// Whether a call that needs the lock for `access` would have to wait for this holder.
    fn blocks(self, access: Access) -> bool {
        match (self, access) {
            (Holder::Free, _) | (Holder::Readers(..), Access::Read) => false,
            (Holder::Writer(_), _) | (Holder::Readers(..), Access::Change) => true,
        }
    }
}

/// Offsets of the lock, and the locks that were held at their last check.
#[derive(Debug)]
pub(crate) struct Locks {
    /// Offsets of the lock's two words in the mm, in bytes.
    count: u64,
    owner: u64,
    /// The holders of the locks that were held at their last check, by [`Mm::id`].
    held: BTreeMap<u64, Holder>,
    /// Beginning of the current period of [`BUDGET_TIME`].
    since: Instant,
    /// Time spent on watching locks in the current period.
    spent: Duration,
}

impl Locks {
    /// Finds the offsets in the kernel's type information; `None` if the lock is of another kind
    /// (PREEMPT_RT).
    pub(crate) fn find(btf: &Btf<'_>) -> Option<Locks> {
        let lock = btf.offset("mm_struct", "mmap_lock")?;
        Some(Locks {
            count: lock + btf.offset("rw_semaphore", "count")?,
            owner: lock + btf.offset("rw_semaphore", "owner")?,
            held: BTreeMap::new(),
            since: Instant::now(),
            spent: Duration::ZERO,
        })
    }

    /// Whether the lock is held for long and blocks a call that needs it for `access`. Takes up to
    /// [`WINDOW`].
    ///
    /// # Errors
    /// The BPF program cannot be run.
    pub(crate) fn is_held(
        &mut self,
        reader: &mut Reader,
        space: &Mm,
        access: Access,
    ) -> io::Result<bool> {
        let begin = Instant::now();
        let mut seen: Option<Holder> = None;
        let window = self.window(begin);
        loop {
            for holder in self.scan(reader, space)? {
                if !holder.blocks(access) || seen.is_some_and(|seen| seen != holder) {
                    self.held.remove(&space.id());
                    self.spent += begin.elapsed();
                    return Ok(false);
                }
                seen = Some(holder);
            }
            let Some(holder) = seen else {
                return Ok(false);
            };
            let is_known = self.held.get(&space.id()) == Some(&holder);
            if is_known || begin.elapsed() >= window {
                self.spent += begin.elapsed();
                // Entries of processes that have ended stay: they are few, and do no harm.
                if self.held.len() >= 4096 {
                    self.held.pop_first();
                }
                self.held.insert(space.id(), holder);
                return Ok(true);
            }
            std::thread::sleep(STEP);
        }
    }

    /// How long to watch a lock now before it counts as held.
    fn window(&mut self, now: Instant) -> Duration {
        if now.saturating_duration_since(self.since) >= BUDGET_TIME {
            (self.since, self.spent) = (now, Duration::ZERO);
        }
        match self.spent < BUDGET {
            true => WINDOW,
            false => SHORT_WINDOW,
        }
    }

    /// Returns the holders at [`SCANS`] moments in quick succession; skips moments that cannot be
    /// read.
    fn scan(&self, reader: &mut Reader, space: &Mm) -> io::Result<Vec<Holder>> {
        let copier = &mut reader.copier;
        let at = |offset| space.id() + offset;
        let requested: Vec<[usize; 2]> = (0..SCANS)
            .map(|_| {
                [
                    copier.request(at(self.count), 8),
                    copier.request(at(self.owner), 8),
                ]
            })
            .collect();
        copier.run()?;
        let word = |number| copier.result(number).map(|words| words[0]);
        let holders = requested.into_iter().filter_map(|[count, owner]| {
            let (count, owner) = (word(count)?, word(owner)?);
            Some(Holder::of(count, owner))
        });
        Ok(holders.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_are_decoded_from_the_words() {
        let waiters = 0b110;
        assert_eq!(Holder::of(waiters, 0x1000), Holder::Free);
        assert_eq!(Holder::of(WRITER | waiters, 0x1002), Holder::Writer(0x1000));
        assert_eq!(
            Holder::of((2 * READER) | waiters, 0x1001),
            Holder::Readers(2, 0x1000)
        );
    }

    #[test]
    fn readers_wait_for_writers_alone() {
        let readers = Holder::Readers(1, 0);
        assert!(!readers.blocks(Access::Read) && readers.blocks(Access::Change));
        assert!(Holder::Writer(0).blocks(Access::Read));
        assert!(!Holder::Free.blocks(Access::Change));
    }
}
