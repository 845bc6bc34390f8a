//! Keeps when each swapped-out page was last used, as far as scans know.
//!
//! The age table has a record for each frame, and a swapped-out page has no frame. Without this
//! module a refault would have no age, and what a policy learns would depend on which pages it had
//! paged out.
//!
//! Invariant: a page is never recorded as older than it is. Times are rounded up. For a page taken
//! by kernel reclaim, the time is that of the scan that found the page missing. Each id in this
//! module is of a page that was paged out and not unmapped since; the engine has a shadow entry for
//! it.

use engine::memcg::MemcgId;
use engine::policy::AgeHistogram;
use engine::{FolioId, Millis, Pages};

/// Number of pages in a chunk; the times of a chunk are stored together.
const CHUNK_PAGES: u32 = 512;
const CHUNK: usize = CHUNK_PAGES as usize;
/// Times are stored in units of `1 << STEP_BITS` ms (64 ms), called steps; 31 bits last for four
/// years.
const STEP_BITS: u32 = 6;

/// Bit of a stored time: writeback of the page was requested. It is not requested again while the
/// page is swapped out.
const REQUESTED: u32 = 1 << 31;

/// For each page of the chunk: when it was last used, in steps of 64 ms, counted from 1. 0 for a
/// page that is not swapped out.
#[derive(Debug)]
struct Chunk {
    last: [u32; CHUNK],
    /// Number of pages in the chunk that are swapped out.
    pages: usize,
}

/// Times of last use of all tenants' swapped-out pages: 4 bytes a page, for chunks that have any.
#[derive(Debug, Default)]
pub(super) struct SwappedOutAges {
    tenants: Vec<Vec<Option<Box<Chunk>>>>,
}

/// Converts milliseconds to a stored step, rounded up. Steps begin at 1, because 0 stands for no
/// time.
const fn step_of(ms: u64) -> u32 {
    let step = ms.div_ceil(1 << STEP_BITS) + 1;
    if step >= REQUESTED as u64 {
        REQUESTED - 1
    } else {
        (step & 0xffff_ffff) as u32
    }
}

/// Converts a stored step to milliseconds.
const fn ms_of(step: u32) -> u64 {
    ((step & !REQUESTED) as u64 - 1) << STEP_BITS
}

/// Returns the number of the chunk of a page, then the page's position in the chunk.
const fn place(id: FolioId) -> (usize, usize) {
    (id.0 as usize / CHUNK, id.0 as usize % CHUNK)
}

impl SwappedOutAges {
    /// Records that a page was swapped out; `last_ms` is when it was last used, in milliseconds of
    /// the age table.
    pub(super) fn note(&mut self, memcg: MemcgId, id: FolioId, last_ms: u64) {
        self.put(memcg, id, step_of(last_ms));
    }

    /// Stores the step `last` for a page.
    fn put(&mut self, memcg: MemcgId, id: FolioId, last: u32) {
        let (chunk, at) = place(id);
        if self.tenants.len() <= memcg.index() {
            self.tenants.resize_with(memcg.index() + 1, Vec::new);
        }
        let chunks = &mut self.tenants[memcg.index()];
        if chunks.len() <= chunk {
            chunks.resize_with(chunk + 1, || None);
        }
        let fresh = || {
            Box::new(Chunk {
                last: [0; CHUNK],
                pages: 0,
            })
        };
        let chunk = chunks[chunk].get_or_insert_with(fresh);
        chunk.pages += usize::from(chunk.last[at] == 0);
        chunk.last[at] = last;
    }

    /// Returns where the chunk of a page is stored; `None` if no chunk with as high a number was
    /// stored yet.
    fn chunk(&mut self, memcg: MemcgId, id: FolioId) -> Option<&mut Option<Box<Chunk>>> {
        let (chunk, _) = place(id);
        self.tenants.get_mut(memcg.index())?.get_mut(chunk)
    }

    /// Removes a page that is back in memory. Returns when it was last used before, in milliseconds
    /// of the age table; `None` if the page was not recorded.
    pub(super) fn take(&mut self, memcg: MemcgId, id: FolioId) -> Option<u64> {
        let (_, at) = place(id);
        let slot = self.chunk(memcg, id)?;
        let chunk = slot.as_mut()?;
        let last = std::mem::take(&mut chunk.last[at]);
        if last == 0 {
            return None;
        }
        chunk.pages -= 1;
        if chunk.pages == 0 {
            *slot = None;
        }
        Some(ms_of(last))
    }

    /// Moves the time of a page to the page's new id.
    pub(super) fn rename(&mut self, memcg: MemcgId, from: FolioId, to: FolioId) {
        let (_, at) = place(from);
        let chunk = self.chunk(memcg, from).and_then(Option::as_mut);
        let last = chunk.map_or(0, |chunk| chunk.last[at]);
        if self.take(memcg, from).is_some() {
            self.put(memcg, to, last);
        }
    }

    /// Forgets `pages` pages, from id `first` on.
    pub(super) fn forget(&mut self, memcg: MemcgId, first: FolioId, pages: u32) {
        let (mut id, end) = (first.0, first.0 + pages);
        while id < end {
            let next = end.min((id / CHUNK_PAGES + 1) * CHUNK_PAGES);
            // A chunk without swapped-out pages is skipped at once.
            if self
                .chunk(memcg, FolioId(id))
                .is_some_and(|chunk| chunk.is_some())
            {
                for id in id..next {
                    self.take(memcg, FolioId(id));
                }
            }
            id = next;
        }
    }

    /// Forgets all pages of a tenant that was removed.
    pub(super) fn drop_tenant(&mut self, memcg: MemcgId) {
        if let Some(chunks) = self.tenants.get_mut(memcg.index()) {
            *chunks = Vec::new();
        }
    }

