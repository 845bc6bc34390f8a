//! A double-ended queue of entries that pays for what it holds.
//!
//! Entries live in chunks that are freed as they drain; a chunk packs its entries without gaps, each
//! as wide as the largest that its ring must hold (28 bits for 63 million pages). What that saves
//! pays for allocator, bookkeeping and accessed bits, so that all a page needs stays below 8 bytes.
//! The head is the young end, reclaim works at the tail.
//!
//! Invariant: the entries are the slots `head..` of the front chunk, all slots of the chunks
//! between, and `..tail` of the back chunk; a ring without entries owns no chunk.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;

/// The widest entry.
pub(crate) const ENTRY_BITS: u32 = 31;
/// Slots come in groups, so that a chunk fills whole words whatever the width.
const GROUP: usize = 32;
const CHUNK_MAX: usize = 1024;
/// How many entries the tail looks ahead: enough to keep a processor's loads in flight.
const AHEAD: usize = 64;

/// Some groups of entries of `width` bits.
#[derive(Debug)]
struct Chunk {
    words: Box<[u32]>,
    slots: u32,
    width: u32,
}

impl Chunk {
    fn new(slots: usize, width: u32) -> Self {
        debug_assert!(slots.is_multiple_of(GROUP) && (1..=ENTRY_BITS).contains(&width));
        Self {
            words: vec![0; slots / GROUP * width as usize].into_boxed_slice(),
            slots: low_half(slots as u64),
            width,
        }
    }

    const fn slots(&self) -> usize {
        self.slots as usize
    }

    /// The word and bit where slot `i` starts.
    const fn at(&self, i: usize) -> (usize, usize) {
        let bit = i * self.width as usize;
        (bit / 32, bit % 32)
    }

    const fn mask(&self) -> u64 {
        (1 << self.width) - 1
    }

    #[inline]
    fn get(&self, i: usize) -> u32 {
        let (word, bit) = self.at(i);
        // The last slot ends with the last word, so there is none to run over.
        let high = self.words.get(word + 1).map_or(0, |&w| u64::from(w) << 32);
        let both = high | u64::from(self.words[word]);
        low_half(both >> bit & self.mask())
    }

    #[inline]
    fn set(&mut self, i: usize, entry: u32) {
        let (word, bit) = self.at(i);
        let (mask, value) = (self.mask() << bit, u64::from(entry) << bit);
        self.words[word] = self.words[word] & !low_half(mask) | low_half(value);
        if bit + self.width as usize > 32 {
            let high = &mut self.words[word + 1];
            *high = *high & !low_half(mask >> 32) | low_half(value >> 32);
        }
    }

    /// [`Self::set`] of an entry that may be too wide for what the chunk holds so far; then it is
    /// packed anew for entries of `width` bits.
    #[inline]
    fn store(&mut self, i: usize, entry: u32, width: u32) {
        if width_of(entry) > self.width {
            self.widen(width);
        }
        self.set(i, entry);
    }

    #[cold]
    fn widen(&mut self, width: u32) {
        let mut wide = Self::new(self.slots(), width);
        for i in 0..self.slots() {
            wide.set(i, self.get(i));
        }
        *self = wide;
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the low half is what is asked for"
)]
const fn low_half(value: u64) -> u32 {
    value as u32
}

const fn width_of(entry: u32) -> u32 {
    32 - (entry | 1).leading_zeros()
}

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    chunks: VecDeque<Chunk>,
    /// Of the widest entry so far, and so of the next chunk.
    width: u32,
    head: usize,
    tail: usize,
    len: usize,
}

impl Ring {
    #[cfg(test)]
    const fn len(&self) -> usize {
        self.len
    }

    /// Bytes held, allocator headers not counted.
    pub(crate) fn footprint(&self) -> usize {
        let spine = self.chunks.capacity() * size_of::<Chunk>();
        spine + self.chunks.iter().map(|c| c.words.len() * 4).sum::<usize>()
    }

    /// Small rings take small chunks, so that a hundred thousand small tenants stay cheap.
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

    /// Adds at the young end.
    #[inline]
    pub(crate) fn push_head(&mut self, entry: u32) {
        self.width = self.width.max(width_of(entry));
        if self.head == 0 || self.chunks.is_empty() {
            let chunk = Chunk::new(self.next_chunk(), self.width);
            self.head = chunk.slots();
            if self.chunks.is_empty() {
                self.tail = self.head;
            }
            self.chunks.push_front(chunk);
        }
        self.head -= 1;
        self.len += 1;
        self.chunks[0].store(self.head, entry, self.width);
    }

