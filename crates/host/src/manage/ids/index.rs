//! The blocks and singles of one address space, by address: 4 bytes each, in leaves.
//!
//! Invariant: entries ascend by address, a block before a single of the same address; a leaf has
//! 1 to [`LEAF_MAX`] entries, and `first` is the address of its first one.

use engine::FolioId;

use super::groups::Groups;

/// Entries of a leaf at most, and where one that is made in order ends.
const LEAF_MAX: usize = 256;
const LEAF_FULL: usize = 240;
/// A leaf grows by so many.
const LEAF_STEP: usize = 16;
/// The bit of a block; ids have 29.
const BLOCK: u32 = 1 << 31;

/// A block, by its first id, or a single.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry(u32);

impl Entry {
    pub(super) const fn block(first: FolioId) -> Entry {
        Entry(first.0 | BLOCK)
    }

    pub(super) const fn single(id: FolioId) -> Entry {
        Entry(id.0)
    }

    pub(super) const fn is_block(self) -> bool {
        self.0 & BLOCK != 0
    }

    pub(super) const fn id(self) -> FolioId {
        FolioId(self.0 & !BLOCK)
    }
}

#[derive(Debug)]
struct Leaf {
    first: u64,
    entries: Vec<Entry>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Index {
    leaves: Vec<Leaf>,
    /// Leaf and place where the last search ended: most searches ascend.
    next: (usize, usize),
}

impl Index {
    pub(super) const fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }

    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> usize {
        let entries: usize = self.leaves.iter().map(|leaf| leaf.entries.capacity()).sum();
        self.leaves.capacity() * size_of::<Leaf>() + entries * size_of::<Entry>()
    }

    /// Leaf and place of the first entry at `address` or above.
    fn search(&self, groups: &Groups, address: u64) -> (usize, usize) {
        let after = self.leaves.partition_point(|leaf| leaf.first < address);
        let Some(leaf) = after.checked_sub(1) else {
            return (0, 0);
        };
        let entries = &self.leaves[leaf].entries;
        let at = entries.partition_point(|entry| groups.address(*entry) < address);
        match at < entries.len() {
            true => (leaf, at),
            false => (after, 0),
        }
    }

    fn get(&self, (leaf, at): (usize, usize)) -> Option<Entry> {
        self.leaves.get(leaf)?.entries.get(at).copied()
    }

    /// Whether this is where the entries at `address` or above begin.
    fn begins(&self, groups: &Groups, (leaf, at): (usize, usize), address: u64) -> bool {
        let before = match at.checked_sub(1) {
            Some(at) => self.get((leaf, at)),
            None => leaf
                .checked_sub(1)
                .and_then(|leaf| self.leaves.get(leaf)?.entries.last().copied()),
        };
        let here = self.get((leaf, at));
        here.is_some_and(|entry| groups.address(entry) >= address)
            && before.is_none_or(|entry| groups.address(entry) < address)
    }

