//! Page numbers to dense ids, in the order of their first reference.
//!
//! Invariant: ids are 0, 1, 2... and say nothing of the hash, whose seed differs from process to
//! process so that no trace can be made to collide; linear probing in a table that is at most half
//! full.

use std::hash::{BuildHasher, RandomState};

/// The table. 16 bytes a slot, 32 to 64 bytes a page.
#[derive(Clone, Debug)]
pub struct Dense {
    slots: Vec<Slot>,
    /// 64 minus the logarithm of the number of slots.
    shift: u32,
    len: u32,
    seed: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    page: u64,
    /// The id plus 1; 0: empty.
    id: u32,
}

const FIRST_SHIFT: u32 = 64 - 12;

impl Default for Dense {
    fn default() -> Self {
        Self {
            slots: vec![Slot::default(); 1 << (64 - FIRST_SHIFT)],
            shift: FIRST_SHIFT,
            len: 0,
            seed: RandomState::new().hash_one(0),
        }
    }
}

impl Dense {
    /// Most pages: ids have 32 bits, one value means none.
    pub const MAX: u32 = u32::MAX - 1;

    /// Pages seen.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// True before the first page.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The id of `page`, a new one when it is seen for the first time.
    ///
    /// # Panics
    /// Beyond [`Self::MAX`] pages (the table has grown to 128 GiB by then).
    #[inline]
    pub fn id(&mut self, page: u64) -> u32 {
        let mut at = self.home(page);
        loop {
            let slot = self.slots[at];
            if slot.id == 0 {
                return self.insert(at, page);
            }
            if slot.page == page {
                return slot.id - 1;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a table index")]
    const fn home(&self, page: u64) -> usize {
        let mixed = (page ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (mixed >> self.shift) as usize
    }

    #[cold]
    fn insert(&mut self, at: usize, page: u64) -> u32 {
        assert!(self.len < Self::MAX, "more than 2^32 pages");
        self.len += 1;
        self.slots[at] = Slot { page, id: self.len };
        let id = self.len - 1;
        if self.len as usize * 2 > self.slots.len() {
            self.grow();
        }
        id
    }

    fn grow(&mut self) {
        let size = self.slots.len() * 2;
        let old = std::mem::replace(&mut self.slots, vec![Slot::default(); size]);
        self.shift -= 1;
        for slot in old.into_iter().filter(|slot| slot.id != 0) {
            let mut at = self.home(slot.page);
            while self.slots[at].id != 0 {
                at = (at + 1) & (size - 1);
            }
            self.slots[at] = slot;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn ids_are_dense_and_stay() {
        let (mut dense, mut naive) = (Dense::default(), HashMap::new());
        let mut x = 1u64;
        for n in 0..100_000u64 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(n);
            for page in [x >> 47, n, u64::MAX - (x >> 60), x] {
                let next = u32::try_from(naive.len()).expect("few");
                let id = *naive.entry(page).or_insert(next);
                assert_eq!(dense.id(page), id);
            }
        }
        assert_eq!(dense.len() as usize, naive.len());
    }
}
