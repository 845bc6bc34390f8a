//! A hash table from numbers to numbers, with linear probing; at most half full.
//!
//! Invariant: the seed of the hash differs in each process, so that no file can have a trace whose
//! keys collide. No result depends on the seed.

use std::hash::{BuildHasher, RandomState};

/// The table. Takes 32 to 64 bytes for each key.
#[derive(Clone, Debug)]
pub(super) struct Flat {
    slots: Vec<Slot>,
    /// 64 minus the binary logarithm of the number of slots.
    shift: u32,
    len: usize,
    seed: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    key: u64,
    /// The value plus 1; 0 in an empty slot.
    value: u32,
}

const FIRST_BITS: u32 = 10;

impl Default for Flat {
    fn default() -> Self {
        Self {
            slots: vec![Slot::default(); 1 << FIRST_BITS],
            shift: 64 - FIRST_BITS,
            len: 0,
            seed: RandomState::new().hash_one(0),
        }
    }
}

impl Flat {
    /// Returns the value of `key`. If it has none, stores and returns `value`, which must be below
    /// `u32::MAX`.
    #[inline]
    pub(super) fn get_or_insert(&mut self, key: u64, value: u32) -> u32 {
        let mut at = self.home(key);
        loop {
            let slot = self.slots[at];
            if slot.value == 0 {
                self.insert(at, key, value);
                return value;
            }
            if slot.key == key {
                return slot.value - 1;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// Returns the size in bytes of a larger table if one may be needed during `more` new keys,
    /// otherwise 0. The old table exists until its keys are moved.
    /// 0. The old table exists until its keys were moved.
    pub(super) fn growth_bytes(&self, more: usize) -> u64 {
        match (self.len + more) * 2 > self.slots.len() {
            true => (self.slots.len() * 2 * size_of::<Slot>()) as u64,
            false => 0,
        }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a table index")]
    const fn home(&self, key: u64) -> usize {
        let mixed = (key ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (mixed >> self.shift) as usize
    }

    #[cold]
    fn insert(&mut self, at: usize, key: u64, value: u32) {
        self.len += 1;
        self.slots[at] = Slot {
            key,
            value: value + 1,
        };
        if self.len * 2 > self.slots.len() {
            self.grow();
        }
    }

    fn grow(&mut self) {
        let size = self.slots.len() * 2;
        let old = std::mem::replace(&mut self.slots, vec![Slot::default(); size]);
        self.shift -= 1;
        for slot in old.into_iter().filter(|slot| slot.value != 0) {
            let mut at = self.home(slot.key);
            while self.slots[at].value != 0 {
                at = (at + 1) & (size - 1);
            }
            self.slots[at] = slot;
        }
    }
}
