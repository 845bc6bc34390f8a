//! Ids of pages for the engine (folio ids): which id belongs to which page. Ids are made in groups
//! of 64 when pages need them.
//!
//! A *stretch* is 64 consecutive pages at an address that is a multiple of 256 KiB. A group of ids
//! is of one of two kinds:
//!
//! - A *block*: the ids of the 64 pages of one stretch. It costs memory also for pages that do not
//!   exist.
//! - A group of 64 *singles*: ids of pages of one owner at any addresses. Each single costs memory
//!   for its address and for its entry in the index.
//!
//! So a stretch has a block if at least [`BLOCK_MIN`] of its pages exist, and singles if fewer
//! exist. As a program changes, [`Ids::make`] replaces the singles of a stretch by a block, and
//! [`Ids::sweep`] a block by singles.
//!
//! Invariant: an id names one page of one address space at a time, and a page has at most one id.
//! An id is used again only after the engine has forgotten its page, or knows the page by another
//! id.

mod roomy;

// These modules use each other.
mod groups;
mod index;

mod compact;

use std::collections::BTreeMap;
use std::ops::Range;

use engine::FolioId;
use engine::units::PAGE_SIZE;

use crate::age_table::Owner;
use groups::{GROUP_PAGES, Groups};
use index::{Entry, Index};
use roomy::PartlyFree;

/// Size of a chunk in bytes: the memory that one last-level page table maps.
pub(super) const CHUNK: u64 = 2 << 20;
/// Number of pages in a chunk.
const CHUNK_PAGES: u32 = 512;
/// Number of pages in a stretch; then its size in bytes.
pub(super) const STRETCH_PAGES: u32 = GROUP_PAGES;
pub(super) const STRETCH: u64 = STRETCH_PAGES as u64 * PAGE_SIZE;
/// Numbers of pages with ids at which a stretch gets a block, and below which it loses the block. A
/// block costs the engine 64 words of 4.25 bytes, as much as about 24 singles of 13 bytes.
const BLOCK_MIN: u32 = 28;
const BLOCK_KEEP: u32 = 24;

/// State that must follow changes of ids, such as the engine's pages.
pub(super) trait Pages {
    /// Forgets `pages` pages that are gone, from id `first` on.
    fn forget(&mut self, first: FolioId, pages: u32);
    /// Moves a page to another id. Returns false if the page must keep its id.
    fn rename(&mut self, from: FolioId, to: FolioId) -> bool;
}

/// The ids of a stretch (64 pages), as found in the index.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// First id of the stretch's block; `None` if it has no block.
    pub(super) block: Option<FolioId>,
    /// Ids of pages outside of a block, in ascending order: the page's number within the stretch,
    /// then its id.
    pub(super) singles: Vec<(u32, FolioId)>,
    /// Number of the scan for which the ids were read from the index.
    scan: u32,
}

impl Known {
    /// Whether no page of the stretch has an id.
    pub(super) const fn is_empty(&self) -> bool {
        self.block.is_none() && self.singles.is_empty()
    }

    /// Returns the id of the page with number `at` in the stretch; `None` if it has none. In a
    /// block, also a page that does not exist has an id.
    pub(super) fn id(&self, at: u32) -> Option<FolioId> {
        if !self.singles.is_empty()
            && let Ok(place) = self.singles.binary_search_by_key(&at, |single| single.0)
        {
            return Some(self.singles[place].1);
        }
        self.block.map(|first| FolioId(first.0 + at))
    }
}

/// The ids of one address space.
#[derive(Debug, Default)]
struct Space {
    /// The blocks and single ids, by address.
    index: Index,
    /// The groups of single ids that have free ids.
    roomy: PartlyFree,
    /// Number of single ids that have a page.
    singles: usize,
    /// Number of the last scan; each walk of the address space adds 1.
    scan: u32,
}

