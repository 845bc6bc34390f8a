//! Where the chunk of a frame is: a tree over frame numbers that has only the branches it needs.
//!
//! Invariant: an entry is 0 (nothing there) or one more than what it names; a region without chunks
//! is not in the tree. Regions are 2 MiB, so a host of 1 TiB costs at most 2 MiB above them, however
//! few and however scattered the watched frames are.

/// Frame numbers are below this.
pub(super) const FRAMES_MAX: u64 = 1 << 40;
/// Chunks of 64 frames in a region of 512.
const CHUNKS: usize = 8;
/// Regions below one branch: 8 GiB.
const REGIONS: usize = 4096;

type Branch = [u32; REGIONS];

/// The tree.
#[derive(Debug, Default)]
pub(super) struct Index {
    branches: Vec<Option<Box<Branch>>>,
    regions: Vec<[u32; CHUNKS]>,
    /// Regions that are not in the tree.
    free: Vec<u32>,
}

/// The three steps to the chunk with this number (frame number over 64).
fn steps(chunk: u64) -> (usize, usize, usize) {
    debug_assert!(chunk < FRAMES_MAX >> 6, "frame numbers have 40 bits");
    let branch = usize::try_from(chunk >> 15).unwrap_or(usize::MAX);
    (branch, (chunk >> 3 & 0xfff) as usize, (chunk & 7) as usize)
}

impl Index {
    /// The id stored for a chunk.
    pub(super) fn get(&self, chunk: u64) -> Option<u32> {
        let (_, _, leaf) = steps(chunk);
        self.region(chunk)?[leaf].checked_sub(1)
    }

    /// The ids of all chunks of the region of this chunk.
    pub(super) fn in_region(&self, chunk: u64) -> impl Iterator<Item = u32> {
        let region = self.region(chunk).copied().unwrap_or_default();
        region.into_iter().filter_map(|entry| entry.checked_sub(1))
    }

    fn region(&self, chunk: u64) -> Option<&[u32; CHUNKS]> {
        let (branch, twig, _) = steps(chunk);
        let region = self.branches.get(branch)?.as_ref()?[twig].checked_sub(1)?;
        self.regions.get(region as usize)
    }

    /// Stores the id of a chunk that has none.
    pub(super) fn insert(&mut self, chunk: u64, id: u32) {
        assert!(chunk < FRAMES_MAX >> 6, "frame numbers have 40 bits");
        let (branch, twig, leaf) = steps(chunk);
        if branch >= self.branches.len() {
            self.branches.resize_with(branch + 1, || None);
        }
        let entry = &mut self.branches[branch].get_or_insert_with(|| Box::new([0; REGIONS]))[twig];
        if *entry == 0 {
            let region = self.free.pop().unwrap_or_else(|| {
                self.regions.push([0; CHUNKS]);
                // One a 2 MiB of 2^40 frames: 2^31 at most.
                u32::try_from(self.regions.len() - 1).unwrap_or(u32::MAX)
            });
            *entry = region + 1;
        }
        let slot = &mut self.regions[*entry as usize - 1][leaf];
        assert_eq!(*slot, 0, "a chunk has one id");
        *slot = id + 1;
    }

    /// Forgets a chunk, and its region if that was the last.
    pub(super) fn remove(&mut self, chunk: u64) {
        let (branch, twig, leaf) = steps(chunk);
        let entry = self.branches[branch]
            .as_mut()
            .map(|branch| &mut branch[twig]);
        let Some(entry) = entry else { return };
        assert!(*entry > 0, "only what was inserted is removed");
        let region = &mut self.regions[*entry as usize - 1];
        assert!(region[leaf] > 0, "only what was inserted is removed");
        region[leaf] = 0;
        if *region == [0; CHUNKS] {
            self.free.push(*entry - 1);
            *entry = 0;
        }
    }

    /// Bytes on the heap.
    pub(super) fn memory_bytes(&self) -> usize {
        let branches = self.branches.iter().flatten().count() * size_of::<Branch>();
        let pointers = self.branches.capacity() * size_of::<Option<Box<Branch>>>();
        let regions = self.regions.capacity() * size_of::<[u32; CHUNKS]>();
        branches + pointers + regions + self.free.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_found_until_they_are_removed_and_regions_are_used_again() {
        let mut index = Index::default();
        let chunks = [0, 7, 8, 4095 * 8, 4096 * 8, (FRAMES_MAX >> 6) - 1];
        for round in 0..3 {
            for (id, &chunk) in (round..).zip(&chunks) {
                assert_eq!(index.get(chunk), None);
                index.insert(chunk, id);
                assert_eq!(index.get(chunk), Some(id));
            }
            assert_eq!(index.in_region(3).collect::<Vec<_>>(), [round, round + 1]);
            chunks.iter().for_each(|&chunk| index.remove(chunk));
            assert_eq!(index.regions.len(), 5);
        }
    }
}
