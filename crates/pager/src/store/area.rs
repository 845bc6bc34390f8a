//! One tier at work: its bytes, its counts and its free space together.
//!
//! Invariant: a slot's bytes are written before its count becomes 1, and the count is 0 before
//! its granules are used again; so a crash between any two steps leaves a slot whole or free.

use std::io;

use keeper::Place;
use keeper::word::{self, SLOT_GRANULE, Slot};

use super::encode::{Encoded, Staged};
use super::slab::SLAB_BYTES;
use super::space::{Run, Space, count_index, units_of};
use super::{Rebuilt, StoreFull, Tier};

/// Slabs swept for each run that is handed out: the sweep keeps up with the allocation.
const SWEEP_PER_RUN: usize = 2;
/// Slabs swept before a tier is called full, when all were swept lately.
const SWEEP_WHEN_FULL: usize = 64;

pub(super) struct Area {
    which: word::Tier,
    tier: Tier,
    max_slabs: usize,
    /// Smallest hole to give back, bytes: a file on a disk should not be cut to pieces.
    min_hole: u64,
    space: Space,
    /// Granules handed out since every slab was last swept.
    since_sweep: usize,
}

impl Area {
    pub(super) fn new(which: word::Tier, tier: Tier, max: u64, min_hole: u64) -> Area {
        let counted = tier.refs.units().saturating_mul(SLOT_GRANULE);
        let max = max.min(counted).min(word::PLACE_OFFSET_END);
        Area {
            which,
            tier,
            max_slabs: usize::try_from(max / SLAB_BYTES).unwrap_or(usize::MAX),
            min_hole,
            space: Space::default(),
            since_sweep: 0,
        }
    }

    /// Writes the longest prefix of `staged` that fits one free run. The places are appended.
    ///
    /// # Errors
    /// [`StoreFull`]: no page was stored.
    pub(super) fn write(
        &mut self,
        staged: Staged<'_>,
        places: &mut Vec<Place>,
    ) -> Result<(), StoreFull> {
        let first = staged.slots().first().map_or(0, Encoded::units);
        let wanted = staged.units().min(super::bits::UNITS);
        let run = self.run(first, wanted)?;
        let fitting = staged.prefix(run.units.len());
        let run = Run {
            units: run.units.start..run.units.start + fitting.units(),
            slab: run.slab,
        };
        self.space.touch(&run);
        let written = self.tier.backing.write_at(fitting.bytes(), run.offset());
        written.map_err(|error| StoreFull::Device(error.kind()))?;
        self.commit(&run, fitting, places);
        Ok(())
    }

    fn commit(&mut self, run: &Run, staged: Staged<'_>, places: &mut Vec<Place>) {
        let mut at = run.units.start;
        for encoded in staged.slots() {
            let units = at..at + encoded.units();
            at = units.end;
            let slot = Run {
                slab: run.slab,
                units,
            };
            let place = Place::slot(Slot {
                tier: self.which,
                kind: encoded.kind,
                offset: slot.offset(),
                len: encoded.len,
            });
            self.space.take(&slot);
            self.since_sweep += slot.units.len();
            self.tier
                .refs
                .set(count_index(slot.slab, slot.units.start), 1);
            places.push(place.expect("an offset within max_slabs and a length within a page"));
        }
    }

    /// A free run of at least `least` granules, of `wanted` if there is one.
    fn run(&mut self, least: usize, wanted: usize) -> Result<Run, StoreFull> {
        self.sweep(SWEEP_PER_RUN);
        if let Some(run) = self.space.find(wanted) {
            return Ok(run);
        }
        let refused = match self.open_slab() {
            Ok(()) => StoreFull::Limit,
            Err(refused) => refused,
        };
        if let Some(run) = self.shorter_run(least, wanted) {
            return Ok(run);
        }
        self.sweep_before_full();
        self.shorter_run(least, wanted).ok_or(refused)
    }

    fn shorter_run(&mut self, least: usize, wanted: usize) -> Option<Run> {
        let mut units = wanted.max(least);
        loop {
            if let Some(run) = self.space.find(units) {
                return Some(run);
            }
            if units <= least {
                return None;
            }
            units = (units / 2).max(least);
        }
    }

