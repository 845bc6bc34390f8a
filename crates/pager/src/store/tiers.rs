//! [`Store`]: pages in, places out. Pool first, then the file tier, else "not evicted".

use keeper::Place;
use keeper::decode::{Scratch, decode, fill};
use keeper::word::{self, Bytes, Kind, PAGE_SIZE, Slot};

use super::area::Area;
use super::encode::{Encoder, same_filled};
use super::{GetError, Options, Page, Rebuilt, Stats, StoreFull, Temperature, Tier};

/// Holes of the pool give memory back a page at a time; a file on a disk is cut by slabs only.
const POOL_HOLE: u64 = PAGE_SIZE as u64;
const FILE_HOLE: u64 = super::slab::SLAB_BYTES;

/// The store of one target and its forks.
pub struct Store {
    options: Options,
    pool: Area,
    file: Option<Area>,
    encoder: Encoder,
    scratch: Scratch,
    places: Vec<Place>,
    stats: Stats,
}

impl Store {
    /// Opens a store over tiers that hold nothing (else call [`Store::rebuild`] next).
    ///
    /// # Panics
    /// When there is no memory for the decompressor's 94 KiB.
    #[must_use]
    pub fn new(pool: Tier, file: Option<Tier>, options: Options) -> Store {
        let file = file.map(|tier| Area::new(word::Tier::File, tier, options.file_max, FILE_HOLE));
        Store {
            options,
            pool: Area::new(word::Tier::Pool, pool, options.pool_max, POOL_HOLE),
            file,
            encoder: Encoder::new(),
            scratch: Scratch::new().expect("memory for a decompressor"),
            places: Vec::new(),
            stats: Stats::default(),
        }
    }

    /// Stores one page; its slot has one reference, the caller's.
    ///
    /// # Errors
    /// [`StoreFull`]: nothing was stored.
    pub fn put(&mut self, page: &Page, hint: Temperature) -> Result<Place, StoreFull> {
        let mut out = Vec::with_capacity(1);
        self.put_batch(std::slice::from_ref(page), hint, &mut out);
        out.pop().unwrap_or(Err(StoreFull::Limit))
    }

    /// Stores pages that leave together, at rising adjacent offsets as far as free space allows,
    /// so that one read brings back neighbours. One result a page, in order, is appended to
    /// `out`; each place that it gets holds one reference, the caller's. 32 pages always fit in
    /// one run of a slab; much longer batches are cut.
    pub fn put_batch(
        &mut self,
        pages: &[Page],
        hint: Temperature,
        out: &mut Vec<Result<Place, StoreFull>>,
    ) {
        self.encoder.clear();
        let first = out.len();
        for page in pages {
            // Errors stand for staged pages until the tiers have answered.
            out.push(match same_filled(page) {
                Some(word) => Ok(Place::same(word)),
                None => {
                    self.encoder.stage(page, self.options.compress, hint);
                    Err(StoreFull::Limit)
                }
            });
        }
        let refused = self.write_staged();
        let mut places = self.places.iter();
        for result in &mut out[first..] {
            match result {
                Ok(_) => self.stats.same += 1,
                Err(_) => *result = places.next().copied().ok_or(refused),
            }
        }
        self.count_staged();
    }

    /// Writes what is staged, and says why the pages behind `self.places` found no room.
    fn write_staged(&mut self) -> StoreFull {
        self.places.clear();
        let mut rest = self.encoder.staged();
        let mut refused = StoreFull::Limit;
        for area in [Some(&mut self.pool), self.file.as_mut()]
            .into_iter()
            .flatten()
        {
            while !rest.slots().is_empty() {
                let before = self.places.len();
                if let Err(error) = area.write(rest, &mut self.places) {
                    refused = error;
                    break;
                }
                rest = rest.split(self.places.len() - before).1;
            }
        }
        refused
    }

