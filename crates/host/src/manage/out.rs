//! Pages that are out: when each was last used, as far as looks told.
//!
//! The books know frames, and a page that is out has none. Without this, a page that comes back would have no age, and what a
//! policy learns would depend on what it had made leave.
//!
//! Invariant: a page is no older than told: times are rounded up, and of what the kernel took by itself the time is that of
//! the look that missed it. What a page's id stands for has left and was not removed; the engine has a shadow of it.

use engine::memcg::MemcgId;
use engine::policy::AgeHistogram;
use engine::{FolioId, Millis, Pages};

/// Pages that have a place together.
const CHUNK_PAGES: u32 = 512;
const CHUNK: usize = CHUNK_PAGES as usize;
/// A time is kept in steps of so many milliseconds, as a power of two: 31 bits are four years.
const STEP_BITS: u32 = 6;

/// A page that went on to a disk, or was asked to: it is not asked again while it is out.
const ASKED: u32 = 1 << 31;

/// By page: when it was last used, in steps, from 1; 0 for a page that is not out.
#[derive(Debug)]
struct Chunk {
    last: [u32; CHUNK],
    /// How many are out.
    pages: usize,
}

/// Those of all tenants: 4 bytes a page, in chunks that have one.
#[derive(Debug, Default)]
pub(super) struct Out {
    tenants: Vec<Vec<Option<Box<Chunk>>>>,
}

const fn step_of(ms: u64) -> u32 {
    let step = ms.div_ceil(1 << STEP_BITS) + 1;
    if step >= ASKED as u64 {
        ASKED - 1
    } else {
        (step & 0xffff_ffff) as u32
    }
}

const fn ms_of(step: u32) -> u64 {
    ((step & !ASKED) as u64 - 1) << STEP_BITS
}

const fn place(id: FolioId) -> (usize, usize) {
    (id.0 as usize / CHUNK, id.0 as usize % CHUNK)
}

impl Out {
    /// A page has left that was last used then (milliseconds of the books).
    pub(super) fn note(&mut self, memcg: MemcgId, id: FolioId, last_ms: u64) {
        self.put(memcg, id, step_of(last_ms));
    }

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

    /// Where a page's time is kept, if there is room for it.
    fn chunk(&mut self, memcg: MemcgId, id: FolioId) -> Option<&mut Option<Box<Chunk>>> {
        let (chunk, _) = place(id);
        self.tenants.get_mut(memcg.index())?.get_mut(chunk)
    }

    /// It is back: when it was last used before it left; none if nobody saw it leave.
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

    /// A page is known by another id from now on.
    pub(super) fn rename(&mut self, memcg: MemcgId, from: FolioId, to: FolioId) {
        let (_, at) = place(from);
        let chunk = self.chunk(memcg, from).and_then(Option::as_mut);
        let last = chunk.map_or(0, |chunk| chunk.last[at]);
        if self.take(memcg, from).is_some() {
            self.put(memcg, to, last);
        }
    }