    fn open_slab(&mut self) -> Result<(), StoreFull> {
        let slab = self.space.next_closed();
        if slab >= self.max_slabs || self.space.open_slabs() >= self.max_slabs {
            return Err(StoreFull::Limit);
        }
        let reserved = (self.tier.backing).reserve(slab as u64 * SLAB_BYTES, SLAB_BYTES);
        reserved.map_err(|error| StoreFull::Device(error.kind()))?;
        self.space.open(slab);
        Ok(())
    }

    fn sweep(&mut self, slabs: usize) {
        let refs = &self.tier.refs;
        for _ in 0..slabs {
            self.space.sweep_next(|unit| refs.get(unit) != 0);
        }
    }

    /// Sweeps all when an eighth of the tier was handed out since, else a few: a full tier must
    /// not cost a walk over all counts at every page that it refuses.
    fn sweep_before_full(&mut self) {
        let all = self.space.slabs();
        if self.since_sweep >= all * super::bits::UNITS / 8 {
            self.sweep_all();
        } else {
            self.sweep(SWEEP_WHEN_FULL.min(all));
        }
    }

    pub(super) fn sweep_all(&mut self) {
        self.since_sweep = 0;
        self.sweep(self.space.slabs());
    }

    /// Reads a slot's bytes.
    pub(super) fn read(&self, slot: Slot, bytes: &mut [u8]) -> io::Result<()> {
        self.tier.backing.read_at(bytes, slot.offset)
    }

    pub(super) fn share(&mut self, slot: Slot) {
        self.tier.refs.inc(slot.offset / SLOT_GRANULE);
    }

    pub(super) fn free(&mut self, slot: Slot) {
        if self.tier.refs.dec_and_test(slot.offset / SLOT_GRANULE)
            && let Some(run) = Run::of(slot)
        {
            self.space.release(&run);
        }
    }

    /// Gives idle pages back; the bytes given back. A hole that cannot be punched stays ours.
    pub(super) fn shrink(&mut self) -> u64 {
        self.sweep_all();
        let mut given = 0;
        for slab in 0..self.space.slabs() {
            for run in self.space.idle(slab) {
                let (offset, bytes) = (run.offset(), run.bytes());
                if bytes >= self.min_hole && self.tier.backing.punch(offset, bytes).is_ok() {
                    self.space.untouch(&run);
                    given += bytes;
                }
            }
            if self.space.is_idle(slab) {
                self.space.close(slab);
            }
        }
        given
    }

    /// Forgets all that is derived, before [`Area::adopt`].
    pub(super) fn forget(&mut self) {
        self.space = Space::default();
        self.since_sweep = 0;
    }

    /// Counts one reference that the table holds.
    pub(super) fn adopt(&mut self, slot: Slot, found: &mut Rebuilt) {
        let unit = slot.offset / SLOT_GRANULE;
        let last = unit + units_of(usize::from(slot.len)) as u64;
        let Some(run) = Run::of(slot).filter(|_| last <= self.tier.refs.units()) else {
            found.refused += 1;
            return;
        };
        found.references += 1;
        if self.space.adopt(&run) {
            found.slots += 1;
            self.tier.refs.set(unit, 1);
        } else {
            self.tier.refs.inc(unit);
        }
    }

    /// After the last [`Area::adopt`]: what no slot lies on, but was written once, goes back.
    pub(super) fn adopted(&mut self) {
        // The target may have made the file as long as it likes; counts bound what is ours.
        let counted = self.counted_bytes();
        let end = self.tier.backing.end().unwrap_or(0).min(counted);
        self.space
            .adopt_backed(usize::try_from(end.div_ceil(SLAB_BYTES)).unwrap_or(0));
        self.shrink();
    }

    fn counted_bytes(&self) -> u64 {
        self.tier.refs.units().saturating_mul(SLOT_GRANULE)
    }

    pub(super) fn backed_bytes(&self) -> u64 {
        self.space.backed_bytes()
    }

    pub(super) fn taken_bytes(&self) -> u64 {
        self.space.taken_bytes()
    }
}
