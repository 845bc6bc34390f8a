//! Which folio is which page: 512 ids in a row for each 2 MiB of each address space that has pages.
//!
//! Invariant: an id names one page of one address space at a time; a chunk's ids are given out again only
//! after the engine has forgotten all of its pages ([`Ids::release`]).

use std::collections::BTreeMap;
use std::ops::Range;

use engine::FolioId;

use crate::books::Owner;

/// Pages of a chunk.
pub(super) const CHUNK_PAGES: u32 = 512;
/// Bytes of a chunk: what one table of the last level maps.
pub(super) const CHUNK: u64 = 2 << 20;

/// The 2 MiB of an address space that some ids stand for.
#[derive(Clone, Copy, Debug)]
struct Slot {
    owner: Owner,
    /// The first address.
    start: u64,
}

/// The ids in use.
#[derive(Debug, Default)]
pub(super) struct Ids {
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    /// By owner's number: its chunks by their first address, with the reading that told them last.
    chunks: BTreeMap<Owner, BTreeMap<u64, Chunk>>,
}

#[derive(Clone, Copy, Debug)]
struct Chunk {
    slot: u32,
    told: u64,
}

impl Ids {
    /// None yet.
    pub(super) const fn new() -> Ids {
        Ids {
            slots: Vec::new(),
            free: Vec::new(),
            chunks: BTreeMap::new(),
        }
    }

    /// How many ids there may be.
    pub(super) fn len(&self) -> usize {
        self.slots.len() * CHUNK_PAGES as usize
    }

    /// The first id of the chunk that begins at `start`, if it has one; it is noted as told in this reading.
    pub(super) fn find(&mut self, owner: Owner, start: u64, reading: u64) -> Option<FolioId> {
        let chunk = self.chunks.get_mut(&owner)?.get_mut(&start)?;
        chunk.told = reading;
        Some(FolioId(chunk.slot * CHUNK_PAGES))
    }

    /// The same; it is given ids if it has none. None when there are no more: 2^29 pages.
    pub(super) fn find_or_make(
        &mut self,
        owner: Owner,
        start: u64,
        reading: u64,
    ) -> Option<FolioId> {
        if let Some(first) = self.find(owner, start, reading) {
            return Some(first);
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                let slot = u32::try_from(self.slots.len()).ok()?;
                if slot >= (1 << FolioId::BITS) / CHUNK_PAGES {
                    return None;
                }
                self.slots.push(None);
                slot
            }
        };
        self.slots[slot as usize] = Some(Slot { owner, start });
        let told = reading;
        self.chunks
            .entry(owner)
            .or_default()
            .insert(start, Chunk { slot, told });
        Some(FolioId(slot * CHUNK_PAGES))
    }

    /// Whose page it is, and its address.
    pub(super) fn place(&self, id: FolioId) -> Option<(Owner, u64)> {
        let slot = self.slots.get((id.0 / CHUNK_PAGES) as usize)?.as_ref()?;
        Some((
            slot.owner,
            slot.start + u64::from(id.0 % CHUNK_PAGES) * 4096,
        ))
    }

    /// The id of a page, if its chunk has ids.
    pub(super) fn id_of(&self, owner: Owner, address: u64) -> Option<FolioId> {
        let start = chunk_of(address);
        let chunk = self.chunks.get(&owner)?.get(&start)?;
        let page = u32::try_from((address - start) / 4096).ok()?;
        Some(FolioId(chunk.slot * CHUNK_PAGES + page))
    }

    /// First ids of the chunks of an owner within `range`.
    pub(super) fn within(&self, owner: Owner, range: Range<u64>) -> Vec<(u64, FolioId)> {
        let chunks = self.chunks.get(&owner).into_iter();
        chunks
            .flat_map(|chunks| chunks.range(range.clone()))
            .map(|(start, chunk)| (*start, FolioId(chunk.slot * CHUNK_PAGES)))
            .collect()
    }

    /// The chunks of an owner that this reading did not tell.
    pub(super) fn untold(&self, owner: Owner, reading: u64) -> Vec<(u64, FolioId)> {
        let chunks = self.chunks.get(&owner).into_iter().flatten();
        chunks
            .filter(|(_, chunk)| chunk.told != reading)
            .map(|(start, chunk)| (*start, FolioId(chunk.slot * CHUNK_PAGES)))
            .collect()
    }

    /// A chunk's ids are free: the engine has forgotten its pages.
    pub(super) fn release(&mut self, owner: Owner, start: u64) {
        let Some(chunks) = self.chunks.get_mut(&owner) else {
            return;
        };
        if let Some(chunk) = chunks.remove(&start) {
            self.slots[chunk.slot as usize] = None;
            self.free.push(chunk.slot);
        }
        if chunks.is_empty() {
            self.chunks.remove(&owner);
        }
    }

    /// The ids of the pages of an owner within `range`, those of chunks that have ids.
    pub(super) fn of_range(
        &self,
        owner: Owner,
        range: Range<u64>,
    ) -> impl Iterator<Item = FolioId> + use<> {
        let known = self.within(owner, chunk_of(range.start)..range.end);
        known.into_iter().flat_map(move |(chunk, first)| {
            pages_within(&range, chunk).map(move |page| FolioId(first.0 + page))
        })
    }

    /// Address ranges in which an owner has pages: its chunks, neighbours joined.
    pub(super) fn ranges(&self, owner: Owner) -> Vec<Range<u64>> {
        let chunks = self.chunks.get(&owner).into_iter();
        joined(chunks.flat_map(BTreeMap::keys).copied(), CHUNK)
    }

    /// Everybody who has pages.
    pub(super) fn owners(&self) -> Vec<Owner> {
        self.chunks.keys().copied().collect()
    }
}