    /// Returns those swapped-out pages of a tenant for which no writeback was requested: the id,
    /// then the time of last use.
    pub(super) fn not_requested(
        &self,
        memcg: MemcgId,
    ) -> impl Iterator<Item = (FolioId, Millis)> + use<'_> {
        let chunks = self.tenants.get(memcg.index()).into_iter().flatten();
        let pages = (0_u32..).zip(chunks).flat_map(|(number, chunk)| {
            let pages = chunk.iter().flat_map(|chunk| chunk.last);
            (number * CHUNK_PAGES..).map(FolioId).zip(pages)
        });
        pages
            .filter(|(_, last)| *last > 0 && last & REQUESTED == 0)
            .map(|(id, last)| (id, Millis(ms_of(last))))
    }

    /// Records that writeback of a page was requested.
    pub(super) fn note_requested(&mut self, memcg: MemcgId, id: FolioId) {
        let (_, at) = place(id);
        let chunk = self.chunk(memcg, id).and_then(Option::as_mut);
        let last = chunk.map(|chunk| &mut chunk.last[at]);
        if let Some(last) = last.filter(|last| **last > 0) {
            *last |= REQUESTED;
        }
    }

    /// Returns the ages of a tenant's swapped-out pages.
    pub(super) fn ages(&self, memcg: MemcgId, now: Millis) -> AgeHistogram {
        let mut ages = AgeHistogram::new();
        let chunks = self.tenants.get(memcg.index()).into_iter().flatten();
        let pages = chunks.flatten().flat_map(|chunk| chunk.last);
        for last in pages.filter(|last| *last > 0) {
            ages.add(now.since(Millis(ms_of(last))), Pages(1));
        }
        ages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: MemcgId = MemcgId::FIRST;

    #[test]
    fn the_age_of_a_swapped_out_page_is_returned_once() {
        let mut out = SwappedOutAges::default();
        assert_eq!(out.take(ONE, FolioId(7)), None);
        out.note(ONE, FolioId(7), 64_000);
        out.note(ONE, FolioId(2000), 1);
        // The page was used again and swapped out again: the later time counts.
        out.note(ONE, FolioId(7), 128_000);
        assert_eq!(out.ages(ONE, Millis(200_000)).total(), Pages(2));
        assert_eq!(
            out.ages(ONE, Millis(200_000)).at_least(Millis(100_000)),
            Pages(1)
        );
        assert_eq!(out.take(ONE, FolioId(7)), Some(128_000));
        assert_eq!(out.take(ONE, FolioId(7)), None);
        // A page is never recorded as older than it is.
        assert_eq!(out.take(ONE, FolioId(2000)), Some(64));
        assert!(out.tenants[ONE.index()].iter().all(Option::is_none));
    }

    #[test]
    fn writeback_is_requested_once_while_a_page_is_swapped_out() {
        let mut out = SwappedOutAges::default();
        for (id, last) in [(3, 640), (700, 64), (5, 1280)] {
            out.note(ONE, FolioId(id), last);
        }
        let of = |out: &SwappedOutAges| -> Vec<(u32, u64)> {
            let pages = out.not_requested(ONE);
            pages.map(|(id, last)| (id.0, last.0)).collect()
        };
        assert_eq!(of(&out), [(3, 640), (5, 1280), (700, 64)]);
        out.note_requested(ONE, FolioId(700));
        out.note_requested(ONE, FolioId(4));
        assert_eq!(of(&out), [(3, 640), (5, 1280)]);
        // The page's age is unchanged, and the page is counted as before.
        assert_eq!(out.ages(ONE, Millis(10_000)).total(), Pages(3));
        assert_eq!(out.take(ONE, FolioId(700)), Some(64));
        assert_eq!(out.take(ONE, FolioId(4)), None);
        out.note(ONE, FolioId(700), 6400);
        assert_eq!(of(&out), [(3, 640), (5, 1280), (700, 6400)]);
    }

    #[test]
    fn a_renamed_page_keeps_its_age_and_its_writeback_request() {
        let mut out = SwappedOutAges::default();
        out.note(ONE, FolioId(3), 640);
        out.note(ONE, FolioId(4), 1280);
        out.note_requested(ONE, FolioId(4));
        for id in 3..6 {
            out.rename(ONE, FolioId(id), FolioId(id + 1000));
        }
        assert_eq!(
            out.not_requested(ONE).collect::<Vec<_>>(),
            [(FolioId(1003), Millis(640))]
        );
        assert_eq!(out.take(ONE, FolioId(1004)), Some(1280));
        assert_eq!(
            (out.take(ONE, FolioId(3)), out.take(ONE, FolioId(1005))),
            (None, None)
        );
    }

    #[test]
    fn removed_pages_are_forgotten() {
        let mut out = SwappedOutAges::default();
        for id in [0, 511, 512, 1024] {
            out.note(ONE, FolioId(id), 640);
        }
        out.forget(ONE, FolioId(0), 512);
        assert_eq!(out.take(ONE, FolioId(511)), None);
        assert_eq!(out.take(ONE, FolioId(512)), Some(640));
        out.forget(MemcgId::ROOT, FolioId(0), 512);
        out.drop_tenant(ONE);
        assert_eq!(out.take(ONE, FolioId(1024)), None);
    }

    #[test]
    fn times_are_rounded_up() {
        for ms in [0, 1, 63, 64, 65, 1 << 36] {
            let reported = ms_of(step_of(ms));
            assert!(reported >= ms && reported - ms < 64, "{ms} {reported}");
        }
        assert_eq!(step_of(u64::MAX), REQUESTED - 1);
    }
}