    /// So many pages from this one on are its tenant's no more.
    pub(super) fn forget(&mut self, memcg: MemcgId, first: FolioId, pages: u32) {
        let (mut id, end) = (first.0, first.0 + pages);
        while id < end {
            let next = end.min((id / CHUNK_PAGES + 1) * CHUNK_PAGES);
            // A chunk without any is passed at once.
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

    /// A tenant is gone.
    pub(super) fn drop_tenant(&mut self, memcg: MemcgId) {
        if let Some(chunks) = self.tenants.get_mut(memcg.index()) {
            *chunks = Vec::new();
        }
    }

    /// Pages of a tenant that were not asked to go on to a disk, with the time when each was last used.
    pub(super) fn not_asked(
        &self,
        memcg: MemcgId,
    ) -> impl Iterator<Item = (FolioId, Millis)> + use<'_> {
        let chunks = self.tenants.get(memcg.index()).into_iter().flatten();
        let pages = (0_u32..).zip(chunks).flat_map(|(number, chunk)| {
            let pages = chunk.iter().flat_map(|chunk| chunk.last);
            (number * CHUNK_PAGES..).map(FolioId).zip(pages)
        });
        pages
            .filter(|(_, last)| *last > 0 && last & ASKED == 0)
            .map(|(id, last)| (id, Millis(ms_of(last))))
    }

    /// A page was asked to go on.
    pub(super) fn note_asked(&mut self, memcg: MemcgId, id: FolioId) {
        let (_, at) = place(id);
        let chunk = self.chunk(memcg, id).and_then(Option::as_mut);
        let last = chunk.map(|chunk| &mut chunk.last[at]);
        if let Some(last) = last.filter(|last| **last > 0) {
            *last |= ASKED;
        }
    }

    /// Pages of a tenant by age.
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
    fn a_page_comes_back_with_its_age_once() {
        let mut out = Out::default();
        assert_eq!(out.take(ONE, FolioId(7)), None);
        out.note(ONE, FolioId(7), 64_000);
        out.note(ONE, FolioId(2000), 1);
        // Used again and gone again: the later time holds.
        out.note(ONE, FolioId(7), 128_000);
        assert_eq!(out.ages(ONE, Millis(200_000)).total(), Pages(2));
        assert_eq!(
            out.ages(ONE, Millis(200_000)).at_least(Millis(100_000)),
            Pages(1)
        );
        assert_eq!(out.take(ONE, FolioId(7)), Some(128_000));
        assert_eq!(out.take(ONE, FolioId(7)), None);
        // Never older than it is.
        assert_eq!(out.take(ONE, FolioId(2000)), Some(64));
        assert!(out.tenants[ONE.index()].iter().all(Option::is_none));
    }

    #[test]
    fn a_page_is_asked_to_go_on_once_while_it_is_out() {
        let mut out = Out::default();
        for (id, last) in [(3, 640), (700, 64), (5, 1280)] {
            out.note(ONE, FolioId(id), last);
        }
        let of = |out: &Out| -> Vec<(u32, u64)> {
            let pages = out.not_asked(ONE);
            pages.map(|(id, last)| (id.0, last.0)).collect()
        };
        assert_eq!(of(&out), [(3, 640), (5, 1280), (700, 64)]);
        out.note_asked(ONE, FolioId(700));
        out.note_asked(ONE, FolioId(4));
        assert_eq!(of(&out), [(3, 640), (5, 1280)]);
        // Its age is what it was, and it counts as it did.
        assert_eq!(out.ages(ONE, Millis(10_000)).total(), Pages(3));
        assert_eq!(out.take(ONE, FolioId(700)), Some(64));
        assert_eq!(out.take(ONE, FolioId(4)), None);
        out.note(ONE, FolioId(700), 6400);
        assert_eq!(of(&out), [(3, 640), (5, 1280), (700, 6400)]);
    }

    #[test]
    fn a_page_with_another_id_is_as_old_and_was_asked_as_before() {
        let mut out = Out::default();
        out.note(ONE, FolioId(3), 640);
        out.note(ONE, FolioId(4), 1280);
        out.note_asked(ONE, FolioId(4));
        for id in 3..6 {
            out.rename(ONE, FolioId(id), FolioId(id + 1000));
        }
        assert_eq!(
            out.not_asked(ONE).collect::<Vec<_>>(),
            [(FolioId(1003), Millis(640))]
        );
        assert_eq!(out.take(ONE, FolioId(1004)), Some(1280));
        assert_eq!(
            (out.take(ONE, FolioId(3)), out.take(ONE, FolioId(1005))),
            (None, None)
        );
    }

    #[test]
    fn what_its_program_removed_is_forgotten() {
        let mut out = Out::default();
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
            let told = ms_of(step_of(ms));
            assert!(told >= ms && told - ms < 64, "{ms} {told}");
        }
        assert_eq!(step_of(u64::MAX), ASKED - 1);
    }
}
