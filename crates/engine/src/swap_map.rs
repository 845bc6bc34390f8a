//! Swap slots with reference counts, as the kernel's swap map: a slot is shared by every address
//! space that was forked while the page was out.
//!
//! Invariants: a slot is free iff its count is zero; free slots are in the free list once; a count
//! above 62 keeps its excess in `continued`, and only such a count has an entry there.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A slot of the swap area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwapSlot(pub u32);

/// The largest count a byte of the map holds; above it counts continue elsewhere.
pub const SWAP_MAP_MAX: u8 = 0x3e;

/// Use of a slot that does not exist or is free: somebody's books are wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSlot(pub SwapSlot);

/// The swap area.
#[derive(Clone, Debug, Default)]
pub struct SwapMap {
    counts: Vec<u8>,
    continued: BTreeMap<u32, u32>,
    /// Freed slots, last in first out; never-used ones come after.
    free: Vec<u32>,
    used: usize,
    capacity: usize,
}

impl SwapMap {
    /// An area of `capacity` slots, all free. Slots cost memory from their first use on.
    #[must_use]
    pub fn new(capacity: u32) -> Self {
        Self {
            capacity: capacity as usize,
            ..Self::default()
        }
    }

    /// Slots in use.
    #[must_use]
    pub const fn used(&self) -> usize {
        self.used
    }

    /// Slots that can still be taken.
    #[must_use]
    pub const fn available(&self) -> usize {
        self.capacity - self.used
    }

