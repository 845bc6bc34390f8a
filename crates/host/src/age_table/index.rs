//! Index from frames to chunks: a tree over frame numbers in which only branches with chunks exist.
//!
//! A chunk covers an aligned range of 2^n frames, from 64 to 32,768. Three levels of nodes with
//! eight entries each divide a range of 32,768 frames down to ranges of 64.
//!
//! Invariant: an entry is 0 (empty), a chunk's id with the bit `CHUNK`, or a node's number plus
//! one. Each node has an entry that is not empty. All entries within a chunk's range hold the
//! chunk's id. Besides its nodes, the index of a host with 1 TiB of memory takes at most 40 KiB,
//! however few and scattered the watched frames are.

/// Upper bound (exclusive) of frame numbers.
pub(super) const FRAMES_MAX: u64 = 1 << 40;
/// Widths of the narrowest and of the widest range. A range of width `n` has 2^`n` frames.
pub(super) const NARROW: u32 = 6;
pub(super) const WIDE: u32 = 15;
/// Binary logarithm of a node's number of entries (8).
const NODE_BITS: u32 = 3;
/// Number of ranges of the greatest width in one branch; a branch covers 512 GiB.
const RANGES: usize = 4096;
/// Bit of an entry that says that the entry is a chunk's id.
const CHUNK: u32 = 1 << 31;

/// Entries of consecutive ranges of the greatest width.
type Branch = [u32; RANGES];

/// The index: branches of nodes.
#[derive(Debug, Default)]
pub(super) struct Index {
    branches: Vec<Option<Box<Branch>>>,
    nodes: Vec<[u32; 8]>,
    /// Numbers of unused nodes.
    free: Vec<u32>,
}

/// How many chunks a range contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Within {
    Nothing,
    /// One chunk with this id, or a part of that chunk.
    One(u32),
    Several,
}

impl Within {
    /// Returns what the union of two adjoining ranges contains.
    fn joined_with(self, other: Within) -> Within {
        match (self, other) {
            (Within::Nothing, one) | (one, Within::Nothing) => one,
            (one, other) if one == other => one,
            _ => Within::Several,
        }
    }
}

/// Returns the number of a frame's branch, then the index of the frame's entry in that branch.
fn top_of(frame: u64) -> (usize, usize) {
    debug_assert!(frame < FRAMES_MAX, "frame numbers have 40 bits");
    let range = usize::try_from(frame >> WIDE).unwrap_or(usize::MAX);
    (range / RANGES, range % RANGES)
}

/// Returns which entry of a node covers a frame; each entry covers 2^`shift` frames.
const fn child_of(frame: u64, shift: u32) -> usize {
    (frame >> shift & 7) as usize
}

impl Index {
    /// Returns the entry of the widest range that contains a frame.
    fn top(&self, frame: u64) -> u32 {
        let (branch, slot) = top_of(frame);
        let branch = self.branches.get(branch).and_then(Option::as_ref);
        branch.map_or(0, |branch| branch[slot])
    }

    /// Returns the entry that covers a frame, and the width of the range that the entry covers.
    fn entry(&self, frame: u64) -> (u32, u32) {
        let (mut entry, mut width) = (self.top(frame), WIDE);
        while entry != 0 && entry & CHUNK == 0 {
            width -= NODE_BITS;
            entry = self.nodes[entry as usize - 1][child_of(frame, width)];
        }
        (entry, width)
    }

    /// Returns the id of the chunk that covers a frame; `None` if no chunk does.
    pub(super) fn get(&self, frame: u64) -> Option<u32> {
        let (entry, _) = self.entry(frame);
        (entry != 0).then_some(entry & !CHUNK)
    }

    /// Returns the width (binary logarithm) of the widest range around this frame that has no
    /// chunk. No chunk may cover the frame.
    pub(super) fn room(&self, frame: u64) -> u32 {
        let (entry, mut width) = self.entry(frame);
        debug_assert_eq!(entry, 0, "the frame is in no chunk's range");
        while width < WIDE && self.within(frame, width + 1) == Within::Nothing {
            width += 1;
        }
        width
    }

    /// Returns what the range of 2^`width` frames around a frame contains.
    pub(super) fn within(&self, frame: u64, width: u32) -> Within {
        let (mut entry, mut below) = (self.top(frame), WIDE);
        while entry != 0 && entry & CHUNK == 0 && width <= below - NODE_BITS {
            below -= NODE_BITS;
            entry = self.nodes[entry as usize - 1][child_of(frame, below)];
        }
        if width == below || entry == 0 || entry & CHUNK != 0 {
            return self.under(entry);
        }
        let entries = self.children(frame, width, below - NODE_BITS);
        let node = &self.nodes[entry as usize - 1][entries];
        let all = node.iter().map(|entry| self.under(*entry));
        all.fold(Within::Nothing, Within::joined_with)
    }