/// The first address of the chunk that an address is in.
pub(super) const fn chunk_of(address: u64) -> u64 {
    address & !(CHUNK - 1)
}

/// The numbers of the pages of the chunk that begins at `chunk` which lie within `range`.
pub(super) fn pages_within(range: &Range<u64>, chunk: u64) -> Range<u32> {
    let number = |address: u64| {
        let pages = address.clamp(chunk, chunk + CHUNK) - chunk;
        u32::try_from(pages / 4096).unwrap_or(CHUNK_PAGES)
    };
    number(range.start)..number(range.end)
}

/// Pieces of so many bytes that begin at these ascending addresses, as ranges, neighbours joined.
pub(super) fn joined(starts: impl IntoIterator<Item = u64>, bytes: u64) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for start in starts {
        match ranges.last_mut() {
            Some(last) if last.end == start => last.end += bytes,
            _ => ranges.push(start..start + bytes),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::books::Books;

    #[test]
    fn ids_are_places_and_are_used_again() {
        let mut books = Books::new(0);
        let [one, two] = [books.add_owner(), books.add_owner()].map(|owner| owner.expect("room"));
        let mut ids = Ids::default();
        let first = ids.find_or_make(one, 4 * CHUNK, 1).expect("room");
        let second = ids.find_or_make(two, 4 * CHUNK, 1).expect("room");
        assert_ne!(first, second);
        assert_eq!(ids.find_or_make(one, 4 * CHUNK, 2), Some(first));
        assert_eq!(
            ids.place(FolioId(second.0 + 3)),
            Some((two, 4 * CHUNK + 3 * 4096))
        );
        assert_eq!(
            ids.id_of(two, 4 * CHUNK + 3 * 4096),
            Some(FolioId(second.0 + 3))
        );
        assert_eq!(ids.untold(one, 2), []);
        assert_eq!(ids.untold(one, 3), [(4 * CHUNK, first)]);
        ids.release(one, 4 * CHUNK);
        assert_eq!(ids.place(first), None);
        assert_eq!(ids.find_or_make(two, 5 * CHUNK, 3), Some(first));
        assert_eq!(ids.ranges(two), vec![4 * CHUNK..6 * CHUNK]);
        let across = 5 * CHUNK - 4096..5 * CHUNK + 8192;
        let found: Vec<u32> = ids.of_range(two, across).map(|id| id.0).collect();
        assert_eq!(found, [second.0 + 511, first.0, first.0 + 1]);
        assert_eq!(ids.owners(), [two]);
    }
}
