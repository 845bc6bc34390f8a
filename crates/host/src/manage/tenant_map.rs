//! The tenant map: to which tenant each address space belongs, and the ids of each tenant's pages.
//!
//! Invariant: an address space has ids only in the tenant to which it belongs.

use std::collections::BTreeMap;
use std::ops::Range;

use engine::FolioId;
use engine::memcg::MemcgId;

use super::ids::Ids;
use super::noreuse::{Noreuse, NoreuseFiles};
use crate::age_table::Owner;
use crate::system::Maps;

/// The tenant of each address space, the ids of each tenant's pages, and the address ranges without
/// recency (accesses there do not make further accesses likely).
#[derive(Debug, Default)]
pub(super) struct TenantMap {
    /// Ids of each tenant, at the tenant's index; empty for a tenant without pages.
    ids: Vec<Ids>,
    tenant_map: BTreeMap<Owner, MemcgId>,
    /// Address ranges without recency, as of the last walk of each owner: first address, then end.
    unrecent: BTreeMap<Owner, BTreeMap<u64, u64>>,
    /// Rules by which files are used only once, whatever their programs advised
    /// (`POSIX_FADV_NOREUSE`).
    noreuse: Noreuse,
}

impl TenantMap {
    /// Returns a tenant's ids.
    pub(super) fn ids(&self, memcg: MemcgId) -> &Ids {
        static NONE: Ids = Ids::new();
        self.ids.get(memcg.index()).unwrap_or(&NONE)
    }

    /// Returns a tenant's ids for changes.
    pub(super) fn ids_mut(&mut self, memcg: MemcgId) -> &mut Ids {
        if self.ids.len() <= memcg.index() {
            self.ids.resize_with(memcg.index() + 1, Ids::default);
        }
        &mut self.ids[memcg.index()]
    }

    /// Returns the tenant of an address space; `None` if no scan has found the address space.
    pub(super) fn of(&self, owner: Owner) -> Option<MemcgId> {
        self.tenant_map.get(&owner).copied()
    }

    /// Returns all address spaces with their tenants.
    pub(super) fn all(&self) -> impl Iterator<Item = (Owner, MemcgId)> {
        self.tenant_map.iter().map(|(owner, home)| (*owner, *home))
    }

    /// Sets the tenant of an address space; its ids in another tenant must have been released.
    pub(super) fn set_tenant(&mut self, owner: Owner, home: MemcgId) {
        self.tenant_map.insert(owner, home);
    }

    /// Removes all address spaces and pages of a tenant. Returns a number above all ids that the
    /// tenant had.
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

    /// Begins a walk of an address space with these mappings: forgets its address ranges without
    /// recency, and adds those of files that by rule are used only once.
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

    /// Records that accesses to this range do not make further accesses likely (no recency).
    pub(super) fn note_unrecent(&mut self, owner: Owner, range: Range<u64>) {
        let ranges = self.unrecent.entry(owner).or_default();
        ranges.insert(range.start, range.end);
    }

    /// Sets the rules for files that are used only once. They hold from the next walk of each
    /// address space on. Returns whether the rules have changed.
    pub(super) fn set_noreuse(&mut self, noreuse: Noreuse) -> bool {
        let is_change = noreuse != self.noreuse;
        self.noreuse = noreuse;
        is_change
    }

    /// Whether a rule uses the names of files.
    pub(super) fn needs_names(&self) -> bool {
        self.noreuse.needs_names()
    }

    /// Adds files that are used only once, for a tenant that has not been scanned yet.
    pub(super) fn add_noreuse(&mut self, memcg: MemcgId, files: NoreuseFiles) {
        self.noreuse.tenants.insert(memcg, files);
    }

    /// Whether an access to this address makes further accesses likely (the kernel's
    /// `vma_has_recency`).
    pub(super) fn has_recency(&self, owner: Owner, address: u64) -> bool {
        let ranges = self.unrecent.get(&owner);
        let before = ranges.and_then(|ranges| ranges.range(..=address).next_back());
        before.is_none_or(|(_, end)| *end <= address)
    }

    /// Like [`TenantMap::has_recency`], for the page with this id.
    pub(super) fn has_recency_of(&self, memcg: MemcgId, id: FolioId) -> bool {
        if self.unrecent.is_empty() {
            return true;
        }
        let place = self.ids(memcg).place(id);
        place.is_none_or(|(owner, address)| self.has_recency(owner, address))
    }

    /// Forgets an address space; its ids must have been released.
    pub(super) fn forget(&mut self, owner: Owner) {
        self.tenant_map.remove(&owner);
        self.unrecent.remove(&owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::age_table::AgeTable;

    #[test]
    fn ranges_without_recency_are_found_anew_by_each_walk() {
        let mut age_table = AgeTable::new(0);
        let owner = age_table.add_owner().expect("room");
        let mut tenant_map = TenantMap::default();
        assert!(tenant_map.has_recency(owner, 4096));
        tenant_map.note_unrecent(owner, 4096..8192);
        tenant_map.note_unrecent(owner, 4096..8192);
        tenant_map.note_unrecent(owner, 16384..20480);
        for (address, has) in [
            (0, true),
            (4096, false),
            (8191, false),
            (8192, true),
            (16384, false),
            (20480, true),
        ] {
            assert_eq!(tenant_map.has_recency(owner, address), has, "{address}");
        }
        tenant_map.begin_recency(owner, &Maps::default());
        assert!(tenant_map.has_recency(owner, 4096));
    }
}
