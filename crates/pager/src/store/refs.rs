//! Reference counts of slots: one `u16` for each granule of a tier, shared with the keepers.
//!
//! Invariant: a slot's count sits at the granule where the slot starts and is the number of table
//! words (of all processes that fork made) that name the slot; 0 = nobody, the bytes may be
//! overwritten. A count that reached `u16::MAX` stays there until [`super::Store::rebuild`].
//! Counts of granules where no slot starts mean nothing and are never read.

use std::sync::atomic::{AtomicU16, Ordering};

/// The counts of one tier. Every method must be total: a unit past [`RefCounts::units`] counts
/// as 0 and ignores changes, because units come from words that a target can write.
pub trait RefCounts: Send {
    /// Granules covered; offsets from `units() * 64` bytes on cannot be stored to.
    fn units(&self) -> u64;
    /// The count, with `Acquire`: after a 0 the last reader's reads are over.
    fn get(&self, unit: u64) -> u16;
    /// Sets the count, with `Release`: whoever sees it sees the bytes written before.
    fn set(&self, unit: u64, count: u16);
    /// Counts one more reference; sticks at `u16::MAX`.
    fn inc(&self, unit: u64);
    /// Counts one reference less; true if it was the last. 0 and `u16::MAX` stay.
    fn dec_and_test(&self, unit: u64) -> bool;
}

/// [`RefCounts::inc`] on one counter.
pub fn inc(count: &AtomicU16) {
    // Relaxed: whoever copies a reference already holds one, so the slot cannot be reused.
    let more = |n: u16| n.checked_add(1);
    let _ = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
}

/// [`RefCounts::dec_and_test`] on one counter.
pub fn dec_and_test(count: &AtomicU16) -> bool {
    let less = |n: u16| (n != 0 && n != u16::MAX).then(|| n - 1);
    // Release: our reads of the slot end before the allocator can see the 0 and write.
    count.fetch_update(Ordering::Release, Ordering::Relaxed, less) == Ok(1)
}

impl<T: AsRef<[AtomicU16]> + Send> RefCounts for T {
    fn units(&self) -> u64 {
        self.as_ref().len() as u64
    }

    fn get(&self, unit: u64) -> u16 {
        at(self.as_ref(), unit).map_or(0, |count| count.load(Ordering::Acquire))
    }

    fn set(&self, unit: u64, value: u16) {
        if let Some(count) = at(self.as_ref(), unit) {
            count.store(value, Ordering::Release);
        }
    }

    fn inc(&self, unit: u64) {
        if let Some(count) = at(self.as_ref(), unit) {
            inc(count);
        }
    }

    fn dec_and_test(&self, unit: u64) -> bool {
        at(self.as_ref(), unit).is_some_and(dec_and_test)
    }
}

fn at(counts: &[AtomicU16], unit: u64) -> Option<&AtomicU16> {
    counts.get(usize::try_from(unit).ok()?)
}
