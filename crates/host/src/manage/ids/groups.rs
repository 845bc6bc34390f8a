//! Groups of 64 ids in a row, and what each id stands for.
//!
//! Invariant: a group is free, or of one owner: a block, or singles of one area. An id of a single
//! names a page while its `live` bit is set.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use engine::FolioId;

use super::PAGE;
use super::index::Entry;
use crate::books::Owner;

/// Ids of a group.
pub(super) const GROUP_PAGES: u32 = 64;
/// A single's address is kept as a page number within its area: 16 TiB.
const AREA_BITS: u32 = 44;

/// 64 ids.
#[derive(Clone, Debug)]
struct Group {
    /// None of a free one.
    owner: Option<Owner>,
    /// The scan that `found` is of.
    scan: u32,
    /// The first address of the block, or of the singles' area.
    start: u64,
    /// One bit an id: it has a page.
    live: u64,
    /// And `scan` has found the page.
    found: u64,
    /// Of singles, page numbers within the area.
    pages: Option<Box<[u32; GROUP_PAGES as usize]>>,
}

/// So many free groups at the end are not worth giving back.
const SPARE: usize = 8;

/// All groups, by their number: that of their first id over 64.
#[derive(Debug, Default)]
pub(super) struct Groups {
    all: Vec<Group>,
    /// The lowest is given out first, so that those at the end become free.
    free: BinaryHeap<Reverse<u32>>,
}

/// The first address of the area that an address is in.
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

    /// How many there are, free ones among them.
    pub(super) const fn len(&self) -> usize {
        self.all.len()
    }

    /// How many have an owner.
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

    /// The first id of a new block.
    pub(super) fn add_block(&mut self, owner: Owner, start: u64) -> Option<FolioId> {
        let group = self.add(owner, start)?;
        Some(FolioId(group * GROUP_PAGES))
    }

    /// The number of a new group of singles, for the area of this address.
    pub(super) fn add_singles(&mut self, owner: Owner, address: u64) -> Option<u32> {
        let group = self.add(owner, area_of(address))?;
        self.all[group as usize].pages = Some(Box::new([0; GROUP_PAGES as usize]));
        Some(group)
    }

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

    /// A group is free: the engine knows none of its pages by these ids.
    pub(super) fn release(&mut self, number: u32) {
        let group = &mut self.all[number as usize];
        assert!(group.owner.is_some(), "a group is given back once");
        (group.owner, group.pages) = (None, None);
        (group.live, group.found) = (0, 0);
        self.free.push(Reverse(number));
    }

    /// Where more than half of the groups are free: the last group below `end` that is used, and a free one below
    /// that.
    pub(super) fn movable(&self, end: u32) -> Option<(u32, u32)> {
        let is_sparse = self.free.len() > self.all.len() / 2 + SPARE;
        let below = self.all.get(..end as usize).unwrap_or(&self.all);
        let last = below.iter().rposition(|group| group.owner.is_some());
        let (from, to) = (last?, self.free.peek()?.0);
        let from = u32::try_from(from).ok()?;
        (is_sparse && to < from).then_some((from, to))
    }

    /// A free group, the lowest, becomes what another is; whose both are then.
    pub(super) fn copy(&mut self, from: u32, to: u32) -> Option<Owner> {
        let taken = self.free.pop();
        debug_assert_eq!(taken, Some(Reverse(to)), "the lowest free group");
        self.all[to as usize] = self.all[from as usize].clone();
        self.all[to as usize].owner
    }

    pub(super) fn is_of_singles(&self, number: u32) -> bool {
        self.all[number as usize].pages.is_some()
    }

    /// Gives free groups at the end back where they are many; whether it did.
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

    fn of(&self, id: FolioId) -> &Group {
        &self.all[(id.0 / GROUP_PAGES) as usize]
    }

    fn of_mut(&mut self, id: FolioId) -> &mut Group {
        &mut self.all[(id.0 / GROUP_PAGES) as usize]
    }

    pub(super) fn is_of(&self, number: u32, owner: Owner) -> bool {
        self.all[number as usize].owner == Some(owner)
    }

    pub(super) fn area(&self, number: u32) -> u64 {
        self.all[number as usize].start
    }

    /// Ids of a group of singles that have no page.
    pub(super) fn room(&self, number: u32) -> u32 {
        self.all[number as usize].live.count_zeros()
    }

    /// A free id of a group of singles with room is this page's.
    pub(super) fn take_single(&mut self, number: u32, address: u64) -> FolioId {
        let group = &mut self.all[number as usize];
        let at = (!group.live).trailing_zeros();
        group.live |= 1 << at;
        group.found &= !(1 << at);
        let page = u32::try_from((address - group.start) / PAGE);
        if let (Some(pages), Ok(page)) = (&mut group.pages, page) {
            pages[at as usize] = page;
        }
        FolioId(number * GROUP_PAGES + at)
    }

    /// The address of an entry's page, of a block that of its first.
    #[inline]
    pub(super) fn address(&self, entry: Entry) -> u64 {
        let group = self.of(entry.id());
        match &group.pages {
            Some(pages) => {
                let page = pages[(entry.id().0 % GROUP_PAGES) as usize];
                group.start + u64::from(page) * PAGE
            }
            None => group.start,
        }
    }

    /// Whose page it is, and its address.
    pub(super) fn place(&self, id: FolioId) -> Option<(Owner, u64)> {
        let group = self.all.get((id.0 / GROUP_PAGES) as usize)?;
        let at = id.0 % GROUP_PAGES;
        let page = match &group.pages {
            Some(pages) => (group.live >> at & 1 == 1).then(|| pages[at as usize])?,
            None => at,
        };
        Some((group.owner?, group.start + u64::from(page) * PAGE))
    }

    /// These of its group's ids have a page that this scan has found.
    pub(super) fn note(&mut self, id: FolioId, pages: u64, scan: u32) {
        let group = self.of_mut(id);
        if group.scan != scan {
            (group.scan, group.found) = (scan, 0);
        }
        group.live |= pages;
        group.found |= pages;
    }

    /// Which of its group's pages this scan has found.
    pub(super) fn found(&self, id: FolioId, scan: u32) -> u64 {
        let group = self.of(id);
        if group.scan == scan { group.found } else { 0 }
    }

    pub(super) fn is_found(&self, id: FolioId, scan: u32) -> bool {
        self.found(id, scan) >> (id.0 % GROUP_PAGES) & 1 == 1
    }

    /// Which of its group's ids have a page.
    pub(super) fn live(&self, id: FolioId) -> u64 {
        self.of(id).live
    }

    pub(super) fn add_live(&mut self, id: FolioId, pages: u64) {
        self.of_mut(id).live |= pages;
    }

    pub(super) fn drop_live(&mut self, id: FolioId, pages: u64) {
        self.of_mut(id).live &= !pages;
    }
}