    fn count_staged(&mut self) {
        let (stored, refused) = self.encoder.staged().split(self.places.len());
        self.stats.refused += refused.slots().len() as u64;
        for encoded in stored.slots() {
            self.stats.encoded_bytes += u64::from(encoded.len);
            match encoded.kind {
                Kind::Same | Kind::Snapshot => {}
                Kind::Lz4 => self.stats.lz4 += 1,
                Kind::Zstd => self.stats.zstd += 1,
                Kind::Raw => self.stats.raw += 1,
            }
        }
    }

    /// Reads a page back; the reference stays.
    ///
    /// # Errors
    /// [`GetError`]; `page` is then undefined. If a keeper may have dropped the reference
    /// meanwhile, look at the state word again before believing it.
    pub fn get(&mut self, place: Place, page: &mut Page) -> Result<(), GetError> {
        let corrupt = GetError::Corrupt(place);
        let slot = match place.bytes() {
            None => return Err(corrupt),
            Some(Bytes::Same(word)) => {
                fill(word, page);
                return Ok(());
            }
            Some(Bytes::Slot(slot)) => slot,
        };
        let mut buffer = [0; PAGE_SIZE];
        let encoded = &mut buffer[..usize::from(slot.len)];
        match self.area(slot.tier) {
            None => return Err(corrupt),
            Some(area) => area.read(slot, encoded)?,
        }
        decode(slot.kind, encoded, page, &mut self.scratch).map_err(|_| corrupt)
    }

    /// Drops one reference.
    pub fn free(&mut self, place: Place) {
        self.with_slot(place, Area::free);
    }

    /// Counts one more reference (a fork that the manager serves).
    pub fn share(&mut self, place: Place) {
        self.with_slot(place, Area::share);
    }

    fn with_slot(&mut self, place: Place, act: impl FnOnce(&mut Area, Slot)) {
        if let Some(Bytes::Slot(slot)) = place.bytes()
            && let Some(area) = self.area(slot.tier)
        {
            act(area, slot);
        }
    }

    fn area(&mut self, tier: word::Tier) -> Option<&mut Area> {
        match tier {
            word::Tier::Pool => Some(&mut self.pool),
            word::Tier::File => self.file.as_mut(),
        }
    }

    /// Looks for slots that keepers freed and gives pages on which no slot lies back to the
    /// system. Reads every count: for a slow timer, not for each eviction. The bytes given back.
    pub fn shrink(&mut self) -> u64 {
        self.pool.shrink() + self.file.as_mut().map_or(0, Area::shrink)
    }

    /// Derives counts and free space anew from every reference that exists (all tables of all
    /// forks). Keepers must be parked: what one does between the reading of its words and the
    /// end of this call is lost. Killed half-way, it is simply run again.
    pub fn rebuild(&mut self, places: impl IntoIterator<Item = Place>) -> Rebuilt {
        let mut found = Rebuilt::default();
        self.pool.forget();
        self.file.iter_mut().for_each(Area::forget);
        for place in places {
            match place.bytes() {
                Some(Bytes::Same(_)) => found.references += 1,
                Some(Bytes::Slot(slot)) => match self.area(slot.tier) {
                    Some(area) => area.adopt(slot, &mut found),
                    None => found.refused += 1,
                },
                None => found.refused += 1,
            }
        }
        self.pool.adopted();
        self.file.iter_mut().for_each(Area::adopted);
        found
    }

    /// Bytes of memory that the pool takes.
    #[must_use]
    pub fn pool_bytes(&self) -> u64 {
        self.pool.backed_bytes()
    }

    /// Bytes of disk that the file tier takes, not counting what is reserved ahead.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.file.as_ref().map_or(0, Area::backed_bytes)
    }

    /// Bytes that both take.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.pool_bytes() + self.file_bytes()
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let file = self.file.as_ref().map_or(0, Area::taken_bytes);
        Stats {
            live_bytes: self.pool.taken_bytes() + file,
            ..self.stats
        }
    }
}
