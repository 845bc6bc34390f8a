//! Which tenant each address space is of, and the ids of each tenant's pages.
//!
//! Invariant: an address space has ids in the tenant that is its home and in no other.

use std::collections::BTreeMap;
use std::ops::Range;

use engine::FolioId;
use engine::memcg::MemcgId;

use super::ids::Ids;
use super::noreuse::{Noreuse, NoreuseFiles};
use crate::books::Owner;
use crate::system::Maps;

/// By tenant, and by owner.
#[derive(Debug, Default)]
pub(super) struct Homes {
    /// By the tenant's index; empty ones of tenants that have no page.
    ids: Vec<Ids>,
    homes: BTreeMap<Owner, MemcgId>,
    /// What has no recency, as of each one's last reading: by its first address, where it ends.
    unrecent: BTreeMap<Owner, BTreeMap<u64, u64>>,
    /// Files that have none, whatever their programs said.
    noreuse: Noreuse,
}

impl Homes {
    /// A tenant's ids.
    pub(super) fn ids(&self, memcg: MemcgId) -> &Ids {
        static NONE: Ids = Ids::new();
        self.ids.get(memcg.index()).unwrap_or(&NONE)
    }

    /// The same, to change.
    pub(super) fn ids_mut(&mut self, memcg: MemcgId) -> &mut Ids {
        if self.ids.len() <= memcg.index() {
            self.ids.resize_with(memcg.index() + 1, Ids::default);
        }
        &mut self.ids[memcg.index()]
    }

    /// The tenant that an address space is of.
    pub(super) fn of(&self, owner: Owner) -> Option<MemcgId> {
        self.homes.get(&owner).copied()
    }

    /// All address spaces, with their homes.
    pub(super) fn all(&self) -> impl Iterator<Item = (Owner, MemcgId)> {
        self.homes.iter().map(|(owner, home)| (*owner, *home))
    }

    /// From now on this is its home; its ids elsewhere were released.
    pub(super) fn set_home(&mut self, owner: Owner, home: MemcgId) {
        self.homes.insert(owner, home);
    }

    /// A tenant's address spaces and their pages are none of its own any more; all its ids were below the
    /// number that is returned.
    pub(super) fn evacuate(&mut self, memcg: MemcgId) -> usize {
        self.noreuse.tenants.remove(&memcg);
        let owners: Vec<Owner> = self
            .all()
            .filter(|(_, home)| *home == memcg)
            .map(|(owner, _)| owner)
            .collect();
        owners.iter().for_each(|owner| self.forget(*owner));
        std::mem::take(self.ids_mut(memcg)).len()
    }

    /// An address space with these mappings is about to be read, at its home: what has no recency is told anew.
    pub(super) fn begin_recency(&mut self, owner: Owner, maps: &Maps) {
        self.unrecent.remove(&owner);
        let Some(home) = self
            .of(owner)
            .filter(|_| self.noreuse != Noreuse::default())
        else {
            return;
        };
        let once = maps
            .named()
            .filter(|(mapping, name)| self.noreuse.has(home, mapping.kind, name));
        let once: Vec<Range<u64>> = once
            .map(|(mapping, _)| mapping.start..mapping.end)
            .collect();
        once.into_iter()
            .for_each(|range| self.note_unrecent(owner, range));
    }

    /// Accesses to this range say nothing of the next ones.
    pub(super) fn note_unrecent(&mut self, owner: Owner, range: Range<u64>) {
        let ranges = self.unrecent.entry(owner).or_default();
        ranges.insert(range.start, range.end);
    }

    /// Which files are used once, as of each address space's next reading; whether that is a change.
    pub(super) fn set_noreuse(&mut self, noreuse: Noreuse) -> bool {
        let is_change = noreuse != self.noreuse;
        self.noreuse = noreuse;
        is_change
    }

    /// Whether a rule goes by the names of files.
    pub(super) fn needs_names(&self) -> bool {
        self.noreuse.needs_names()
    }

    /// The same of a tenant of which nothing was read yet.
    pub(super) fn add_noreuse(&mut self, memcg: MemcgId, files: NoreuseFiles) {
        self.noreuse.tenants.insert(memcg, files);
    }

    /// Whether an access to this address says that another is likely (`vma_has_recency`).
    pub(super) fn has_recency(&self, owner: Owner, address: u64) -> bool {
        let ranges = self.unrecent.get(&owner);
        let before = ranges.and_then(|ranges| ranges.range(..=address).next_back());
        before.is_none_or(|(_, end)| *end <= address)
    }

    /// The same of a page.
    pub(super) fn has_recency_of(&self, memcg: MemcgId, id: FolioId) -> bool {
        if self.unrecent.is_empty() {
            return true;
        }
        let place = self.ids(memcg).place(id);
        place.is_none_or(|(owner, address)| self.has_recency(owner, address))
    }

    pub(super) fn forget(&mut self, owner: Owner) {
        self.homes.remove(&owner);
        self.unrecent.remove(&owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::books::Books;

    #[test]
    fn what_has_no_recency_is_told_with_each_reading() {
        let mut books = Books::new(0);
        let owner = books.add_owner().expect("room");
        let mut homes = Homes::default();
        assert!(homes.has_recency(owner, 4096));
        homes.note_unrecent(owner, 4096..8192);
        homes.note_unrecent(owner, 4096..8192);
        homes.note_unrecent(owner, 16384..20480);
        for (address, has) in [
            (0, true),
            (4096, false),
            (8191, false),
            (8192, true),
            (16384, false),
            (20480, true),
        ] {
            assert_eq!(homes.has_recency(owner, address), has, "{address}");
        }
        homes.begin_recency(owner, &Maps::default());
        assert!(homes.has_recency(owner, 4096));
    }
}