    /// The entries from `address` on, ascending.
    pub(super) fn from<'a>(
        &'a self,
        groups: &Groups,
        address: u64,
    ) -> impl Iterator<Item = Entry> + use<'a> {
        let (leaf, at) = self.search(groups, address);
        self.after(leaf, at)
    }

    fn after(&self, leaf: usize, at: usize) -> impl Iterator<Item = Entry> + use<'_> {
        let first = self.leaves.get(leaf).into_iter();
        let first = first.flat_map(move |leaf| &leaf.entries[at..]);
        let rest = self.leaves.iter().skip(leaf + 1);
        first.chain(rest.flat_map(|leaf| &leaf.entries)).copied()
    }

    /// As [`Index::from`]; the fastest where each search begins behind the entries of the last one's
    /// stretch.
    pub(super) fn next_from<'a>(
        &'a mut self,
        groups: &Groups,
        address: u64,
    ) -> impl Iterator<Item = Entry> + use<'a> {
        let (mut leaf, mut at) = self.next;
        if self
            .leaves
            .get(leaf)
            .is_some_and(|leaf| at >= leaf.entries.len())
        {
            (leaf, at) = (leaf + 1, 0);
        }
        if !self.begins(groups, (leaf, at), address) {
            (leaf, at) = self.search(groups, address);
        }
        // Dense memory has one block a stretch.
        self.next = (leaf, at + 1);
        self.after(leaf, at)
    }

    /// Adds an entry whose address has none of its kind.
    pub(super) fn insert(&mut self, groups: &Groups, entry: Entry) {
        let key = |entry: Entry| (groups.address(entry), !entry.is_block());
        let new = key(entry);
        let after = self.leaves.partition_point(|leaf| {
            let first = leaf.entries.first().copied().map(key);
            first.is_some_and(|first| first < new)
        });
        let leaf = after.saturating_sub(1);
        if self.leaves.is_empty() {
            return self.push(groups, entry);
        }
        let entries = &mut self.leaves[leaf].entries;
        let at = entries.partition_point(|entry| key(*entry) < new);
        if entries.len() < LEAF_MAX {
            if entries.len() == entries.capacity() {
                entries.reserve_exact(LEAF_STEP);
            }
            entries.insert(at, entry);
            self.leaves[leaf].first = groups.address(self.leaves[leaf].entries[0]);
            return;
        }
        if at == LEAF_MAX {
            // Most come in ascending order: a full leaf stays full.
            let entries = vec![entry];
            let first = groups.address(entry);
            self.leaves.insert(leaf + 1, Leaf { first, entries });
            return;
        }
        let right = entries.split_off(LEAF_MAX / 2);
        entries.shrink_to_fit();
        let first = groups.address(right[0]);
        let entries = right;
        self.leaves.insert(leaf + 1, Leaf { first, entries });
        self.insert(groups, entry);
    }

    /// Takes an entry out.
    pub(super) fn remove(&mut self, groups: &Groups, entry: Entry) {
        let Some((leaf, at)) = self.place(groups, entry) else {
            debug_assert!(false, "only what is there is taken out");
            return;
        };
        self.leaves[leaf].entries.remove(at);
        match self.leaves[leaf].entries.first() {
            Some(first) => self.leaves[leaf].first = groups.address(*first),
            None => drop(self.leaves.remove(leaf)),
        }
    }

    /// Puts an entry in the place of another of its kind and address.
    pub(super) fn replace(&mut self, groups: &Groups, old: Entry, new: Entry) {
        let place = self.place(groups, old);
        debug_assert!(place.is_some(), "only what is there is replaced");
        if let Some((leaf, at)) = place {
            self.leaves[leaf].entries[at] = new;
        }
    }

    fn place(&self, groups: &Groups, entry: Entry) -> Option<(usize, usize)> {
        let (leaf, at) = self.search(groups, groups.address(entry));
        // A block may stand before a single of the same address, perhaps in the leaf before.
        let places = [(leaf, at), (leaf, at + 1), (leaf + 1, 0)];
        places
            .into_iter()
            .find(|place| self.get(*place) == Some(entry))
    }

    /// Adds an entry that stands behind all others, as a rule.
    pub(super) fn push(&mut self, groups: &Groups, entry: Entry) {
        let last = self.leaves.last().and_then(|leaf| leaf.entries.last());
        if last.is_some_and(|last| groups.address(*last) > groups.address(entry)) {
            return self.insert(groups, entry);
        }
        let last = self.leaves.last_mut();
        match last.filter(|leaf| leaf.entries.len() < LEAF_FULL) {
            Some(leaf) => {
                if leaf.entries.len() == leaf.entries.capacity() {
                    leaf.entries.reserve_exact(LEAF_STEP);
                }
                leaf.entries.push(entry);
            }
            None => self.leaves.push(Leaf {
                first: groups.address(entry),
                entries: vec![entry],
            }),
        }
    }

    /// All entries, ascending; each leaf is freed when it is passed.
    pub(super) fn into_entries(self) -> impl Iterator<Item = Entry> {
        self.leaves.into_iter().flat_map(|leaf| leaf.entries)
    }
}

#[cfg(test)]
mod tests;