    /// Adds at the end that reclaim takes from next.
    pub(crate) fn push_tail(&mut self, entry: u32) {
        self.width = self.width.max(width_of(entry));
        if self.chunks.back().is_none_or(|c| c.slots() == self.tail) {
            if self.chunks.is_empty() {
                self.head = 0;
            }
            let chunk = Chunk::new(self.next_chunk(), self.width);
            self.chunks.push_back(chunk);
            self.tail = 0;
        }
        let (last, slot) = (self.chunks.len() - 1, self.tail);
        self.chunks[last].store(slot, entry, self.width);
        self.tail += 1;
        self.len += 1;
    }

    /// The entry at the tail.
    pub(crate) fn tail(&self) -> Option<u32> {
        self.chunks.back().map(|c| c.get(self.tail - 1))
    }

    /// Takes the entry at the tail.
    #[inline]
    pub(crate) fn pop_tail(&mut self) -> Option<u32> {
        let entry = self.chunks.back()?.get(self.tail - 1);
        self.tail -= 1;
        self.len -= 1;
        if self.len == 0 {
            self.chunks.pop_back();
        } else if self.tail == 0 {
            self.chunks.pop_back();
            self.tail = self.chunks.back().map_or(0, Chunk::slots);
        }
        Some(entry)
    }

    /// True when the next entries to be taken, up to [`AHEAD`], may not have been looked at yet.
    #[inline]
    pub(crate) const fn is_ahead_due(&self) -> bool {
        self.tail.is_multiple_of(AHEAD)
    }

    /// The next entries at the tail, at most [`AHEAD`] and none beyond their chunk.
    pub(crate) fn ahead(&self) -> impl Iterator<Item = u32> + '_ {
        let first = if self.chunks.len() == 1 { self.head } else { 0 };
        let slots = first.max(self.tail.saturating_sub(AHEAD))..self.tail;
        let back = self.chunks.back();
        back.into_iter()
            .flat_map(move |chunk| slots.clone().map(|i| chunk.get(i)))
    }

    /// Removes `entry` if it is among the first `depth` of the head chunk; pages that come and go
    /// in a hurry leave no tombstone this way.
    pub(crate) fn remove_near_head(&mut self, entry: u32, depth: usize) -> bool {
        let Some(front) = self.chunks.front_mut() else {
            return false;
        };
        let end = (self.head + depth.min(self.len)).min(front.slots());
        let Some(at) = (self.head..end).find(|&i| front.get(i) == entry) else {
            return false;
        };
        for i in (self.head..at).rev() {
            let moved = front.get(i);
            front.set(i + 1, moved);
        }
        self.head += 1;
        self.len -= 1;
        if self.len == 0 || self.head == front.slots() {
            self.chunks.pop_front();
            self.head = 0;
        }
        true
    }

    /// Entries from the tail to the head, in the order reclaim would meet them.
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
    fn packed_slots_do_not_disturb_neighbours() {
        for width in 6..=ENTRY_BITS {
            let mut chunk = Chunk::new(64, width);
            let big = (1 << width) - 1;
            let value = |i: u32| if i.is_multiple_of(3) { big } else { i };
            for (slot, i) in (0..64).enumerate() {
                chunk.set(slot, value(i));
            }
            for slot in (0..64).step_by(2) {
                chunk.set(slot, 7);
            }
            for (slot, i) in (0..64).enumerate() {
                let want = if slot % 2 == 0 { 7 } else { value(i) };
                assert_eq!(chunk.get(slot), want, "width {width}, slot {slot}");
            }
        }
    }

    #[test]
    fn behaves_like_a_deque_over_many_chunks() {
        let (mut ring, mut model) = (Ring::default(), VecDeque::new());
        // A fixed xorshift: the test is the same in every run.
        let mut x = 0x2545_f491u32;
        for step in 0..60_000u32 {
            x ^= x << 13;
            x ^= x >> 17;
            x ^= x << 5;
            // Wider entries come as time goes by, at either end.
            let entry = (x & BIG) >> (30 - step / 2000);
            // Phases of growth and of drain, so that chunks come and go at both ends.
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
        // 2^20 ids and two bits of version: 22 bits.
        let mut ring = Ring::default();
        for i in 0..1_000_000 {
            ring.push_head((1 << 22) - 1 - i);
        }
        assert!(ring.footprint() < 2_830_000, "{}", ring.footprint());
    }
}
