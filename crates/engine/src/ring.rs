//! The ring: a double-ended queue of list entries with little memory for each.
//!
//! Entries are kept in chunks, which are freed when they become empty. All chunks but the first and
//! the last are packed: all entries of a chunk have as many bits as its largest entry needs (28 for
//! 63 million pages). So a page needs less than 8 bytes in all, including its word and its accessed
//! bit. The first and the last chunk are not packed, because entries are added and removed there.
//! Pages are added at the head; reclaim takes them from the tail.
//!
//! Invariant: the entries are in the slots `head..` of the first chunk, in all slots of the chunks
//! between, and in the slots `..tail` of the last chunk; a ring without entries has no chunk; the
//! first and the last chunk are unpacked.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;

/// Maximum number of bits of an entry.
pub(crate) const ENTRY_BITS: u32 = 31;
/// The number of slots of a chunk is a multiple of this, so that a chunk fills whole words with any
/// entry width.
const GROUP: usize = 32;
const CHUNK_MAX: usize = 1024;
/// Number of entries read ahead at the tail: enough loads to keep a processor busy.
pub(crate) const AHEAD: usize = 64;

/// A block of entries of `width` bits each. In an unpacked chunk each entry is a whole word.
#[derive(Debug)]
struct Chunk {
    words: Box<[u32]>,
    slots: u32,
    width: u32,
}

const UNPACKED: u32 = 32;

impl Chunk {
    fn new(slots: usize, width: u32) -> Self {
        debug_assert!(slots.is_multiple_of(GROUP) && (1..=UNPACKED).contains(&width));
        Self {
            words: vec![0; slots / GROUP * width as usize].into_boxed_slice(),
            slots: low_half(slots as u64),
            width,
        }
    }

    const fn slots(&self) -> usize {
        self.slots as usize
    }

    /// Returns the entry in slot `i` of a packed or unpacked chunk. Slow.
    fn get(&self, i: usize) -> u32 {
        let bit = i * self.width as usize;
        let (word, bit) = (bit / 32, bit % 32);
        // The last slot ends at the end of the last word, so it needs no word after that.
        let high = self.words.get(word + 1).map_or(0, |&w| u64::from(w) << 32);
        let both = high | u64::from(self.words[word]);
        low_half(both >> bit & ((1 << self.width) - 1))
    }

    /// Packs the entries, with as many bits for each as the largest needs.
    #[cold]
    fn pack(&mut self) {
        debug_assert_eq!(self.width, UNPACKED);
        let all = self.words.iter().fold(0, |all, entry| all | entry);
        let mut packed = Self::new(self.slots(), 32 - (all | 1).leading_zeros());
        let (mut bits, mut nr, mut to) = (0u64, 0, packed.words.iter_mut());
        for &entry in &self.words {
            bits |= u64::from(entry) << nr;
            nr += packed.width;
            if nr >= 32 {
                if let Some(to) = to.next() {
                    *to = low_half(bits);
                }
                (bits, nr) = (bits >> 32, nr - 32);
            }
        }
        *self = packed;
    }

    #[cold]
    fn unpack(&mut self) {
        if self.width == UNPACKED {
            return;
        }
        let mut unpacked = Self::new(self.slots(), UNPACKED);
        let mask = (1u64 << self.width) - 1;
        let (mut bits, mut nr, mut from) = (0u64, 0, self.words.iter());
        for to in &mut unpacked.words {
            if nr < self.width {
                bits |= u64::from(from.next().copied().unwrap_or(0)) << nr;
                nr += 32;
            }
            *to = low_half(bits & mask);
            (bits, nr) = (bits >> self.width, nr - self.width);
        }
        *self = unpacked;
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the high half is dropped on purpose"
)]
const fn low_half(value: u64) -> u32 {
    value as u32
}

/// The queue of entries of one list.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    chunks: VecDeque<Chunk>,
    head: usize,
    tail: usize,
    len: usize,
}

impl Ring {
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Returns the memory that the ring occupies, in bytes, without the allocator's headers.
    pub(crate) fn footprint(&self) -> usize {
        let spine = self.chunks.capacity() * size_of::<Chunk>();
        spine + self.chunks.iter().map(|c| c.words.len() * 4).sum::<usize>()
    }

