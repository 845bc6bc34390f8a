//! Free space of one tier: which slab gets the next bytes.
//!
//! Invariant: everything here is derived from the set of referenced places and may lag behind
//! it in one direction only: a slot that a keeper freed may still look taken, never the reverse.
//! A slab is *open* while it may hold data; open slabs are what the limit counts. An open slab
//! is either the current one or filed under its longest free run.

use std::collections::BTreeSet;
use std::ops::Range;

use keeper::word::{SLOT_GRANULE, Slot};

use super::bits::UNITS;
use super::slab::{SLAB_BYTES, Slab};

/// A range of granules within one slab.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Run {
    pub(super) slab: usize,
    pub(super) units: Range<usize>,
}

impl Run {
    /// Where the slot lies; `None` if it would cross slabs, which none of ours does.
    pub(super) fn of(slot: Slot) -> Option<Run> {
        let slab = usize::try_from(slot.offset / SLAB_BYTES).ok()?;
        let start = usize::try_from(slot.offset % SLAB_BYTES / SLOT_GRANULE).ok()?;
        let units = start..start + units_of(usize::from(slot.len));
        (units.end <= UNITS).then_some(Run { slab, units })
    }

    /// Byte offset in the tier.
    pub(super) fn offset(&self) -> u64 {
        count_index(self.slab, self.units.start) * SLOT_GRANULE
    }

    /// Bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.units.len() as u64 * SLOT_GRANULE
    }
}

/// Granules that `bytes` bytes take.
pub(super) fn units_of(bytes: usize) -> usize {
    bytes.div_ceil(64)
}

/// The granule of the tier, and so the index of its count, that is granule `unit` of `slab`.
pub(super) fn count_index(slab: usize, unit: usize) -> u64 {
    slab as u64 * UNITS as u64 + unit as u64
}

struct Entry {
    slab: Slab,
    /// The key under which an open slab that is not current is filed.
    filed: Option<usize>,
}

#[derive(Default)]
pub(super) struct Space {
    entries: Vec<Entry>,
    filed: BTreeSet<(usize, usize)>,
    closed: BTreeSet<usize>,
    /// The slab being filled, and where to go on in it.
    current: Option<(usize, usize)>,
    /// The next slab to sweep.
    hand: usize,
    taken_units: u64,
}

impl Space {
    pub(super) fn taken_bytes(&self) -> u64 {
        self.taken_units * SLOT_GRANULE
    }

    pub(super) fn backed_bytes(&self) -> u64 {
        self.entries.iter().map(|e| e.slab.backed_bytes()).sum()
    }

