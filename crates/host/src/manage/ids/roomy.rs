//! Groups of single ids that have free ids, by the area (16 TiB of addresses) of their pages.
//!
//! Invariant: areas ascend, and each occurs once. Most programs have two or three areas, so a
//! sorted list takes less memory than a tree.

/// For each area: its start address, then the numbers of its groups with free ids.
#[derive(Debug, Default)]
pub(super) struct PartlyFree(Vec<(u64, Vec<u32>)>);

impl PartlyFree {
    /// Returns the position of an area, or as an error the position where to add it.
    fn search(&self, area: u64) -> Result<usize, usize> {
        self.0.binary_search_by_key(&area, |one| one.0)
    }

    /// Returns the list of groups of an area, to change it; adds the area if it is not there.
    pub(super) fn of(&mut self, area: u64) -> &mut Vec<u32> {
        let at = self.search(area).unwrap_or_else(|at| {
            self.0.reserve_exact(1);
            self.0.insert(at, (area, Vec::new()));
            at
        });
        &mut self.0[at].1
    }

    /// Returns the list of groups of an area, to change it; `None` if the area is not there.
    pub(super) fn get_mut(&mut self, area: u64) -> Option<&mut Vec<u32>> {
        let at = self.search(area).ok()?;
        self.0.get_mut(at).map(|one| &mut one.1)
    }

    /// Returns the number of areas.
    pub(super) const fn areas(&self) -> usize {
        self.0.len()
    }

    /// Returns the list of groups of each area.
    pub(super) fn each(&self) -> impl Iterator<Item = &Vec<u32>> {
        self.0.iter().map(|one| &one.1)
    }

    /// Returns the list of groups of each area, to change it.
    pub(super) fn each_mut(&mut self) -> impl Iterator<Item = &mut Vec<u32>> {
        self.0.iter_mut().map(|one| &mut one.1)
    }

    /// Removes the groups for which `is_kept` returns false, and frees their memory.
    pub(super) fn keep(&mut self, mut is_kept: impl FnMut(u32) -> bool) {
        self.0.retain_mut(|(_, groups)| {
            groups.retain(|group| is_kept(*group));
            groups.shrink_to_fit();
            !groups.is_empty()
        });
        self.0.shrink_to_fit();
    }

    /// Returns the groups of all areas.
    pub(super) fn into_all(self) -> impl Iterator<Item = u32> {
        self.0.into_iter().flat_map(|one| one.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_ascend_and_go_with_their_last_group() {
        let mut roomy = PartlyFree::default();
        for (area, group) in [(7, 1), (0, 2), (7, 3), (5, 4)] {
            roomy.of(area).push(group);
        }
        assert_eq!(roomy.get_mut(7), Some(&mut vec![1, 3]));
        assert_eq!(roomy.get_mut(6), None);
        assert_eq!(roomy.areas(), 3);
        assert_eq!(roomy.each().map(Vec::len).sum::<usize>(), 4);
        roomy.keep(|group| group != 4 && group != 1);
        assert_eq!(roomy.get_mut(5), None);
        assert_eq!(roomy.areas(), 2);
        assert_eq!(roomy.into_all().collect::<Vec<u32>>(), [2, 3]);
    }
}
