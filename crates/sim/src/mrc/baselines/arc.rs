//! ARC (Megiddo and Modha, FAST'03) has two LRU lists: pages seen once, and pages seen again. The
//! sizes of the lists adapt to the hits in two further lists, of evicted pages.
//!
//! Names are the paper's: the pages in T1 and T2 are present; those in B1 and B2 are evicted but
//! remembered. As in libCacheSim, the target size of T1 is a fraction that changes by at least one
//! page, not a whole number.
//!
//! Invariant: T1 and T2 together never have more pages than the size, nor do T1 and B1. All four
//! together have at most twice the size.

use super::reach;
use super::rings::Rings;
use crate::mrc::Cache;

const T1: usize = 0;
const T2: usize = 1;
const B1: usize = 2;
const B2: usize = 3;
/// State of a page that is in no list; otherwise the state is the number of the page's list.
const NOWHERE: u8 = 4;

/// A memory under ARC. Takes 9 bytes for each page of the trace.
#[derive(Clone, Debug)]
pub struct ArcCache {
    list_of: Vec<u8>,
    lists: Rings<4>,
    size: u64,
    /// Number of pages that T1 should have: the paper's p.
    target: f64,
}

impl ArcCache {
    /// Makes a memory of `size` pages, which remembers the same number of evicted pages.
    #[must_use]
    pub fn new(size: u64) -> Self {
        Self {
            list_of: Vec::new(),
            lists: Rings::new(),
            size,
            target: 0.0,
        }
    }

    /// Returns the amount by which a hit among the evicted pages of list `hit` changes the target.
    /// `other` is the other list of evicted pages.
    fn step(&self, hit: usize, other: usize) -> f64 {
        (exact(self.lists.len(other)) / exact(self.lists.len(hit))).max(1.0)
    }

    /// Moves a page to the new end of another list.
    #[expect(clippy::cast_possible_truncation, reason = "four lists")]
    fn transfer(&mut self, from: usize, to: usize, id: u32) {
        self.lists.transfer(from, to, id);
        self.list_of[id as usize] = to as u8;
    }

    /// Removes the oldest page of a list, which is then neither present nor remembered.
    fn forget_oldest(&mut self, list: usize) {
        if let Some(id) = self.lists.oldest(list) {
            self.lists.remove(list, id);
            self.list_of[id as usize] = NOWHERE;
        }
    }

    /// The paper's REPLACE: evicts the oldest page of T1 or T2, and remembers it.
    fn replace(&mut self, hit_b2: bool) {
        let once = exact(self.lists.len(T1));
        #[expect(clippy::float_cmp, reason = "a whole number, often hit exactly")]
        let t1_exceeds_target = once > self.target || (hit_b2 && once == self.target);
        let from_t1 = (self.lists.len(T1) > 0 && t1_exceeds_target) || self.lists.len(T2) == 0;
        let (from, to) = if from_t1 { (T1, B1) } else { (T2, B2) };
        if let Some(id) = self.lists.oldest(from) {
            self.transfer(from, to, id);
        }
    }

    /// Evicts a page to make space for one that is in no list: the paper's case IV.
    fn make_room(&mut self) {
        let [t1, t2, b1, b2] = [T1, T2, B1, B2].map(|list| self.lists.len(list));
        if t1 + t2 < self.size {
            return;
        }
        if t1 + b1 >= self.size {
            // T1 alone fills the memory: its oldest page is evicted and not remembered, because T1
            // and B1 together may not exceed the size.
            if b1 == 0 {
                self.forget_oldest(T1);
                return;
            }
            self.forget_oldest(B1);
        } else if t1 + t2 + b1 + b2 >= 2 * self.size {
            self.forget_oldest(B2);
        }
        self.replace(false);
    }
}

#[expect(clippy::cast_precision_loss, reason = "pages below 2^53")]
const fn exact(pages: u64) -> f64 {
    pages as f64
}

impl Cache for ArcCache {
    #[inline]
    fn access(&mut self, id: u32) -> bool {
        reach(&mut self.list_of, id, NOWHERE);
        match usize::from(self.list_of[id as usize]) {
            // The page is referenced a second time, no matter how long after the first time.
            T1 => self.transfer(T1, T2, id),
            T2 => self.lists.promote(T2, id),
            B1 => {
                self.target = (self.target + self.step(B1, B2)).min(exact(self.size));
                // The page is still in B1 when REPLACE adds another page there. That is harmless:
                // which page is evicted does not depend on B1.
                self.replace(false);
                self.transfer(B1, T2, id);
                return false;
            }
            B2 => {
                self.target = (self.target - self.step(B2, B1)).max(0.0);
                self.replace(true);
                self.transfer(B2, T2, id);
                return false;
            }
            _ if self.size == 0 => return false,
            _ => {
                self.make_room();
                self.lists.push(T1, id);
                self.list_of[id as usize] = 0;
                return false;
            }
        }
        true
    }

    fn held(&self) -> u64 {
        self.lists.len(T1) + self.lists.len(T2)
    }
}
