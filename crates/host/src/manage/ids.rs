//! Which folio is which page: ids in groups of 64, made as pages need them.
//!
//! A group is a *block*, 64 pages that follow each other, or holds 64 *singles*, pages of one owner
//! that lie anywhere. A block costs what its holes cost; a single costs its address and its place in
//! the index. So a stretch of 64 pages has a block where [`BLOCK_MIN`] of them are there, and
//! singles where fewer are. Programs change, and [`Ids::sweep`] renames pages from one to the other.
//!
//! Invariant: an id names one page of one address space at a time, and a page has one id at most. An
//! id is given out again only after the engine has forgotten its page or knows it by another id.

mod compact;
mod groups;
mod index;

use std::collections::BTreeMap;
use std::ops::Range;

use engine::FolioId;

use crate::books::Owner;
use groups::{GROUP_PAGES, Groups};
use index::{Entry, Index};

/// Bytes of a chunk: what one table of the last level maps.
pub(super) const CHUNK: u64 = 2 << 20;
/// Pages of a chunk.
const CHUNK_PAGES: u32 = 512;
/// Pages of a stretch, and its bytes.
pub(super) const STRETCH_PAGES: u32 = GROUP_PAGES;
pub(super) const STRETCH: u64 = STRETCH_PAGES as u64 * PAGE;
const PAGE: u64 = 4096;
/// A stretch gets a block when so many of its pages have ids: 64 of the engine's words of 4.25 bytes
/// cost as much as 24 singles of 13 bytes. It loses the block below that.
const BLOCK_MIN: u32 = 28;
const BLOCK_KEEP: u32 = 24;

/// What ids stand for elsewhere.
pub(super) trait Pages {
    /// These pages are gone.
    fn forget(&mut self, first: FolioId, pages: u32);
    /// A page is known by another id from now on; false if it keeps its own.
    fn rename(&mut self, from: FolioId, to: FolioId) -> bool;
}

/// What ids a stretch has.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The first id of its block.
    pub(super) block: Option<FolioId>,
    /// Its singles, by their number within the stretch, ascending.
    pub(super) singles: Vec<(u32, FolioId)>,
    /// The scan that the stretch is looked up for.
    scan: u32,
}

impl Known {
    /// Whether no page of the stretch has an id.
    pub(super) const fn is_empty(&self) -> bool {
        self.block.is_none() && self.singles.is_empty()
    }

    /// The id of page number `at` of the stretch.
    pub(super) fn id(&self, at: u32) -> Option<FolioId> {
        if !self.singles.is_empty()
            && let Ok(place) = self.singles.binary_search_by_key(&at, |single| single.0)
        {
            return Some(self.singles[place].1);
        }
        self.block.map(|first| FolioId(first.0 + at))
    }
}

/// What one address space has.
#[derive(Debug, Default)]
struct Space {
    index: Index,
    /// By area, groups of singles with room for more.
    roomy: BTreeMap<u64, Vec<u32>>,
    /// Ids of singles in use.
    singles: usize,
    /// The number of the last scan.
    scan: u32,
}

/// The ids in use.
#[derive(Debug, Default)]
pub(super) struct Ids {
    groups: Groups,
    spaces: BTreeMap<Owner, Space>,
}

impl Ids {
    /// None yet.
    pub(super) const fn new() -> Ids {
        Ids {
            groups: Groups::new(),
            spaces: BTreeMap::new(),
        }
    }

    /// All ids are below this.
    pub(super) const fn len(&self) -> usize {
        self.groups.len() * GROUP_PAGES as usize
    }

    /// Bytes on the heap.
    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> usize {
        let of_space = |space: &Space| {
            let roomy: usize = space
                .roomy
                .values()
                .map(|all| all.capacity() * 4 + 64)
                .sum();
            space.index.memory_bytes() + roomy + 2 * size_of::<(Owner, Space)>()
        };
        self.groups.memory_bytes() + self.spaces.values().map(of_space).sum::<usize>()
    }

    /// An address space is about to be scanned: none of its pages has been found yet.
    pub(super) fn begin_scan(&mut self, owner: Owner) {
        if let Some(space) = self.spaces.get_mut(&owner) {
            space.scan = space.scan.wrapping_add(1);
        }
    }

    /// Puts into `known` which ids the stretch at `start` has.
    pub(super) fn look_up(&mut self, owner: Owner, start: u64, known: &mut Known) {
        known.block = None;
        known.singles.clear();
        known.scan = 0;
        let Some(space) = self.spaces.get_mut(&owner) else {
            return;
        };
        known.scan = space.scan;
        let groups = &self.groups;
        for entry in space.index.next_from(groups, start) {
            let address = groups.address(entry);
            if address >= start + STRETCH {
                break;
            }
            match entry.is_block() {
                true => known.block = Some(entry.id()),
                false => known.singles.push((page_of(address - start), entry.id())),
            }
        }
    }

