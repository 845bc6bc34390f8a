//! Which tenant each address space is of, and the ids of each tenant's pages.
//!
//! Invariant: an address space has ids in the tenant that is its home and in no other.

use std::collections::BTreeMap;

use engine::FolioId;
use engine::memcg::MemcgId;

use super::ids::Ids;
use crate::books::Owner;

/// By tenant, and by owner.
#[derive(Debug, Default)]
pub(super) struct Homes {
    /// By the tenant's index; empty ones of tenants that have no page.
    ids: Vec<Ids>,
    homes: BTreeMap<Owner, MemcgId>,
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
    pub(super) fn settle_in(&mut self, owner: Owner, home: MemcgId) {
        self.homes.insert(owner, home);
    }

    /// A tenant's address spaces and the first ids of all their chunks, none of which are its own any more.
    pub(super) fn evacuate(&mut self, memcg: MemcgId) -> Vec<FolioId> {
        let owners: Vec<Owner> = self
            .all()
            .filter(|(_, home)| *home == memcg)
            .map(|(owner, _)| owner)
            .collect();
        owners.iter().for_each(|owner| self.forget(*owner));
        let ids = std::mem::take(self.ids_mut(memcg));
        let all = ids.owners().into_iter();
        all.flat_map(|owner| ids.within(owner, 0..u64::MAX))
            .map(|(_, first)| first)
            .collect()
    }

    pub(super) fn forget(&mut self, owner: Owner) {
        self.homes.remove(&owner);
    }
}