    /// Returns what the range of an entry contains.
    fn under(&self, entry: u32) -> Within {
        match entry {
            0 => Within::Nothing,
            entry if entry & CHUNK != 0 => Within::One(entry & !CHUNK),
            node => {
                let entries = self.nodes[node as usize - 1].iter();
                let mut all = Within::Nothing;
                for entry in entries {
                    all = all.joined_with(self.under(*entry));
                    if all == Within::Several {
                        break;
                    }
                }
                all
            }
        }
    }

    /// Returns which entries of a node belong to the range of 2^`width` frames around a frame. Each
    /// entry of the node covers 2^`child` frames.
    fn children(&self, frame: u64, width: u32, child: u32) -> std::ops::Range<usize> {
        let first = child_of(frame >> width << width, child);
        first..first + (1 << (width - child))
    }

    /// Sets the chunk of the aligned range of 2^`width` frames that contains a frame; `None` makes
    /// the range empty. No other chunk may cover a part of the range.
    pub(super) fn set(&mut self, frame: u64, width: u32, chunk: Option<u32>) {
        assert!(frame < FRAMES_MAX, "frame numbers have 40 bits");
        let value = chunk.map_or(0, |id| id | CHUNK);
        let (branch, slot) = top_of(frame);
        if branch >= self.branches.len() {
            self.branches.resize_with(branch + 1, || None);
        }
        let branch = self.branches[branch].get_or_insert_with(|| Box::new([0; RANGES]));
        let entry = branch[slot];
        let new = if width == WIDE {
            value
        } else {
            self.set_below(entry, (frame, width, value), WIDE - NODE_BITS)
        };
        let (branch, slot) = top_of(frame);
        if let Some(branch) = &mut self.branches[branch] {
            branch[slot] = new;
        }
    }

    /// Sets a range within the range of `entry`, like [`Index::set`], and returns the new value of
    /// `entry`. `what`: a frame of the range, the range's width, the value for its entries.
    /// `child`: the width of the ranges one level below `entry`.
    fn set_below(&mut self, entry: u32, what: (u64, u32, u32), child: u32) -> u32 {
        let (frame, width, value) = what;
        assert_eq!(entry & CHUNK, 0, "a range is one chunk's");
        let node = match entry.checked_sub(1) {
            Some(node) => node,
            None => self.free.pop().unwrap_or_else(|| {
                self.nodes.push([0; 8]);
                // At most one node for each 512 of 2^40 frames (2^31), and an eighth of that above
                // them: fits `u32`.
                u32::try_from(self.nodes.len() - 1).unwrap_or(u32::MAX)
            }),
        };
        if width >= child {
            let entries = self.children(frame, width, child);
            self.nodes[node as usize][entries].fill(value);
        } else {
            let at = child_of(frame, child);
            let below = self.nodes[node as usize][at];
            let new = self.set_below(below, what, child - NODE_BITS);
            self.nodes[node as usize][at] = new;
        }
        if self.nodes[node as usize] == [0; 8] {
            self.free.push(node);
            return 0;
        }
        node + 1
    }

    /// Returns the heap memory of the index, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let branches = self.branches.iter().flatten().count() * size_of::<Branch>();
        let pointers = self.branches.capacity() * size_of::<Option<Box<Branch>>>();
        let nodes = self.nodes.capacity() * size_of::<[u32; 8]>();
        branches + pointers + nodes + self.free.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_found_until_they_are_removed_and_nodes_are_used_again() {
        let mut index = Index::default();
        let frames = [0, 64, 512, 4096, 1 << 15, 1 << 27, FRAMES_MAX - 64];
        for scan in 0..3 {
            for (id, &frame) in (scan..).zip(&frames) {
                assert_eq!(index.get(frame + 63), None);
                index.set(frame, NARROW, Some(id));
                assert_eq!(index.get(frame + 63), Some(id));
                assert_eq!(index.within(frame, NARROW), Within::One(id));
            }
            assert_eq!(index.within(0, 7), Within::Several);
            assert_eq!(index.within(512, 9), Within::One(scan + 2));
            assert_eq!(index.within(8, WIDE), Within::Several);
            for &frame in &frames {
                index.set(frame, NARROW, None);
            }
            assert_eq!(index.nodes.len(), index.free.len());
            assert_eq!(index.nodes.len(), 15);
        }
    }

    #[test]
    fn a_range_is_as_wide_as_free_space_allows() {
        let mut index = Index::default();
        assert_eq!(index.room(77), WIDE);
        index.set(0, NARROW, Some(1));
        let widths = [64, 128, 300, 512, 1024, 5000, 20_000, 40_000].map(|frame| index.room(frame));
        assert_eq!(widths, [6, 7, 8, 9, 10, 12, 14, 15]);
        index.set(128, 7, Some(2));
        assert_eq!([index.get(128), index.get(255)], [Some(2); 2]);
        assert_eq!((index.get(256), index.room(64)), (None, 6));
        assert_eq!(index.within(200, 6), Within::One(2));
        assert_eq!(index.within(200, 8), Within::Several);
        index.set(128, 7, None);
        index.set(0, NARROW, None);
        assert_eq!((index.room(0), index.free.len()), (WIDE, index.nodes.len()));
    }
}