    /// A page of the stretch that was looked up is there.
    pub(super) fn note_single(&mut self, known: &Known, id: FolioId) {
        self.groups.note(id, 1 << (id.0 % GROUP_PAGES), known.scan);
    }

    /// Pages of its block are there, one bit each.
    pub(super) fn note_block(&mut self, known: &Known, pages: u64) {
        if let Some(first) = known.block {
            self.groups.note(first, pages, known.scan);
        }
    }

    /// What could not be read stays as it was: pages within `range` count as there.
    pub(super) fn keep(&mut self, owner: Owner, range: &Range<u64>) {
        let scan = self.spaces.get(&owner).map_or(0, |space| space.scan);
        let ids: Vec<FolioId> = self
            .pages(owner, range.clone())
            .map(|page| page.1)
            .collect();
        for id in ids {
            self.groups.note(id, 1 << (id.0 % GROUP_PAGES), scan);
        }
    }

    /// An id for a page of a stretch in which it has none, and in which about `likely` pages are to get
    /// one in this scan. Brings `known` up to date. None when there are no more: 2^29.
    pub(super) fn make(
        &mut self,
        (owner, start): (Owner, u64),
        (at, likely): (u32, u32),
        known: &mut Known,
        pages: &mut impl Pages,
    ) -> Option<FolioId> {
        let has = u32::try_from(known.singles.len()).unwrap_or(GROUP_PAGES);
        if has + 1 >= BLOCK_MIN || likely >= BLOCK_MIN {
            self.make_block(owner, start, known, pages)?;
            return known.id(at);
        }
        let id = self.make_single(owner, start + u64::from(at) * PAGE)?;
        let space = self.spaces.entry(owner).or_default();
        space.index.insert(&self.groups, Entry::single(id));
        let place = known.singles.partition_point(|single| single.0 < at);
        known.singles.insert(place, (at, id));
        Some(id)
    }

    /// The stretch gets a block, and its singles become pages of that.
    fn make_block(
        &mut self,
        owner: Owner,
        start: u64,
        known: &mut Known,
        pages: &mut impl Pages,
    ) -> Option<()> {
        let space = self.spaces.entry(owner).or_default();
        let first = self.groups.add_block(owner, start)?;
        space.index.insert(&self.groups, Entry::block(first));
        known.block = Some(first);
        known.singles.retain(|(at, id)| {
            let is_renamed = pages.rename(*id, FolioId(first.0 + at));
            if is_renamed {
                space.index.remove(&self.groups, Entry::single(*id));
                let is_found = self.groups.is_found(*id, space.scan);
                free_single(&mut self.groups, space, *id);
                self.groups.add_live(first, 1 << at);
                if is_found {
                    self.groups.note(first, 1 << at, space.scan);
                }
            }
            !is_renamed
        });
        Some(())
    }

    /// An id for one page; it is not in the index yet.
    fn make_single(&mut self, owner: Owner, address: u64) -> Option<FolioId> {
        let space = self.spaces.entry(owner).or_default();
        take_single(&mut self.groups, space, (owner, address))
    }

    /// Whose page it is, and its address.
    pub(super) fn place(&self, id: FolioId) -> Option<(Owner, u64)> {
        self.groups.place(id)
    }

    /// The id of a page, if it has one.
    pub(super) fn id_of(&self, owner: Owner, address: u64) -> Option<FolioId> {
        let start = stretch_of(address);
        let mut block = None;
        for entry in self.entries(owner, start) {
            let found = self.groups.address(entry);
            if found > address {
                break;
            }
            if entry.is_block() {
                block = Some(FolioId(entry.id().0 + page_of(address - start)));
            } else if found == address {
                return Some(entry.id());
            }
        }
        block
    }

