//! Groups of 64 consecutive ids, and the page of each id.
//!
//! Invariant: a group is free, or belongs to one owner. A group with an owner is either a block
//! (the ids of 64 consecutive pages), or holds single ids of pages of one area (16 TiB of
//! addresses). A single id names a page while its bit in `live` is set.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use engine::FolioId;
use engine::units::PAGE_SIZE;

use super::index::Entry;
use crate::age_table::Owner;

/// Number of ids in a group.
pub(super) const GROUP_PAGES: u32 = 64;
/// An area is `1 << AREA_BITS` bytes of addresses (16 TiB): a single stores its address as a page
/// number in its area, in 32 bits.
const AREA_BITS: u32 = 44;

/// One group of 64 ids.
#[derive(Clone, Debug)]
struct Group {
    /// The address space that uses the group; `None` if the group is free.
    owner: Option<Owner>,
    /// Number of the scan whose findings are in `found`.
    scan: u32,
    /// Address of the block's first page; for a group of single ids, start of their area.
    start: u64,
    /// Bit `n` is set if id `n` of the group has a page.
    live: u64,
    /// Bit `n` is set if id `n` of the group has a page that `scan` found.
    found: u64,
    /// For a group of single ids: for each id, the page number in the area. `None` for a block.
    pages: Option<Box<[u32; GROUP_PAGES as usize]>>,
}

/// Maximum number of free groups for which no group is moved and no memory is released.
const SPARE: usize = 8;

/// All groups. The number of a group is its first id divided by 64.
#[derive(Debug, Default)]
pub(super) struct Groups {
    all: Vec<Group>,
    /// Numbers of the free groups. The lowest is used first, so that groups at the end become free.
    free: BinaryHeap<Reverse<u32>>,
}

/// Returns the start of the area that contains an address.
pub(super) const fn area_of(address: u64) -> u64 {
    address >> AREA_BITS << AREA_BITS
}

impl Groups {
    pub(super) const fn new() -> Groups {
        Groups {
            all: Vec::new(),
            free: BinaryHeap::new(),
        }
    }

    /// Returns the number of groups, including free ones.
    pub(super) const fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the number of groups with an owner.
    #[cfg(test)]
    pub(super) fn used(&self) -> usize {
        self.all.len() - self.free.len()
    }

    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> usize {
        let singles = self.all.iter().filter(|group| group.pages.is_some());
        let pages = singles.count() * GROUP_PAGES as usize * 4;
        self.all.capacity() * size_of::<Group>() + self.free.capacity() * 4 + pages
    }

    /// Adds a block for the stretch at `start`. Returns its first id; `None` if all ids are in use.
    pub(super) fn add_block(&mut self, owner: Owner, start: u64) -> Option<FolioId> {
        let group = self.add(owner, start)?;
        Some(FolioId(group * GROUP_PAGES))
    }

    /// Adds a group of singles for the area of this address. Returns the group's number; `None` if
    /// all ids are in use.
    pub(super) fn add_singles(&mut self, owner: Owner, address: u64) -> Option<u32> {
        let group = self.add(owner, area_of(address))?;
        self.all[group as usize].pages = Some(Box::new([0; GROUP_PAGES as usize]));
        Some(group)
    }

    /// Adds a group, the lowest free one if there is any. Returns its number; `None` if all ids are
    /// in use.
    fn add(&mut self, owner: Owner, start: u64) -> Option<u32> {
        let new = Group {
            owner: Some(owner),
            scan: 0,
            start,
            live: 0,
            found: 0,
            pages: None,
        };
        if let Some(Reverse(free)) = self.free.pop() {
            self.all[free as usize] = new;
            return Some(free);
        }
        let number = u32::try_from(self.all.len()).ok()?;
        if number >= (1 << FolioId::BITS) / GROUP_PAGES {
            return None;
        }
        if self.all.len() == self.all.capacity() {
            self.all.reserve_exact(self.all.len() / 16 + 4);
        }
        self.all.push(new);
        Some(number)
    }

    /// Frees a group. The engine must have forgotten the pages of the group, or know them by other
    /// ids.
    pub(super) fn release(&mut self, number: u32) {
        let group = &mut self.all[number as usize];
        assert!(group.owner.is_some(), "a group is given back once");
        (group.owner, group.pages) = (None, None);
        (group.live, group.found) = (0, 0);
        self.free.push(Reverse(number));
    }

    /// Returns a group to move, then the free group to move it to; `None` unless more than half of
    /// the groups are free. The group to move is the last one in use below number `end`.
    pub(super) fn movable(&self, end: u32) -> Option<(u32, u32)> {
        let is_sparse = self.free.len() > self.all.len() / 2 + SPARE;
        let below = self.all.get(..end as usize).unwrap_or(&self.all);
        let last = below.iter().rposition(|group| group.owner.is_some());
        let (from, to) = (last?, self.free.peek()?.0);
        let from = u32::try_from(from).ok()?;
        (is_sparse && to < from).then_some((from, to))
    }

