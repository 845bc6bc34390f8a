//! The store over a device that fails and dies on command, against a naive model.

mod crash;
mod full;
mod model;
mod real;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::AtomicU16;
use std::sync::{Arc, Mutex, MutexGuard};

use keeper::Place;
use keeper::word::{self, Bytes, PAGE_SIZE};

use super::space::units_of;
use super::{Backing, Compress, Options, Page, RefCounts, Store, Temperature, Tier};

/// What both processes share of a tier, and what outlives a manager that dies.
#[derive(Clone)]
pub(super) struct Shared {
    device: Arc<Mutex<Device>>,
    pub(super) counts: Arc<[AtomicU16]>,
}

#[derive(Default)]
struct Device {
    bytes: Vec<u8>,
    /// Writes of more bytes than this in all are cut short and fail.
    room: Option<usize>,
    /// Steps (writes and count changes) until the manager dies.
    fuse: Option<usize>,
}

/// What a kill of the manager unwinds with.
pub(super) struct Killed;

impl Shared {
    pub(super) fn new(slabs: usize) -> Shared {
        let units = slabs * super::bits::UNITS;
        Shared {
            device: Arc::default(),
            counts: (0..units).map(|_| AtomicU16::new(0)).collect(),
        }
    }

    pub(super) fn tier(&self) -> Tier {
        Tier {
            backing: Box::new(self.clone()),
            refs: Box::new(FusedCounts(self.clone())),
        }
    }

    /// The device takes `room` more bytes and then is full; `None` mends it.
    pub(super) fn set_room(&self, room: Option<usize>) {
        self.device().room = room;
    }

    /// The manager dies at the `steps`-th step from now; `None` makes it immortal.
    pub(super) fn set_fuse(&self, steps: Option<usize>) {
        self.device().fuse = steps;
    }

    fn device(&self) -> MutexGuard<'_, Device> {
        self.device
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Dies half-way through the step when the fuse has burnt down.
    fn step(&self, half: impl FnOnce(&mut Device)) {
        let mut device = self.device();
        match device.fuse.as_mut() {
            Some(0) => {
                device.fuse = None;
                half(&mut device);
                drop(device);
                std::panic::resume_unwind(Box::new(Killed));
            }
            Some(steps) => *steps -= 1,
            None => {}
        }
    }
}

impl Device {
    fn write(&mut self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        self.bytes.resize(self.bytes.len().max(end), 0);
        self.bytes[offset..end].copy_from_slice(bytes);
    }
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("a test's offset")
}

impl Backing for Shared {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let offset = index(offset);
        self.step(|device| device.write(&bytes[..bytes.len() / 2], offset));
        let mut device = self.device();
        let room = device.room.unwrap_or(usize::MAX);
        let fits = bytes.len().min(room);
        device.write(&bytes[..fits], offset);
        device.room = device.room.map(|room| room - fits);
        if fits < bytes.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let device = self.device();
        let from = index(offset);
        let stored = device.bytes.get(from..from + bytes.len());
        bytes.copy_from_slice(stored.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn reserve(&self, _offset: u64, _len: u64) -> io::Result<()> {
        match self.device().room {
            Some(0) => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        let mut device = self.device();
        let end = index(offset + len).min(device.bytes.len());
        if let Some(hole) = device.bytes.get_mut(index(offset)..end) {
            hole.fill(0);
        }
        Ok(())
    }

    fn end(&self) -> io::Result<u64> {
        Ok(self.device().bytes.len() as u64)
    }
}

struct FusedCounts(Shared);

impl RefCounts for FusedCounts {
    fn units(&self) -> u64 {
        self.0.counts.units()
    }

    fn get(&self, unit: u64) -> u16 {
        self.0.counts.get(unit)
    }

    fn set(&self, unit: u64, count: u16) {
        self.0.step(|_| {});
        self.0.counts.set(unit, count);
    }

    fn inc(&self, unit: u64) {
        self.0.step(|_| {});
        self.0.counts.inc(unit);
    }

    fn dec_and_test(&self, unit: u64) -> bool {
        self.0.step(|_| {});
        self.0.counts.dec_and_test(unit)
    }
}

/// Pool and file of `slabs` slabs each.
pub(super) struct Both {
    pub(super) pool: Shared,
    pub(super) file: Shared,
    pub(super) slabs: usize,
}

impl Both {
    pub(super) fn new(slabs: usize) -> Both {
        let (pool, file) = (Shared::new(slabs), Shared::new(slabs));
        Both { pool, file, slabs }
    }

    pub(super) fn open(&self, compress: Compress) -> Store {
        let max = self.slabs as u64 * super::slab::SLAB_BYTES;
        let options = Options {
            compress,
            pool_max: max,
            file_max: max,
        };
        Store::new(self.pool.tier(), Some(self.file.tier()), options)
    }

    /// The counts of the tier that holds the place.
    pub(super) fn of(&self, tier: word::Tier) -> &Shared {
        match tier {
            word::Tier::Pool => &self.pool,
            word::Tier::File => &self.file,
        }
    }

    /// What a keeper does when a page came back: the reference goes, the manager is not told.
    pub(super) fn keeper_frees(&self, place: Place) {
        if let Some(Bytes::Slot(slot)) = place.bytes() {
            self.of(slot.tier).counts.dec_and_test(slot.offset / 64);
        }
    }

    /// Counts agree with `references`, and no two slots share a granule.
    pub(super) fn check<'a>(&self, references: impl Iterator<Item = &'a Place>) {
        let mut counted = BTreeMap::<(bool, u64), (u64, u16)>::new();
        for place in references {
            if let Some(Bytes::Slot(slot)) = place.bytes() {
                let key = (slot.tier == word::Tier::File, slot.offset / 64);
                let end = key.1 + units_of(usize::from(slot.len)) as u64;
                let entry = counted.entry(key).or_insert((end, 0));
                assert_eq!(entry.0, end, "one slot, two lengths");
                entry.1 += 1;
            }
        }
        let mut before = (false, 0);
        for ((file, unit), (end, count)) in counted {
            assert!(
                before.0 != file || before.1 <= unit,
                "slots overlap at granule {unit}"
            );
            before = (file, end);
            let shared = if file { &self.file } else { &self.pool };
            assert_eq!(shared.counts.get(unit), count, "count of granule {unit}");
        }
    }
}

/// A page that is told by `seed`: every fourth is one repeated word, noise, or compressible.
pub(super) fn page(seed: u32) -> Page {
    let mut page = [0; PAGE_SIZE];
    let mut state = u64::from(seed) | 1 << 40;
    let literal = match seed % 4 {
        0 => 0,
        1 => 16,
        kind => 1 + u64::from(kind) + u64::from(seed / 4 % 6),
    };
    for (index, word) in page.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let noisy = index as u64 % 16 < literal;
        *word = if noisy {
            state.to_le_bytes()[..4].try_into().unwrap()
        } else {
            seed.to_le_bytes()
        };
    }
    page
}

/// Asserts that the place holds exactly the page of `seed`.
pub(super) fn assert_holds(store: &mut Store, place: Place, seed: u32) {
    let mut bytes = [0xa5; PAGE_SIZE];
    store.get(place, &mut bytes).expect("a live place");
    assert!(bytes == page(seed), "another page at {place:?}");
}

pub(super) const WARM: Temperature = Temperature::Warm;