    /// The pages of an owner within `range` that have ids: addresses and ids, ascending but for
    /// singles, which come after the block of their stretch.
    pub(super) fn pages(
        &self,
        owner: Owner,
        range: Range<u64>,
    ) -> impl Iterator<Item = (u64, FolioId)> + use<'_> {
        let from = stretch_of(range.start);
        let entries = self.entries(owner, from);
        let addressed = entries.map(|entry| (self.groups.address(entry), entry));
        let within = addressed.take_while(move |(address, _)| *address < range.end);
        let start = range.start;
        let end = range.end;
        let all = within.flat_map(|(address, entry)| {
            let live = match entry.is_block() {
                true => self.groups.live(entry.id()),
                false => 1,
            };
            bits(live).map(move |at| {
                let page = address + u64::from(at) * PAGE;
                (page, FolioId(entry.id().0 + at))
            })
        });
        all.filter(move |(address, _)| (start..end).contains(address))
    }

    fn entries(&self, owner: Owner, from: u64) -> impl Iterator<Item = Entry> + use<'_> {
        let spaces = self.spaces.get(&owner).into_iter();
        spaces.flat_map(move |space| space.index.from(&self.groups, from))
    }

    /// First addresses of the stretches of an owner within `range` that have ids.
    pub(super) fn stretches(&self, owner: Owner, range: &Range<u64>) -> Vec<u64> {
        let mut all = Vec::new();
        for entry in self.entries(owner, stretch_of(range.start)) {
            let start = stretch_of(self.groups.address(entry));
            if start >= range.end {
                break;
            }
            if all.last() != Some(&start) {
                all.push(start);
            }
        }
        all
    }

    /// Address ranges in which an owner has pages: chunks of 2 MiB, neighbours joined.
    pub(super) fn ranges(&self, owner: Owner) -> impl Iterator<Item = Range<u64>> + use<'_> {
        let mut entries = self.entries(owner, 0).peekable();
        std::iter::from_fn(move || {
            let first = chunk_of(self.groups.address(entries.next()?));
            let mut range = first..first + CHUNK;
            while let Some(entry) = entries.peek() {
                let chunk = chunk_of(self.groups.address(*entry));
                if chunk > range.end {
                    break;
                }
                range.end = chunk + CHUNK;
                entries.next();
            }
            Some(range)
        })
    }

    /// All of an address space was scanned: pages that were not found are gone, and the ids of the
    /// others are packed.
    pub(super) fn sweep(&mut self, owner: Owner, pages: &mut impl Pages) {
        let Some(mut space) = self.spaces.remove(&owner) else {
            return;
        };
        let mut swept = Index::default();
        for entry in std::mem::take(&mut space.index).into_entries() {
            let (id, found) = (entry.id(), self.groups.found(entry.id(), space.scan));
            if entry.is_block() {
                let lost = self.groups.live(id) & !found;
                for run in runs(lost) {
                    pages.forget(FolioId(id.0 + run.start), run.end - run.start);
                }
                self.groups.drop_live(id, lost);
                self.sweep_block(&mut space, (owner, id), &mut swept, pages);
            } else if found >> (id.0 % GROUP_PAGES) & 1 == 1 {
                swept.push(&self.groups, entry);
            } else {
                pages.forget(id, 1);
                free_single(&mut self.groups, &mut space, id);
            }
        }
        space.index = swept;
        self.pack(owner, &mut space, pages);
        if !space.index.is_empty() {
            self.spaces.insert(owner, space);
        }
    }

    /// A block of which few pages are left is given up: they become singles.
    fn sweep_block(
        &mut self,
        space: &mut Space,
        (owner, first): (Owner, FolioId),
        swept: &mut Index,
        pages: &mut impl Pages,
    ) {
        let live = self.groups.live(first);
        if live.count_ones() >= BLOCK_KEEP {
            return swept.push(&self.groups, Entry::block(first));
        }
        let start = self.groups.address(Entry::block(first));
        let mut singles = Vec::new();
        for at in bits(live) {
            let page = (owner, start + u64::from(at) * PAGE);
            let Some(id) = take_single(&mut self.groups, space, page) else {
                break;
            };
            if pages.rename(FolioId(first.0 + at), id) {
                self.groups.note(id, 1 << (id.0 % GROUP_PAGES), space.scan);
                self.groups.drop_live(first, 1 << at);
                singles.push(Entry::single(id));
            } else {
                free_single(&mut self.groups, space, id);
            }
        }
        if self.groups.live(first) == 0 {
            self.groups.release(first.0 / GROUP_PAGES);
        } else {
            swept.push(&self.groups, Entry::block(first));
        }
        for single in singles {
            swept.push(&self.groups, single);
        }
    }

    /// Groups of singles without any are free. Where more than a quarter of the places is empty, the
    /// singles of the emptiest groups move into the others.
    fn pack(&mut self, owner: Owner, space: &mut Space, pages: &mut impl Pages) {
        let groups = &mut self.groups;
        let free: u32 = space
            .roomy
            .values()
            .flatten()
            .map(|group| groups.room(*group))
            .sum();
        // One group an area may have room.
        let spare = space.singles / 4 + space.roomy.len() * GROUP_PAGES as usize;
        if free as usize > spare {
            let mut donors = Vec::new();
            for roomy in space.roomy.values_mut() {
                let is_donor = |group: &mut u32| groups.room(*group) > GROUP_PAGES / 4;
                donors.extend(roomy.extract_if(.., is_donor));
            }
            donors.sort_unstable();
            let mut packed = Index::default();
            for entry in std::mem::take(&mut space.index).into_entries() {
                let (id, group) = (entry.id(), entry.id().0 / GROUP_PAGES);
                let is_donors = !entry.is_block() && donors.binary_search(&group).is_ok();
                let page = is_donors.then(|| (owner, groups.address(entry)));
                let to = page.and_then(|page| take_single(groups, space, page));
                match to {
                    Some(to) if pages.rename(id, to) => {
                        groups.drop_live(id, 1 << (id.0 % GROUP_PAGES));
                        space.singles -= 1;
                        packed.push(groups, Entry::single(to));
                    }
                    Some(to) => {
                        free_single(groups, space, to);
                        packed.push(groups, entry);
                    }
                    None => packed.push(groups, entry),
                }
            }
            space.index = packed;
            for group in donors {
                let area = groups.area(group);
                space.roomy.entry(area).or_default().push(group);
            }
        }
        space.roomy.retain(|_, roomy| {
            roomy.retain(|group| {
                let is_used = groups.room(*group) < GROUP_PAGES;
                if !is_used {
                    groups.release(*group);
                }
                is_used
            });
            roomy.shrink_to_fit();
            !roomy.is_empty()
        });
    }

    /// An address space has no pages here any more.
    pub(super) fn release(&mut self, owner: Owner, pages: &mut impl Pages) {
        let Some(space) = self.spaces.remove(&owner) else {
            return;
        };
        let mut forget = |group: u32| {
            if self.groups.is_of(group, owner) {
                pages.forget(FolioId(group * GROUP_PAGES), GROUP_PAGES);
                self.groups.release(group);
            }
        };
        for entry in space.index.into_entries() {
            forget(entry.id().0 / GROUP_PAGES);
        }
        space.roomy.into_values().flatten().for_each(forget);
    }

    /// Everybody who has pages.
    pub(super) fn owners(&self) -> Vec<Owner> {
        self.spaces.keys().copied().collect()
    }
}

