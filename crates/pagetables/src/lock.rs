//! Whether a process's memory lock (mmap_lock) is held, and for long: its words are read without taking it.
//!
//! Invariant: a lock counts as held only if it was never seen free, and its holder never seen to change, for
//! [`WINDOW`]; for a lock that was held so before, one look is enough. What cannot be read counts as free.
//!
//! The lock is the kernel's rw_semaphore: a count (bit 0: held for writing; from bit 8 on: the number of readers), and the
//! task that took it last, with flags in its low bits. Source: Linux, kernel/locking/rwsem.c, as of 5.3 and later.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use crate::access::Access;
use crate::btf::Btf;
use crate::reader::{Mm, Reader};

/// The count's bit of a writer, and its unit of readers.
const WRITER: u64 = 1;
const READER: u64 = 1 << 8;
/// Flags in the low bits of the owner: what they say changes while the same task holds the lock.
const OWNER_FLAGS: u64 = 7;
/// For how long a lock is watched before it counts as held.
const WINDOW: Duration = Duration::from_millis(30);
/// The same once so much was spent on watching within [`BUDGET_TIME`].
const SHORT_WINDOW: Duration = Duration::from_millis(2);
const BUDGET: Duration = Duration::from_millis(120);
const BUDGET_TIME: Duration = Duration::from_secs(10);
/// Between two looks at it.
const STEP: Duration = Duration::from_micros(500);
/// Looks within one run of the program.
const LOOKS: usize = 8;

/// The holder of a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Holder {
    Free,
    /// The task's address in the kernel.
    Writer(u64),
    /// How many, and the last of them.
    Readers(u64, u64),
}

impl Holder {
    /// From the lock's two words.
    fn of(count: u64, owner: u64) -> Holder {
        let owner = owner & !OWNER_FLAGS;
        match (count & WRITER, count / READER) {
            (WRITER, _) => Holder::Writer(owner),
            (_, 0) => Holder::Free,
            (_, readers) => Holder::Readers(readers, owner),
        }
    }

    /// Whether a call that takes the lock in this way would wait for the holder.
    fn blocks(self, access: Access) -> bool {
        match (self, access) {
            (Holder::Free, _) | (Holder::Readers(..), Access::Read) => false,
            (Holder::Writer(_), _) | (Holder::Readers(..), Access::Change) => true,
        }
    }
}

/// Where the lock lies, and which were held when they were seen last.
#[derive(Debug)]
pub(crate) struct Locks {
    /// Of its two words in the mm, bytes.
    count: u64,
    owner: u64,
    /// By the mm's number.
    held: BTreeMap<u64, Holder>,
    /// When the time of [`Locks::spent`] began.
    since: Instant,
    spent: Duration,
}

impl Locks {
    /// From the kernel's type information; none where the lock is of another kind (PREEMPT_RT).
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

    /// Whether the lock is held in a way that this access would wait for, and for long.
    ///
    /// # Errors
    /// The program cannot be run.
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
            for holder in self.look(reader, space)? {
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
                // Numbers of processes that have ended stay; they are few, and tell nothing wrong.
                if self.held.len() >= 4096 {
                    self.held.pop_first();
                }
                self.held.insert(space.id(), holder);
                return Ok(true);
            }
            std::thread::sleep(STEP);
        }
    }

    /// How long to watch a lock.
    fn window(&mut self, now: Instant) -> Duration {
        if now.saturating_duration_since(self.since) >= BUDGET_TIME {
            (self.since, self.spent) = (now, Duration::ZERO);
        }
        match self.spent < BUDGET {
            true => WINDOW,
            false => SHORT_WINDOW,
        }
    }

    /// Its holders at some moments right after each other; those that cannot be read are left out.
    fn look(&self, reader: &mut Reader, space: &Mm) -> io::Result<Vec<Holder>> {
        let copier = &mut reader.copier;
        let at = |offset| space.id() + offset;
        let asked: Vec<[usize; 2]> = (0..LOOKS)
            .map(|_| [copier.ask(at(self.count), 8), copier.ask(at(self.owner), 8)])
            .collect();
        copier.run()?;
        let word = |number| copier.answer(number).map(|words| words[0]);
        let holders = asked.into_iter().filter_map(|[count, owner]| {
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
    fn holders_are_told_from_the_words() {
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