    /// Returns the number of slots of the next chunk: few for small rings, so that a hundred
    /// thousand small tenants need little memory.
    const fn next_chunk(&self) -> usize {
        let slots = self.len.next_power_of_two();
        if slots < GROUP {
            GROUP
        } else if slots > CHUNK_MAX {
            CHUNK_MAX
        } else {
            slots
        }
    }

    /// Adds an entry at the head.
    #[inline]
    pub(crate) fn push_head(&mut self, entry: u32) {
        if self.head == 0 {
            self.new_front();
        }
        self.head -= 1;
        self.len += 1;
        if let Some(front) = self.chunks.front_mut() {
            front.words[self.head] = entry;
        }
    }

    #[cold]
    fn new_front(&mut self) {
        let chunk = Chunk::new(self.next_chunk(), UNPACKED);
        self.head = chunk.slots();
        if self.chunks.is_empty() {
            self.tail = self.head;
        } else if self.chunks.len() > 1 {
            self.chunks[0].pack();
        }
        self.chunks.push_front(chunk);
    }

    /// Adds an entry at the tail, so that reclaim takes it next.
    pub(crate) fn push_tail(&mut self, entry: u32) {
        if self.chunks.back().is_none_or(|c| c.slots() == self.tail) {
            self.new_back();
        }
        if let Some(back) = self.chunks.back_mut() {
            back.words[self.tail] = entry;
        }
        self.tail += 1;
        self.len += 1;
    }

    #[cold]
    fn new_back(&mut self) {
        let chunk = Chunk::new(self.next_chunk(), UNPACKED);
        if self.chunks.is_empty() {
            self.head = 0;
        } else if self.chunks.len() > 1 {
            let last = self.chunks.len() - 1;
            self.chunks[last].pack();
        }
        self.chunks.push_back(chunk);
        self.tail = 0;
    }

    /// Returns the entry at the tail; `None` if the ring is empty.
    pub(crate) fn tail(&self) -> Option<u32> {
        Some(self.chunks.back()?.words[self.tail - 1])
    }

    /// Removes and returns the entry at the tail; `None` if the ring is empty.
    #[inline]
    pub(crate) fn pop_tail(&mut self) -> Option<u32> {
        let entry = self.chunks.back()?.words[self.tail - 1];
        self.tail -= 1;
        self.len -= 1;
        if self.len == 0 || self.tail == 0 {
            self.drop_back();
        }
        Some(entry)
    }

    #[cold]
    fn drop_back(&mut self) {
        self.chunks.pop_back();
        self.tail = 0;
        if let Some(back) = self.chunks.back_mut() {
            back.unpack();
            self.tail = back.slots();
        } else {
            self.head = 0;
        }
    }

    /// Whether the next [`AHEAD`] entries at the tail may not have been read ahead yet.
    #[inline]
    pub(crate) const fn is_prefetch_due(&self) -> bool {
        self.tail.is_multiple_of(AHEAD)
    }

    /// Copies up to [`AHEAD`] entries nearest to the tail, but only from the last chunk, into `to`,
    /// the tail last. Returns their number, 0 only if the ring is empty.
    pub(crate) fn ahead(&self, to: &mut [u32; AHEAD]) -> usize {
        let Some(back) = self.chunks.back() else {
            return 0;
        };
        let first = if self.chunks.len() == 1 { self.head } else { 0 };
        let slots = first.max(self.tail.saturating_sub(AHEAD))..self.tail;
        let nr = slots.len();
        to[..nr].copy_from_slice(&back.words[slots]);
        nr
    }

    /// Removes the `nr` entries at the tail, after [`Self::ahead`] has copied them.
    pub(crate) fn drop_tail(&mut self, nr: usize) {
        debug_assert!(nr <= self.tail.min(self.len));
        self.tail -= nr;
        self.len -= nr;
        if nr > 0 && (self.len == 0 || self.tail == 0) {
            self.drop_back();
        }
    }