    /// Copies the group `from` to the free group `to`, which is the lowest free one. Returns the
    /// group's owner.
    pub(super) fn copy(&mut self, from: u32, to: u32) -> Option<Owner> {
        let taken = self.free.pop();
        debug_assert_eq!(taken, Some(Reverse(to)), "the lowest free group");
        self.all[to as usize] = self.all[from as usize].clone();
        self.all[to as usize].owner
    }

    /// Whether a group holds singles; otherwise it is a block, or free.
    pub(super) fn is_of_singles(&self, number: u32) -> bool {
        self.all[number as usize].pages.is_some()
    }

    /// Releases the free groups at the end, if there are many. Returns whether groups were
    /// released.
    pub(super) fn shrink(&mut self) -> bool {
        let used = self.all.iter().rposition(|group| group.owner.is_some());
        let len = used.map_or(0, |last| last + 1);
        let is_worth = self.all.len() - len > self.all.len() / 4 + SPARE;
        if is_worth {
            self.all.truncate(len);
            self.all.shrink_to(len + len / 16 + 4);
            self.free.retain(|number| (number.0 as usize) < len);
            self.free.shrink_to_fit();
        }
        is_worth
    }

    /// Returns the group that contains an id.
    fn of(&self, id: FolioId) -> &Group {
        &self.all[(id.0 / GROUP_PAGES) as usize]
    }

    /// Returns the group that contains an id, to change it.
    fn of_mut(&mut self, id: FolioId) -> &mut Group {
        &mut self.all[(id.0 / GROUP_PAGES) as usize]
    }

    /// Whether a group belongs to this owner.
    pub(super) fn is_of(&self, number: u32, owner: Owner) -> bool {
        self.all[number as usize].owner == Some(owner)
    }

    /// Returns the start of the area of a group of singles.
    pub(super) fn area(&self, number: u32) -> u64 {
        self.all[number as usize].start
    }

    /// Returns the number of free ids in a group of single ids.
    pub(super) fn room(&self, number: u32) -> u32 {
        self.all[number as usize].live.count_zeros()
    }

    /// Takes an id for the page at `address`, from a group of singles with a free id.
    pub(super) fn take_single(&mut self, number: u32, address: u64) -> FolioId {
        let group = &mut self.all[number as usize];
        let at = (!group.live).trailing_zeros();
        group.live |= 1 << at;
        group.found &= !(1 << at);
        let page = u32::try_from((address - group.start) / PAGE_SIZE);
        if let (Some(pages), Ok(page)) = (&mut group.pages, page) {
            pages[at as usize] = page;
        }
        FolioId(number * GROUP_PAGES + at)
    }

    /// Returns the address of an index entry: of the page of a single id, or of a block's first
    /// page.
    #[inline]
    pub(super) fn address(&self, entry: Entry) -> u64 {
        let group = self.of(entry.id());
        match &group.pages {
            Some(pages) => {
                let page = pages[(entry.id().0 % GROUP_PAGES) as usize];
                group.start + u64::from(page) * PAGE_SIZE
            }
            None => group.start,
        }
    }

    /// Returns the owner and the address of the page with this id; `None` if it has no page. The
    /// page of an id in a block may not exist.
    pub(super) fn place(&self, id: FolioId) -> Option<(Owner, u64)> {
        let group = self.all.get((id.0 / GROUP_PAGES) as usize)?;
        let at = id.0 % GROUP_PAGES;
        let page = match &group.pages {
            Some(pages) => (group.live >> at & 1 == 1).then(|| pages[at as usize])?,
            None => at,
        };
        Some((group.owner?, group.start + u64::from(page) * PAGE_SIZE))
    }

    /// Records which pages of the group of `id` the scan numbered `scan` found: bit `n` of `pages`
    /// is id `n` of the group.
    pub(super) fn note(&mut self, id: FolioId, pages: u64, scan: u32) {
        let group = self.of_mut(id);
        if group.scan != scan {
            (group.scan, group.found) = (scan, 0);
        }
        group.live |= pages;
        group.found |= pages;
    }

    /// Returns which pages of the group of `id` the scan numbered `scan` found, one bit each.
    pub(super) fn found(&self, id: FolioId, scan: u32) -> u64 {
        let group = self.of(id);
        if group.scan == scan { group.found } else { 0 }
    }

    /// Whether the scan numbered `scan` found the page with this id.
    pub(super) fn is_found(&self, id: FolioId, scan: u32) -> bool {
        self.found(id, scan) >> (id.0 % GROUP_PAGES) & 1 == 1
    }

    /// Returns which ids of the group of `id` have a page, one bit each.
    pub(super) fn live(&self, id: FolioId) -> u64 {
        self.of(id).live
    }

    /// Records that ids of the group of `id` have a page, one bit each.
    pub(super) fn add_live(&mut self, id: FolioId, pages: u64) {
        self.of_mut(id).live |= pages;
    }

    /// Records that ids of the group of `id` no longer have a page, one bit each.
    pub(super) fn drop_live(&mut self, id: FolioId, pages: u64) {
        self.of_mut(id).live &= !pages;
    }
}