    /// Takes a slot, with count one; `None` when the area is full.
    pub fn alloc(&mut self) -> Option<SwapSlot> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.counts.len() < self.capacity => {
                let slot = u32::try_from(self.counts.len()).ok()?;
                self.counts.push(0);
                slot
            }
            None => return None,
        };
        self.counts[slot as usize] = 1;
        self.used += 1;
        Some(SwapSlot(slot))
    }

    /// How many refer to `slot`; zero when it is free.
    #[must_use]
    pub fn count(&self, slot: SwapSlot) -> u32 {
        let base = self.counts.get(slot.0 as usize).copied().unwrap_or(0);
        u32::from(base) + self.continued.get(&slot.0).copied().unwrap_or(0)
    }

    /// One more refers to `slot`.
    ///
    /// # Errors
    /// [`BadSlot`] when it is free.
    pub fn dup(&mut self, slot: SwapSlot) -> Result<(), BadSlot> {
        let count = self.counts.get_mut(slot.0 as usize).filter(|c| **c > 0);
        let count = count.ok_or(BadSlot(slot))?;
        if *count < SWAP_MAP_MAX {
            *count += 1;
        } else {
            *self.continued.entry(slot.0).or_default() += 1;
        }
        Ok(())
    }

    /// One less refers to `slot`; true when that was the last and it is free now.
    ///
    /// # Errors
    /// [`BadSlot`] when it was free already.
    pub fn put(&mut self, slot: SwapSlot) -> Result<bool, BadSlot> {
        if let Some(more) = self.continued.get_mut(&slot.0) {
            *more -= 1;
            if *more == 0 {
                self.continued.remove(&slot.0);
            }
            return Ok(false);
        }
        let count = self.counts.get_mut(slot.0 as usize).filter(|c| **c > 0);
        let count = count.ok_or(BadSlot(slot))?;
        *count -= 1;
        if *count > 0 {
            return Ok(false);
        }
        self.free.push(slot.0);
        self.used -= 1;
        Ok(true)
    }

    /// [`Self::put`] of `nr` slots from `start` on, the accounts once; returns how many are free now.
    ///
    /// # Errors
    /// [`BadSlot`] with the first that was free already; those before it are put.
    pub fn put_range(&mut self, start: SwapSlot, nr: u32) -> Result<usize, BadSlot> {
        let (before, end) = (self.used, start.0.saturating_add(nr));
        let mut next = start.0;
        while next < end {
            // Nearly all slots have one user.
            let from = self.counts.len().min(next as usize);
            let to = self.counts.len().min(end as usize);
            let single = self.counts[from..to]
                .iter()
                .take_while(|&&count| count == 1);
            let single = u32::try_from(single.count()).unwrap_or(0);
            self.counts[from..from + single as usize].fill(0);
            self.free.extend(next..next + single);
            self.used -= single as usize;
            next += single;
            if next < end {
                self.put(SwapSlot(next))?;
                next += 1;
            }
        }
        Ok(before - self.used)
    }

    /// Asserts the invariants.
    ///
    /// # Panics
    /// When one does not hold.
    pub fn check_invariants(&self) {
        let used = self.counts.iter().filter(|&&c| c > 0).count();
        assert_eq!(
            (used, self.counts.len()),
            (self.used, self.used + self.free.len())
        );
        for slot in &self.free {
            assert_eq!(
                self.counts[*slot as usize], 0,
                "slot {slot} is on the free list"
            );
        }
        for (&slot, &more) in &self.continued {
            assert!(
                more > 0 && self.counts[slot as usize] == SWAP_MAP_MAX,
                "slot {slot}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_continue_past_the_byte() {
        let mut map = SwapMap::new(2);
        let slot = map.alloc().expect("free");
        for _ in 0..200 {
            map.dup(slot).expect("in use");
            map.check_invariants();
        }
        assert_eq!(map.count(slot), 201);
        for left in (0..201).rev() {
            assert_eq!(map.put(slot), Ok(left == 0), "{left} left");
            assert_eq!(map.count(slot), left);
            map.check_invariants();
        }
        assert_eq!(
            (map.put(slot), map.dup(slot)),
            (Err(BadSlot(slot)), Err(BadSlot(slot)))
        );
    }

    #[test]
    fn a_full_area_gives_nothing_and_freed_slots_come_back() {
        let mut map = SwapMap::new(2);
        let (a, b) = (map.alloc().expect("one"), map.alloc().expect("two"));
        assert_eq!((map.alloc(), map.available()), (None, 0));
        assert_eq!(map.put(a), Ok(true));
        assert_eq!(map.alloc(), Some(a));
        assert_eq!(map.put(b), Ok(true));
        assert_eq!(map.put(SwapSlot(99)), Err(BadSlot(SwapSlot(99))));
        map.check_invariants();
    }

    /// By ranges and slot by slot, the map is the same.
    #[test]
    fn a_range_is_put_as_its_slots_are() {
        let mut x = 1u32;
        let mut random = |n: u32| {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (x >> 8) % n
        };
        for _ in 0..300 {
            let mut map = SwapMap::new(50);
            for _ in 0..random(50) {
                let slot = map.alloc().expect("free");
                for _ in 0..[0, 0, 0, 1, 100][random(5) as usize] {
                    map.dup(slot).expect("in use");
                }
            }
            let mut by_slot = map.clone();
            let (start, nr) = (random(50), random(30));
            let slots = (start..start + nr).map(SwapSlot);
            let freed = slots.map(|slot| by_slot.put(slot).map(usize::from));
            let freed: Result<Vec<usize>, BadSlot> = freed.collect();
            let got = map.put_range(SwapSlot(start), nr);
            assert_eq!(got, freed.map(|freed| freed.iter().sum()));
            map.check_invariants();
            assert_eq!(
                (map.counts, map.free, map.continued, map.used),
                (
                    by_slot.counts,
                    by_slot.free,
                    by_slot.continued,
                    by_slot.used
                )
            );
        }
    }

    /// Canaries: each plants one bug that `check_invariants` must find.
    #[test]
    #[should_panic(expected = "is on the free list")]
    fn canary_a_slot_is_used_and_free() {
        let mut map = SwapMap::new(4);
        let slot = map.alloc().expect("free");
        let other = map.alloc().expect("free");
        map.put(other).expect("in use");
        map.free[0] = slot.0;
        map.check_invariants();
    }

    #[test]
    #[should_panic(expected = "left == right")]
    fn canary_a_slot_leaks() {
        let mut map = SwapMap::new(4);
        let slot = map.alloc().expect("free");
        map.counts[slot.0 as usize] = 0;
        map.check_invariants();
    }

    #[test]
    #[should_panic(expected = "slot 0")]
    fn canary_a_count_continues_without_need() {
        let mut map = SwapMap::new(4);
        let slot = map.alloc().expect("free");
        map.continued.insert(slot.0, 1);
        map.check_invariants();
    }
}
