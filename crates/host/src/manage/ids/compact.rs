//! Compaction of ids when most of them no longer name a page.
//!
//! Memory is allocated for all ids up to the highest one. So if more than half of the groups are
//! free, groups at the end move into free ones below, and the free groups at the end are released.
//!
//! Invariant: a group moves as a whole or not at all.

use engine::FolioId;

use super::groups::GROUP_PAGES;
use super::index::Entry;
use super::{Ids, Pages, bits};

impl Ids {
    /// Releases ids that name no page, if there are many. Returns whether ids were released. Called
    /// when pages are gone.
    pub(in crate::manage) fn shrink(&mut self, pages: &mut impl Pages) -> bool {
        let mut end = u32::MAX;
        while let Some((from, to)) = self.groups.movable(end) {
            if !self.move_group(from, to, pages) {
                break;
            }
            end = from;
        }
        self.groups.shrink()
    }

    /// Moves all pages of group `from` to the free group `to`. Returns false, and moves none, if a
    /// page must keep its id.
    fn move_group(&mut self, from: u32, to: u32, pages: &mut impl Pages) -> bool {
        let ids = |group: u32, at: u32| FolioId(group * GROUP_PAGES + at);
        let live = self.groups.live(ids(from, 0));
        for at in bits(live) {
            if !pages.rename(ids(from, at), ids(to, at)) {
                for done in bits(live & ((1 << at) - 1)) {
                    let is_back = pages.rename(ids(to, done), ids(from, done));
                    debug_assert!(is_back, "it had this name before");
                }
                return false;
            }
        }
        let owner = self.groups.copy(from, to);
        let Some(space) = owner.and_then(|owner| self.spaces.get_mut(&owner)) else {
            return false;
        };
        if self.groups.is_of_singles(from) {
            for at in bits(live) {
                let (old, new) = (Entry::single(ids(from, at)), Entry::single(ids(to, at)));
                space.index.replace(&self.groups, old, new);
            }
            let roomy = space.roomy.get_mut(self.groups.area(from));
            let place = roomy.and_then(|all| all.iter_mut().find(|group| **group == from));
            if let Some(group) = place {
                *group = to;
            }
        } else {
            let (old, new) = (Entry::block(ids(from, 0)), Entry::block(ids(to, 0)));
            space.index.replace(&self.groups, old, new);
        }
        self.groups.release(from);
        true
    }
}