/// A free id of a space for a page: in a group of its area.
fn take_single(
    groups: &mut Groups,
    space: &mut Space,
    (owner, address): (Owner, u64),
) -> Option<FolioId> {
    let roomy = space.roomy.entry(groups::area_of(address)).or_default();
    let group = match roomy.last() {
        Some(group) => *group,
        None => {
            let group = groups.add_singles(owner, address)?;
            roomy.push(group);
            group
        }
    };
    let id = groups.take_single(group, address);
    if groups.room(group) == 0 {
        roomy.pop();
    }
    space.singles += 1;
    Some(id)
}

/// The id of a single is free; the caller has taken it out of the index.
fn free_single(groups: &mut Groups, space: &mut Space, id: FolioId) {
    let group = id.0 / GROUP_PAGES;
    if groups.room(group) == 0 {
        let roomy = space.roomy.entry(groups.area(group)).or_default();
        roomy.push(group);
    }
    groups.drop_live(id, 1 << (id.0 % GROUP_PAGES));
    space.singles -= 1;
}

fn page_of(bytes: u64) -> u32 {
    u32::try_from(bytes / PAGE).unwrap_or(u32::MAX)
}

/// The numbers of the bits that are set.
pub(super) fn bits(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let at = word.trailing_zeros();
        word &= word.checked_sub(1)?;
        Some(at)
    })
}

/// Runs of bits that are set.
fn runs(mut word: u64) -> impl Iterator<Item = Range<u32>> {
    std::iter::from_fn(move || {
        if word == 0 {
            return None;
        }
        let start = word.trailing_zeros();
        let end = start + (!(word >> start)).trailing_zeros();
        word &= u64::MAX.checked_shl(end).unwrap_or(0);
        Some(start..end)
    })
}

/// The first address of the stretch that an address is in.
pub(super) const fn stretch_of(address: u64) -> u64 {
    address & !(STRETCH - 1)
}

/// The first address of the chunk that an address is in.
pub(super) const fn chunk_of(address: u64) -> u64 {
    address & !(CHUNK - 1)
}

/// The numbers of the pages of the chunk that begins at `chunk` which lie within `range`.
pub(super) fn pages_within(range: &Range<u64>, chunk: u64) -> Range<u32> {
    let number = |address: u64| {
        let pages = address.clamp(chunk, chunk + CHUNK) - chunk;
        u32::try_from(pages / PAGE).unwrap_or(CHUNK_PAGES)
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
mod tests;
