//! W-TinyLFU (Einziger, Friedman and Manes, ACM TOS 2017): new pages enter an LRU window of 1% of
//! the memory. A page that leaves the window enters the main memory only if it was counted more
//! often than the page that it would replace. The main memory is an SLRU (segmented LRU): 20% on
//! probation, 80% protected.
//!
//! As in libCacheSim, and unlike the paper: a page is counted when it arrives, when it leaves the
//! window, and at hits in the main memory, but not at hits in the window. Counts are halved after
//! 32 hits in the main memory per page of it. Until the first eviction, all pages are in the
//! window. The parts of the main memory are rounded down, so one page more may be on probation.
//!
//! Invariant: window and main memory together never have more pages than the size.

use super::rings::Rings;
use super::sketch::{Probe, Sketch};
use super::{part, reach};
use crate::mrc::Cache;

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;
/// State of a page that is in no list; otherwise the state is the number of the page's list.
const NOWHERE: u8 = 3;
/// Number of hits in the main memory, per page of it, between two halvings of the counts.
const SAMPLE: u64 = 32;

/// A memory under W-TinyLFU. Takes 17 bytes for each page of the trace, and 58 for each page of its
/// size.
#[derive(Clone, Debug)]
pub struct WTinyLfu {
    list_of: Vec<u8>,
    lists: Rings<3>,
    probes: Vec<Probe>,
    sketch: Sketch,
    /// Number of hits in the main memory since the counts were last halved.
    hits: u64,
    size: u64,
    main: u64,
    probation: u64,
    protected: u64,
}

impl WTinyLfu {
    /// Makes a memory of `size` pages.
    #[must_use]
    pub fn new(size: u64) -> Self {
        let main = size - part(size, 0.01).max(1).min(size);
        Self {
            list_of: Vec::new(),
            lists: Rings::new(),
            probes: Vec::new(),
            sketch: Sketch::new(main),
            hits: 0,
            size,
            main,
            probation: part(main, 1.0 / 5.0).max(1),
            protected: part(main, 4.0 / 5.0),
        }
    }

    /// Returns the number of pages in the main memory.
    const fn in_main(&self) -> u64 {
        self.lists.len(PROBATION) + self.lists.len(PROTECTED)
    }

    fn count(&mut self, id: u32) {
        self.sketch.add(self.probes[id as usize]);
    }

    fn estimate(&self, id: u32) -> u32 {
        self.sketch.estimate(self.probes[id as usize])
    }

    #[expect(clippy::cast_possible_truncation, reason = "three lists")]
    fn transfer(&mut self, from: usize, to: usize, id: u32) {
        self.lists.transfer(from, to, id);
        self.list_of[id as usize] = to as u8;
    }

    /// Removes a page from a list; it is no longer present.
    fn drop_from(&mut self, list: usize, id: u32) {
        self.lists.remove(list, id);
        self.list_of[id as usize] = NOWHERE;
    }

    /// Protects a page that was hit on probation. If too many pages are protected, the one that had
    /// no hit for the longest time returns to probation.
    fn protect(&mut self, id: u32) {
        self.transfer(PROBATION, PROTECTED, id);
        while self.lists.len(PROTECTED) > self.protected
            && let Some(oldest) = self.lists.oldest(PROTECTED)
        {
            self.transfer(PROTECTED, PROBATION, oldest);
            while self.lists.len(PROBATION) > self.probation {
                self.leave_main();
            }
        }
    }

    /// Records a hit in the main memory, and halves the counts after enough hits ([`SAMPLE`]).
    fn age(&mut self) {
        self.hits += 1;
        if self.hits >= SAMPLE * self.main {
            self.hits = 0;
            self.sketch.halve();
        }
    }

    /// Returns the page of the main memory that would be evicted next, with its list; `None` if
    /// there is none.
    fn last_in_main(&self) -> Option<(usize, u32)> {
        let oldest = |list| self.lists.oldest(list).map(|id| (list, id));
        oldest(PROBATION).or_else(|| oldest(PROTECTED))
    }

    /// Evicts the page that [`Self::last_in_main`] returns, if there is one.
    fn leave_main(&mut self) {
        if let Some((list, id)) = self.last_in_main() {
            self.drop_from(list, id);
        }
    }

    /// Moves a page from the window to the main memory, which has space for it.
    fn enter_main(&mut self, id: u32) {
        let free = self.lists.len(PROBATION) >= self.probation
            && self.lists.len(PROTECTED) < self.protected;
        self.transfer(WINDOW, if free { PROTECTED } else { PROBATION }, id);
    }

    /// Evicts one page. As long as the main memory has space, moves pages of the window there.
    fn evict(&mut self) {
        while let Some(id) = self.lists.oldest(WINDOW) {
            let has_room = self.in_main() < self.main;
            if has_room {
                self.enter_main(id);
            } else if let Some((list, last)) = self.last_in_main()
                && self.estimate(id) > self.estimate(last)
            {
                self.drop_from(list, last);
                self.enter_main(id);
            } else {
                self.drop_from(WINDOW, id);
            }
            self.count(id);
            if !has_room {
                return;
            }
        }
        self.leave_main();
    }

    fn hit(&mut self, id: u32, list: usize) {
        if list == PROBATION {
            self.protect(id);
        } else {
            self.lists.promote(list, id);
        }
        // A hit in the window shows that a page is recent, not that it is frequent.
        if list != WINDOW {
            self.count(id);
            self.age();
        }
    }

    /// Uses the ids as page numbers of the pages up to `id` that were not introduced.
    #[cold]
    fn introduce_up_to(&mut self, id: u32) {
        let known = u32::try_from(self.probes.len()).unwrap_or(u32::MAX);
        let new = (known..=id).map(|id| Probe::new(u64::from(id)));
        self.probes.extend(new);
    }
}

impl Cache for WTinyLfu {
    fn introduce(&mut self, pages: &[u64]) {
        let new = pages.iter().map(|&page| Probe::new(page));
        self.probes.extend(new);
    }

    #[inline]
    fn access(&mut self, id: u32) -> bool {
        reach(&mut self.list_of, id, NOWHERE);
        let list_of = self.list_of[id as usize];
        if list_of != NOWHERE {
            self.hit(id, usize::from(list_of));
            return true;
        }
        if self.size == 0 {
            return false;
        }
        if id as usize >= self.probes.len() {
            self.introduce_up_to(id);
        }
        while self.held() >= self.size {
            self.evict();
        }
        self.lists.push(WINDOW, id);
        self.list_of[id as usize] = 0;
        self.count(id);
        false
    }

    fn held(&self) -> u64 {
        self.lists.len(WINDOW) + self.in_main()
    }
}