/// All ids in use by the pages of one tenant.
#[derive(Debug, Default)]
pub(super) struct Ids {
    groups: Groups,
    spaces: BTreeMap<Owner, Space>,
}

impl Ids {
    /// Returns an empty set of ids.
    pub(super) const fn new() -> Ids {
        Ids {
            groups: Groups::new(),
            spaces: BTreeMap::new(),
        }
    }

    /// Returns an upper bound: every id is less than this number.
    pub(super) const fn len(&self) -> usize {
        self.groups.len() * GROUP_PAGES as usize
    }

    /// Returns the memory that the ids take on the heap, in bytes.
    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> usize {
        let of_space = |space: &Space| {
            let roomy = space.roomy.each();
            let roomy: usize = roomy.map(|all| all.capacity() * 4 + 64).sum();
            space.index.memory_bytes() + roomy + 2 * size_of::<(Owner, Space)>()
        };
        self.groups.memory_bytes() + self.spaces.values().map(of_space).sum::<usize>()
    }

    /// Begins a walk of an address space: all of its pages count as not found yet.
    pub(super) fn begin_scan(&mut self, owner: Owner) {
        if let Some(space) = self.spaces.get_mut(&owner) {
            space.scan = space.scan.wrapping_add(1);
        }
    }

    /// Looks up the ids of the stretch at address `start`, and stores them in `known`.
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

    /// Records that the walk found the page with the single id `id`; `known` has the ids of its
    /// stretch.
    pub(super) fn note_single(&mut self, known: &Known, id: FolioId) {
        self.groups.note(id, 1 << (id.0 % GROUP_PAGES), known.scan);
    }

    /// Records which pages of the block of `known` the walk found: bit `n` of `pages` is page `n`.
    pub(super) fn note_block(&mut self, known: &Known, pages: u64) {
        if let Some(first) = known.block {
            self.groups.note(first, pages, known.scan);
        }
    }

    /// Records all pages within `range` as found. The walk could not read them, so their ids must
    /// stay.
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

    /// Makes an id for page `at` of the stretch at address `start`, and updates `known`. `likely`:
    /// about how many pages of the stretch get ids in this scan. Returns `None` if all 2^29 ids are
    /// in use.
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
        let id = self.make_single(owner, start + u64::from(at) * PAGE_SIZE)?;
        let space = self.spaces.entry(owner).or_default();
        space.index.insert(&self.groups, Entry::single(id));
        let place = known.singles.partition_point(|single| single.0 < at);
        known.singles.insert(place, (at, id));
        Some(id)
    }

    /// Adds a block for the stretch, and moves its singles into the block. Returns `None` if all
    /// ids are in use.
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

    /// Makes a single id for one page; the caller adds it to the index. Returns `None` if all ids
    /// are in use.
    fn make_single(&mut self, owner: Owner, address: u64) -> Option<FolioId> {
        let space = self.spaces.entry(owner).or_default();
        take_single(&mut self.groups, space, (owner, address))
    }

    /// Returns the owner and the address of a page; `None` if the id has no page.
    pub(super) fn place(&self, id: FolioId) -> Option<(Owner, u64)> {
        self.groups.place(id)
    }

    /// Returns the id of the page at an address; `None` if it has none.
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

    /// Returns the pages of an owner within `range`: address, then id. Addresses ascend, except
    /// that in a stretch all pages of the block come before the singles.
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
                let page = address + u64::from(at) * PAGE_SIZE;
                (page, FolioId(entry.id().0 + at))
            })
        });
        all.filter(move |(address, _)| (start..end).contains(address))
    }

    /// Returns an owner's index entries at address `from` or above, in ascending order.
    fn entries(&self, owner: Owner, from: u64) -> impl Iterator<Item = Entry> + use<'_> {
        let spaces = self.spaces.get(&owner).into_iter();
        spaces.flat_map(move |space| space.index.from(&self.groups, from))
    }

    /// Returns the start addresses of those stretches of an owner within `range` that have ids.
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

    /// Returns the address ranges in which an owner has pages, in whole chunks of 2 MiB. Adjacent
    /// chunks are one range.
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

    /// Ends the walk of an address space. Forgets pages that the walk did not find, and packs the
    /// ids of the others into fewer groups.
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

    /// Keeps a block, or replaces it by singles if fewer than `BLOCK_KEEP` of its pages exist. Adds
    /// the result to the index `swept`.
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
            let page = (owner, start + u64::from(at) * PAGE_SIZE);
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

    /// Frees empty groups of singles. If more than `singles / 4 + 64 * areas` ids in groups of
    /// singles are free, moves the pages of the emptiest groups to free ids of the others.
    fn pack(&mut self, owner: Owner, space: &mut Space, pages: &mut impl Pages) {
        let groups = &mut self.groups;
        let free: u32 = space
            .roomy
            .each()
            .flatten()
            .map(|group| groups.room(*group))
            .sum();
        // In each area (16 TiB of addresses) one group may have free ids.
        let spare = space.singles / 4 + space.roomy.areas() * GROUP_PAGES as usize;
        if free as usize > spare {
            let mut donors = Vec::new();
            for roomy in space.roomy.each_mut() {
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
                space.roomy.of(area).push(group);
            }
        }
        space.roomy.keep(|group| {
            let is_used = groups.room(group) < GROUP_PAGES;
            if !is_used {
                groups.release(group);
            }
            is_used
        });
    }

    /// Releases all ids of an address space, which no longer has pages in this tenant.
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
        space.roomy.into_all().for_each(forget);
    }

    /// Returns all owners that have ids.
    pub(super) fn owners(&self) -> Vec<Owner> {
        self.spaces.keys().copied().collect()
    }
}

