//! W-TinyLFU (Einziger, Friedman and Manes, ACM TOS 2017): new pages pass an LRU window of 1%; what
//! falls out of it enters the main memory only if it was counted more often than the page that it would
//! displace. The main memory is an SLRU: 20% on probation, 80% protected.
//!
//! As libCacheSim has it, and not the paper: counted are a page's arrival, its leaving the window, and
//! its hits in the main memory, not those in the window; counts are halved after as many hits in the
//! main memory as 32 times its size; before anything has to leave, all pages are in the window. The
//! halves of the main memory are rounded down, so one page over may be on probation.
//!
//! Invariant: window and main memory together never hold more than the size.

use super::rings::Rings;
use super::sketch::{Probe, Sketch};
use super::{part, reach};
use crate::mrc::Cache;

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;
/// In no list. Else a page's place is its list.
const NOWHERE: u8 = 3;
/// Hits between two halvings, for each page of the main memory.
const SAMPLE: u64 = 32;

/// A W-TinyLFU memory. 17 bytes a page of the trace, and 58 a page of the size.
#[derive(Clone, Debug)]
pub struct WTinyLfu {
    place: Vec<u8>,
    lists: Rings<3>,
    probes: Vec<Probe>,
    sketch: Sketch,
    /// Hits in the main memory since counts were halved.
    hits: u64,
    size: u64,
    main: u64,
    probation: u64,
    protected: u64,
}

impl WTinyLfu {
    /// Holds up to `size` pages.
    #[must_use]
    pub fn new(size: u64) -> Self {
        let main = size - part(size, 0.01).max(1).min(size);
        Self {
            place: Vec::new(),
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

    /// Pages in the main memory.
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
        self.place[id as usize] = to as u8;
    }

    /// A page of a list is not present any more.
    fn drop_from(&mut self, list: usize, id: u32) {
        self.lists.remove(list, id);
        self.place[id as usize] = NOWHERE;
    }

    /// A hit on probation protects; who is protected the longest without one is on probation again.
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

    /// A hit in the main memory was counted.
    fn age(&mut self) {
        self.hits += 1;
        if self.hits >= SAMPLE * self.main {
            self.hits = 0;
            self.sketch.halve();
        }
    }

    /// The page of the main memory that is next to leave, and its list.
    fn last_in_main(&self) -> Option<(usize, u32)> {
        let oldest = |list| self.lists.oldest(list).map(|id| (list, id));
        oldest(PROBATION).or_else(|| oldest(PROTECTED))
    }

    /// The last page of the main memory leaves it, if it has any.
    fn leave_main(&mut self) {
        if let Some((list, id)) = self.last_in_main() {
            self.drop_from(list, id);
        }
    }

    /// A page of the window enters the main memory, where there is room.
    fn enter_main(&mut self, id: u32) {
        let free = self.lists.len(PROBATION) >= self.probation
            && self.lists.len(PROTECTED) < self.protected;
        self.transfer(WINDOW, if free { PROTECTED } else { PROBATION }, id);
    }

    /// One page leaves. While the main memory has room, pages of the window go there.
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
        // The window's hits say that a page is recent, not that it is frequent.
        if list != WINDOW {
            self.count(id);
            self.age();
        }
    }

    /// Pages that nobody introduced have their ids as numbers.
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
        reach(&mut self.place, id, NOWHERE);
        let place = self.place[id as usize];
        if place != NOWHERE {
            self.hit(id, usize::from(place));
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
        self.place[id as usize] = 0;
        self.count(id);
        false
    }

    fn held(&self) -> u64 {
        self.lists.len(WINDOW) + self.in_main()
    }
}