    pub(super) fn slabs(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn open_slabs(&self) -> usize {
        self.entries.len() - self.closed.len()
    }

    /// A free run of at least `wanted` granules, behind the last one if it can be.
    pub(super) fn find(&mut self, wanted: usize) -> Option<Run> {
        if let Some((slab, from)) = self.current
            && let Some(units) = self.entries[slab].slab.find(from, wanted)
        {
            return Some(Run { slab, units });
        }
        if let Some(&(_, slab)) = self.filed.range((wanted, 0)..).next() {
            self.make_current(slab);
        }
        // No other slab: then what was freed in this one, behind where we are.
        let (slab, _) = self.current?;
        let units = self.entries[slab].slab.find(0, wanted)?;
        Some(Run { slab, units })
    }

    /// The slab that should be opened next.
    pub(super) fn next_closed(&self) -> usize {
        self.closed.first().copied().unwrap_or(self.entries.len())
    }

    /// Opens `slab`, which holds nothing, and fills it next.
    pub(super) fn open(&mut self, slab: usize) {
        self.grow_to(slab + 1);
        self.closed.remove(&slab);
        self.make_current(slab);
    }

    /// Closes a slab that holds nothing.
    pub(super) fn close(&mut self, slab: usize) {
        debug_assert!(self.entries[slab].slab.is_empty());
        self.unfile(slab);
        self.current = self.current.filter(|(current, _)| *current != slab);
        self.closed.insert(slab);
    }

    /// Notes that bytes are about to be written to the run.
    pub(super) fn touch(&mut self, run: &Run) {
        self.entries[run.slab].slab.touch(run.units.clone());
    }

    /// Makes the run a slot.
    pub(super) fn take(&mut self, run: &Run) {
        debug_assert!(!self.entries[run.slab].slab.any_taken(run.units.clone()));
        self.entries[run.slab].slab.take(run.units.clone());
        self.taken_units += run.units.len() as u64;
        match &mut self.current {
            Some((slab, next)) if *slab == run.slab => *next = run.units.end,
            _ => self.refile(run.slab),
        }
    }

    /// Frees the slot that starts at the run's start, if there is one.
    pub(super) fn release(&mut self, run: &Run) {
        let Some(entry) = self.entries.get_mut(run.slab) else {
            return;
        };
        if entry.slab.starts_at(run.units.start) {
            self.taken_units -= entry.slab.release(run.units.start) as u64;
            self.refile(run.slab);
        }
    }

    /// Sweeps the next open slab.
    pub(super) fn sweep_next(&mut self, referenced: impl Fn(u64) -> bool) {
        for _ in 0..self.entries.len() {
            let slab = self.hand % self.entries.len();
            self.hand = slab + 1;
            if !self.closed.contains(&slab) {
                let entry = &mut self.entries[slab].slab;
                let freed = entry.sweep(|unit| referenced(count_index(slab, unit)));
                self.taken_units -= freed as u64;
                if freed > 0 {
                    self.refile(slab);
                }
                return;
            }
        }
    }

    /// What can be given back of `slab`: runs of backed pages without a slot.
    pub(super) fn idle(&self, slab: usize) -> Vec<Run> {
        let runs = self.entries[slab].slab.idle_pages().into_iter();
        runs.map(|units| Run { slab, units }).collect()
    }

    /// Notes that the run's pages were given back.
    pub(super) fn untouch(&mut self, run: &Run) {
        self.entries[run.slab].slab.untouch(run.units.clone());
    }

    pub(super) fn is_idle(&self, slab: usize) -> bool {
        let entry = &self.entries[slab].slab;
        entry.is_empty() && entry.backed_bytes() == 0 && !self.closed.contains(&slab)
    }

    /// Counts a slot found in the table; true if it was not known yet. Slots that overlap,
    /// which only a hostile table has, join their granules.
    pub(super) fn adopt(&mut self, run: &Run) -> bool {
        self.adopt_backed(run.slab + 1);
        let slab = &mut self.entries[run.slab].slab;
        let before = slab.taken_units();
        let known = slab.starts_at(run.units.start);
        slab.take(run.units.clone());
        self.taken_units += (slab.taken_units() - before) as u64;
        self.refile(run.slab);
        !known
    }

    /// Counts the first `slabs` slabs as open and written, whatever is known of them.
    pub(super) fn adopt_backed(&mut self, slabs: usize) {
        let from = self.entries.len();
        self.grow_to(slabs);
        for slab in from..self.entries.len() {
            self.closed.remove(&slab);
            self.entries[slab].slab.touch(0..UNITS);
            self.refile(slab);
        }
    }

    fn grow_to(&mut self, slabs: usize) {
        for slab in self.entries.len()..slabs {
            self.closed.insert(slab);
            let slab = Slab::EMPTY;
            self.entries.push(Entry { slab, filed: None });
        }
    }

    fn make_current(&mut self, slab: usize) {
        let old = self.current.replace((slab, 0));
        self.unfile(slab);
        if let Some((old, _)) = old {
            self.refile(old);
        }
    }

    fn refile(&mut self, slab: usize) {
        if self.current.is_some_and(|(current, _)| current == slab) {
            return;
        }
        self.unfile(slab);
        let run = self.entries[slab].slab.longest_run();
        self.entries[slab].filed = Some(run);
        self.filed.insert((run, slab));
    }

    fn unfile(&mut self, slab: usize) {
        if let Some(run) = self.entries[slab].filed.take() {
            self.filed.remove(&(run, slab));
        }
    }
}