/// Takes a free single id for a page, from a group of the page's area (16 TiB of addresses).
/// Returns `None` if all ids are in use.
fn take_single(
    groups: &mut Groups,
    space: &mut Space,
    (owner, address): (Owner, u64),
) -> Option<FolioId> {
    let roomy = space.roomy.of(groups::area_of(address));
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

/// Frees a single id, which the caller has removed from the index.
fn free_single(groups: &mut Groups, space: &mut Space, id: FolioId) {
    let group = id.0 / GROUP_PAGES;
    if groups.room(group) == 0 {
        let roomy = space.roomy.of(groups.area(group));
        roomy.push(group);
    }
    groups.drop_live(id, 1 << (id.0 % GROUP_PAGES));
    space.singles -= 1;
}

/// Converts bytes to a number of pages.
fn page_of(bytes: u64) -> u32 {
    u32::try_from(bytes / PAGE_SIZE).unwrap_or(u32::MAX)
}

/// Returns the numbers of the set bits in a word, in ascending order.
pub(super) fn bits(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let at = word.trailing_zeros();
        word &= word.checked_sub(1)?;
        Some(at)
    })
}

/// Returns the ranges of consecutive set bits in a word, in ascending order.
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

/// Returns the start of the stretch that contains an address.
pub(super) const fn stretch_of(address: u64) -> u64 {
    address & !(STRETCH - 1)
}

/// Returns the start of the chunk that contains an address.
pub(super) const fn chunk_of(address: u64) -> u64 {
    address & !(CHUNK - 1)
}

/// Returns which pages of the chunk at address `chunk` lie within `range`, by their number in the
/// chunk.
pub(super) fn pages_within(range: &Range<u64>, chunk: u64) -> Range<u32> {
    let number = |address: u64| {
        let pages = address.clamp(chunk, chunk + CHUNK) - chunk;
        u32::try_from(pages / PAGE_SIZE).unwrap_or(CHUNK_PAGES)
    };
    number(range.start)..number(range.end)
}

/// Returns the address ranges of pieces of `bytes` bytes that begin at these addresses, in
/// ascending order. Adjacent pieces become one range.
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
