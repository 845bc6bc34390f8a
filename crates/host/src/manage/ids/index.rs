//! Index of the blocks and single ids ([`super`]) of one address space, by address. An entry takes
//! 4 bytes; entries are stored in leaves.
//!
//! Invariant: entries ascend by address; at the same address a block is before a single id. A leaf
//! has 1 to [`LEAF_MAX`] entries, and `first` is the address of the leaf's first entry.

use engine::FolioId;

use super::groups::Groups;

/// Maximum number of entries in a leaf; then the number at which a leaf that is filled in ascending
/// order counts as full.
const LEAF_MAX: usize = 256;
const LEAF_FULL: usize = 240;
/// Number of entries by which the memory of a leaf grows.
const LEAF_STEP: usize = 16;
/// Bit that marks the entry of a block. Ids have 29 bits, so the bit is free.
const BLOCK: u32 = 1 << 31;

/// Entry of the index: the first id of a block (with [`BLOCK`] set), or a single id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry(u32);

impl Entry {
    /// Returns the entry of the block with this first id.
    pub(super) const fn block(first: FolioId) -> Entry {
        Entry(first.0 | BLOCK)
    }

    /// Returns the entry of a single.
    pub(super) const fn single(id: FolioId) -> Entry {
        Entry(id.0)
    }

    /// Whether the entry is of a block; otherwise it is of a single id.
    pub(super) const fn is_block(self) -> bool {
        self.0 & BLOCK != 0
    }

    /// Returns the id of a single, or the first id of a block.
    pub(super) const fn id(self) -> FolioId {
        FolioId(self.0 & !BLOCK)
    }
}

/// A part of the index: entries with consecutive addresses.
#[derive(Debug)]
struct Leaf {
    first: u64,
    entries: Vec<Entry>,
}

/// Index of the blocks and singles of one address space.
#[derive(Debug, Default)]
pub(super) struct Index {
    leaves: Vec<Leaf>,
    /// Position where the next search begins: number of the leaf, then of the entry in it. Most
    /// searches are in ascending order.
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

    /// Returns where the first entry at `address` or above is: number of the leaf, then of the
    /// entry in it.
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

    /// Returns the entry at a position of a leaf; `None` if there is none.
    fn get(&self, (leaf, at): (usize, usize)) -> Option<Entry> {
        self.leaves.get(leaf)?.entries.get(at).copied()
    }

    /// Whether the entry at this leaf and position is the first one at `address` or above.
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

    /// Returns the entries from `address` on, in ascending order.
    pub(super) fn from<'a>(
        &'a self,
        groups: &Groups,
        address: u64,
    ) -> impl Iterator<Item = Entry> + use<'a> {
        let (leaf, at) = self.search(groups, address);
        self.after(leaf, at)
    }

    /// Returns the entry at position `at` of a leaf, and all that follow.
    fn after(&self, leaf: usize, at: usize) -> impl Iterator<Item = Entry> + use<'_> {
        let first = self.leaves.get(leaf).into_iter();
        let first = first.flat_map(move |leaf| &leaf.entries[at..]);
        let rest = self.leaves.iter().skip(leaf + 1);
        first.chain(rest.flat_map(|leaf| &leaf.entries)).copied()
    }

    /// Like [`Index::from`], but fast if the search begins right after the stretch of the search
    /// before.
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
        // In dense memory each stretch has one block, so the next search begins at the next entry.
        self.next = (leaf, at + 1);
        self.after(leaf, at)
    }

    /// Adds an entry. There must be no entry of the same kind (block or single) at its address.
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
            // Most entries are added in ascending order, so the full leaf is not split.
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

    /// Removes an entry, which must be in the index.
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

    /// Replaces an entry by one of the same kind (block or single) and the same address.
    pub(super) fn replace(&mut self, groups: &Groups, old: Entry, new: Entry) {
        let place = self.place(groups, old);
        debug_assert!(place.is_some(), "only what is there is replaced");
        if let Some((leaf, at)) = place {
            self.leaves[leaf].entries[at] = new;
        }
    }

    /// Returns where an entry is: number of the leaf, then position in it; `None` if it is not
    /// there.
    fn place(&self, groups: &Groups, entry: Entry) -> Option<(usize, usize)> {
        let (leaf, at) = self.search(groups, groups.address(entry));
        // A block may come before a single at the same address, perhaps in the previous leaf.
        let places = [(leaf, at), (leaf, at + 1), (leaf + 1, 0)];
        places
            .into_iter()
            .find(|place| self.get(*place) == Some(entry))
    }

    /// Adds an entry; fast if its address is above all others, which is usual.
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

    /// Returns all entries in ascending order, and frees each leaf after its last entry.
    pub(super) fn into_entries(self) -> impl Iterator<Item = Entry> {
        self.leaves.into_iter().flat_map(|leaf| leaf.entries)
    }
}

#[cfg(test)]
mod tests;