    /// Removes `entry` if it is among the first `depth` entries at the head and in the first chunk.
    /// Returns whether it was. So short-lived pages cause no tombstones.
    pub(crate) fn remove_near_head(&mut self, entry: u32, depth: usize) -> bool {
        let Some(front) = self.chunks.front_mut() else {
            return false;
        };
        let end = (self.head + depth.min(self.len)).min(front.slots());
        let Some(at) = (self.head..end).find(|&i| front.words[i] == entry) else {
            return false;
        };
        front.words.copy_within(self.head..at, self.head + 1);
        self.head += 1;
        self.len -= 1;
        if self.len == 0 || self.head == front.slots() {
            self.chunks.pop_front();
            self.head = 0;
            if let Some(front) = self.chunks.front_mut() {
                front.unpack();
            }
        }
        true
    }

    /// Returns the entries from tail to head, in the order in which reclaim would scan them.
    pub(crate) fn iter_from_tail(&self) -> impl Iterator<Item = u32> + '_ {
        let last = self.chunks.len().wrapping_sub(1);
        self.chunks
            .iter()
            .enumerate()
            .rev()
            .flat_map(move |(n, chunk)| {
                let from = if n == 0 { self.head } else { 0 };
                let to = if n == last { self.tail } else { chunk.slots() };
                (from..to).rev().map(|i| chunk.get(i))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const BIG: u32 = (1 << ENTRY_BITS) - 1;

    #[test]
    fn packing_changes_nothing() {
        for width in 1..=ENTRY_BITS {
            let mut chunk = Chunk::new(64, UNPACKED);
            let big = (1u32 << width) - 1;
            let value = |i: u32| if i.is_multiple_of(3) { big } else { i & big };
            for (slot, i) in chunk.words.iter_mut().zip(0..) {
                *slot = value(i);
            }
            chunk.pack();
            assert_eq!(
                (chunk.width, chunk.words.len()),
                (width, width as usize * 2)
            );
            for (slot, i) in (0..64).enumerate() {
                assert_eq!(chunk.get(slot), value(i), "width {width}, slot {slot}");
            }
            chunk.unpack();
            let back: Vec<u32> = (0..64).map(value).collect();
            assert_eq!(*chunk.words, back, "width {width}");
        }
    }

    #[test]
    fn behaves_like_a_deque_over_many_chunks() {
        let (mut ring, mut model) = (Ring::default(), VecDeque::new());
        // A xorshift generator with a fixed seed, so that every run of the test is the same.
        let mut x = 0x2545_f491u32;
        for step in 0..60_000u32 {
            x ^= x << 13;
            x ^= x >> 17;
            x ^= x << 5;
            // Entries become wider with time, at both ends.
            let entry = (x & BIG) >> (30 - step / 2000);
            // The ring grows and shrinks in turn, so that chunks are added and removed at both
            // ends.
            let grow = if step / 10_000 % 2 == 0 { 6 } else { 2 };
            match x % 8 {
                n if n < grow && n % 2 == 0 => {
                    ring.push_head(entry);
                    model.push_front(entry);
                }
                n if n < grow => {
                    ring.push_tail(entry);
                    model.push_back(entry);
                }
                7 => {
                    let Some(&e) = model.get(x as usize % 40) else {
                        continue;
                    };
                    if ring.remove_near_head(e, 32) {
                        let at = model.iter().position(|&m| m == e).expect("was in the ring");
                        model.remove(at);
                    }
                }
                _ => assert_eq!(ring.pop_tail(), model.pop_back()),
            }
            assert_eq!(ring.len(), model.len());
            assert_eq!(ring.tail(), model.back().copied());
        }
        let order: Vec<u32> = ring.iter_from_tail().collect();
        assert_eq!(order, model.iter().rev().copied().collect::<Vec<_>>());
        while ring.pop_tail().is_some() {}
        assert!(ring.chunks.is_empty());
    }

    #[test]
    fn a_million_entries_cost_less_than_four_bytes_each() {
        let mut ring = Ring::default();
        for i in 0..1_000_000 {
            ring.push_head(BIG - i);
        }
        assert!(ring.footprint() < 3_950_000, "{}", ring.footprint());
        // Entries of 22 bits: 20 bits of the id and 2 bits of the version.
        let mut ring = Ring::default();
        for i in 0..1_000_000 {
            ring.push_head((1 << 22) - 1 - i);
        }
        assert!(ring.footprint() < 2_830_000, "{}", ring.footprint());
    }
}
