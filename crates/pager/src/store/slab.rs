//! A slab: 128 KiB of a tier, and which granules of it slots take.
//!
//! Invariant: derived state. `taken` is the union of the slots, `starts` has their first
//! granules, a slot ends at the next start or at the first granule that is not taken. Slots do
//! not cross slabs. Keepers free by dropping a count to 0; [`Slab::sweep`] finds that out.
//!
//! Slots of all sizes share a slab, unlike in a slab allocator of size classes: pages that leave
//! together compress to different sizes, and only so can they lie side by side and come back
//! with one read.

use std::ops::Range;

use keeper::word::{PAGE_SIZE, SLOT_GRANULE};

use super::bits::{Bits, UNITS};

/// Bytes of a slab.
pub(super) const SLAB_BYTES: u64 = UNITS as u64 * SLOT_GRANULE;

/// Granules of a page of the backing file, the smallest hole that gives memory back.
pub(super) const PAGE_UNITS: usize = PAGE_SIZE / 64;
const PAGES: usize = UNITS / PAGE_UNITS;

#[derive(Clone, Debug)]
pub(super) struct Slab {
    taken: Bits,
    starts: Bits,
    /// Pages of the backing file that may hold data, one bit each.
    backed: u32,
}

impl Slab {
    pub(super) const EMPTY: Slab = Slab {
        taken: Bits::NONE,
        starts: Bits::NONE,
        backed: 0,
    };

    /// The first free run from `from` on that has `units` granules.
    pub(super) fn find(&self, from: usize, units: usize) -> Option<Range<usize>> {
        self.taken.clear_runs(from).find(|run| run.len() >= units)
    }

    pub(super) fn longest_run(&self) -> usize {
        let runs = self.taken.clear_runs(0);
        runs.map(|run| run.len()).max().unwrap_or(0)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    pub(super) fn taken_units(&self) -> usize {
        self.taken.count()
    }

    pub(super) fn starts_at(&self, unit: usize) -> bool {
        self.starts.get(unit)
    }

    pub(super) fn any_taken(&self, units: Range<usize>) -> bool {
        self.taken.next_set(units.start) < units.end
    }

    pub(super) fn take(&mut self, units: Range<usize>) {
        debug_assert!(!units.is_empty() && units.end <= UNITS);
        self.starts.set(units.start..units.start + 1);
        self.taken.set(units);
    }

    /// Frees the slot that starts at `unit`; the granules freed.
    pub(super) fn release(&mut self, unit: usize) -> usize {
        debug_assert!(self.starts.get(unit), "a slot starts there");
        let end = (self.starts.next_set(unit + 1)).min(self.taken.next_clear(unit));
        self.starts.clear(unit..unit + 1);
        self.taken.clear(unit..end);
        end - unit
    }

    /// Frees the slots that are no longer referenced; the granules freed.
    pub(super) fn sweep(&mut self, referenced: impl Fn(usize) -> bool) -> usize {
        let mut freed = 0;
        let mut unit = self.starts.next_set(0);
        while unit < UNITS {
            if !referenced(unit) {
                freed += self.release(unit);
            }
            unit = self.starts.next_set(unit + 1);
        }
        freed
    }

    /// Notes that bytes are about to be written there.
    pub(super) fn touch(&mut self, units: Range<usize>) {
        for page in units.start / PAGE_UNITS..units.end.div_ceil(PAGE_UNITS) {
            self.backed |= 1 << page;
        }
    }

    pub(super) fn backed_bytes(&self) -> u64 {
        u64::from(self.backed.count_ones()) * PAGE_SIZE as u64
    }

    /// Runs of backed pages that no slot lies on, as granules.
    pub(super) fn idle_pages(&self) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for page in (0..PAGES).filter(|page| self.backed >> page & 1 != 0) {
            let units = page * PAGE_UNITS..(page + 1) * PAGE_UNITS;
            if self.any_taken(units.clone()) {
                continue;
            }
            match runs.last_mut() {
                Some(last) if last.end == units.start => last.end = units.end,
                _ => runs.push(units),
            }
        }
        runs
    }

    /// Notes that the pages were given back.
    pub(super) fn untouch(&mut self, units: Range<usize>) {
        for page in units.start / PAGE_UNITS..units.end / PAGE_UNITS {
            self.backed &= !(1 << page);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_slots_are_freed_one_by_one() {
        let mut slab = Slab::EMPTY;
        slab.take(0..20);
        slab.take(20..30);
        slab.take(30..94);
        assert_eq!(slab.release(20), 10);
        assert_eq!(slab.find(0, 10), Some(20..30));
        assert_eq!(slab.find(0, 11), Some(94..UNITS));
        assert_eq!(slab.sweep(|unit| unit == 30), 20);
        assert_eq!(slab.taken_units(), 64);
        assert!(slab.starts_at(30) && !slab.starts_at(0));
    }

    #[test]
    fn only_pages_without_a_slot_are_idle() {
        let mut slab = Slab::EMPTY;
        slab.touch(0..4 * PAGE_UNITS);
        slab.take(PAGE_UNITS - 1..PAGE_UNITS + 1);
        assert_eq!(slab.idle_pages(), vec![2 * PAGE_UNITS..4 * PAGE_UNITS]);
        slab.untouch(2 * PAGE_UNITS..4 * PAGE_UNITS);
        assert_eq!(slab.backed_bytes(), 2 * PAGE_SIZE as u64);
        assert!(slab.idle_pages().is_empty());
    }
}
