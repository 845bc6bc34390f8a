//! Putting pages out: from limbo to the store, in batches.
//!
//! Order, for each batch: mark `Writeback`; copy out of limbo; compress and write; commit
//! `Stored` (with the limbo copy still there); have the keeper drop the limbo copies. A touch at
//! any point cancels: the compare-and-swap of the commit fails and the slot is given back.
//! Invariant: a word says `Stored` only after the store holds the bytes.

use super::Target;
use super::link::Lost;
use crate::store::{Page, StoreFull, Temperature};
use engine::PageOut;
use keeper::layout::{CHUNK_PAGES, Op};
use keeper::protocol;
use keeper::word::{PAGE_SIZE, State, Word};
use std::sync::atomic::Ordering;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(10);
/// Pages of a batch: they are copied, compressed and dropped together.
pub(crate) const BATCH: usize = 512;

/// What became of a batch.
pub(crate) struct Outcome {
    /// One entry a page, in order.
    pub(crate) pages: Vec<PageOut>,
    /// Pages (among the busy) that found no room in the store.
    pub(crate) full: u64,
}

/// Buffers that are reused from batch to batch.
#[derive(Default)]
pub(crate) struct Buffers {
    pages: Vec<Page>,
    ranges: Vec<(u64, u64)>,
}

/// A page by chunk and index, as one number: chunk * 512 + index.
pub(crate) type PageId = u32;

fn split(id: PageId) -> (usize, usize) {
    (id as usize / CHUNK_PAGES, id as usize % CHUNK_PAGES)
}

impl Target {
    /// Address of a page in the target.
    pub(crate) fn addr_of(&self, id: PageId) -> u64 {
        let (c, i) = split(id);
        self.link.chunk_addr(c).wrapping_add((i * PAGE_SIZE) as u64)
    }

    pub(crate) fn state_of(&self, id: PageId) -> Word {
        let (c, i) = split(id);
        self.link.state(c, i)
    }

    /// Joins neighbouring pages of a sorted list to ranges of the target's addresses.
    fn ranges_of(&self, ids: impl Iterator<Item = PageId>, out: &mut Vec<(u64, u64)>) {
        out.clear();
        for id in ids {
            let addr = self.addr_of(id);
            match out.last_mut() {
                Some((_, end)) if *end == addr => *end += PAGE_SIZE as u64,
                _ => out.push((addr, addr + PAGE_SIZE as u64)),
            }
        }
    }

    /// Puts out a batch of pages, sorted by id; one outcome a page in the same order.
    pub(crate) fn page_out(&mut self, ids: &[PageId], hint: Temperature) -> Result<Outcome, Lost> {
        debug_assert!(ids.is_sorted() && ids.len() <= BATCH);
        let mut outcome = self.set_aside(ids)?;
        let mut buffers = std::mem::take(&mut self.buffers);
        let held = self.begin_writeback(ids, &outcome);
        let full = if self.copy_out(&held, &mut buffers) {
            self.write_and_commit(ids, &held, hint, &buffers, &mut outcome)
        } else {
            self.cancel(ids, &held, &mut outcome);
            0
        };
        let stored = ids
            .iter()
            .zip(&outcome)
            .filter(|(_, o)| **o == PageOut::Stored);
        self.ranges_of(stored.map(|(id, _)| *id), &mut buffers.ranges);
        let dropped = self.link.command(Op::Drop, &buffers.ranges, LIMIT);
        self.buffers = buffers;
        dropped.map(|_| Outcome {
            pages: outcome,
            full,
        })
    }

    /// Moves what is mapped to limbo; afterwards `Stored` in the outcome means "may be stored".
    fn set_aside(&mut self, ids: &[PageId]) -> Result<Vec<PageOut>, Lost> {
        let mut outcome = Vec::with_capacity(ids.len());
        let mut mapped = Vec::new();
        for &id in ids {
            let word = self.state_of(id);
            outcome.push(match word.state() {
                State::Limbo => PageOut::Stored,
                State::Mapped if word.young() => {
                    mapped.push(id);
                    PageOut::Referenced
                }
                State::Mapped | State::None => {
                    mapped.push(id);
                    PageOut::Stored
                }
                State::Writeback => PageOut::Busy,
                State::Stored => PageOut::Gone,
            });
        }
        if mapped.is_empty() {
            return Ok(outcome);
        }
        let mut ranges = Vec::new();
        self.ranges_of(mapped.iter().copied(), &mut ranges);
        self.move_out(&ranges)?;
        for (o, &id) in outcome.iter_mut().zip(ids) {
            if *o == PageOut::Stored && self.state_of(id).state() != State::Limbo {
                *o = PageOut::Busy;
            }
        }
        Ok(outcome)
    }

    /// Marks the pages that may be stored `Writeback`: indexes into `ids` of those that were.
    fn begin_writeback(&self, ids: &[PageId], outcome: &[PageOut]) -> Vec<Held> {
        let mut held = Vec::with_capacity(ids.len());
        for (index, (&id, o)) in ids.iter().zip(outcome).enumerate() {
            if *o != PageOut::Stored {
                continue;
            }
            let (c, i) = split(id);
            let word = self.link.word(c, i);
            let begin = |old: u64| protocol::begin_writeback(Word(old)).map(|new| new.0);
            let ok = word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, begin);
            let ok = ok.is_ok();
            held.push(Held {
                index,
                limbo: self.link.limbo_addr(c, i),
                ok,
            });
        }
        held
    }

    /// Copies the held pages out of limbo; false if any byte could not be had.
    fn copy_out(&self, held: &[Held], buffers: &mut Buffers) -> bool {
        let taken: Vec<&Held> = held.iter().filter(|h| h.ok).collect();
        buffers.pages.resize(taken.len(), [0; PAGE_SIZE]);
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for h in &taken {
            match ranges.last_mut() {
                Some((start, len)) if *start + *len == h.limbo => *len += PAGE_SIZE as u64,
                _ => ranges.push((h.limbo, PAGE_SIZE as u64)),
            }
        }
        let bytes = buffers.pages.as_flattened_mut();
        let mut done = 0;
        // A call takes at most 1024 ranges (IOV_MAX); a batch has 512 pages.
        if !ranges.is_empty() {
            match uffd::vm::read_ranges(self.pid, &ranges, bytes) {
                Ok(n) => done = n,
                Err(_) => done = 0,
            }
        }
        done == taken.len() * PAGE_SIZE
    }

    fn write_and_commit(
        &mut self,
        ids: &[PageId],
        held: &[Held],
        hint: Temperature,
        buffers: &Buffers,
        outcome: &mut [PageOut],
    ) -> u64 {
        let mut full = 0;
        let mut places = Vec::with_capacity(buffers.pages.len());
        for part in buffers.pages.chunks(32) {
            self.store.put_batch(part, hint, &mut places);
        }
        let mut places = places.into_iter();
        for h in held {
            if !h.ok {
                outcome[h.index] = PageOut::Referenced;
                continue;
            }
            let place = places.next().unwrap_or(Err(StoreFull::Limit));
            let (c, i) = split(ids[h.index]);
            let word = self.link.word(c, i);
            let (new, done) = match place {
                Ok(place) => (protocol::committed(place), PageOut::Stored),
                Err(_) => (Word::LIMBO, PageOut::Busy),
            };
            full += u64::from(place.is_err());
            let old = Word::WRITEBACK.0;
            let won = word.compare_exchange(old, new.0, Ordering::AcqRel, Ordering::Acquire);
            outcome[h.index] = if won.is_ok() {
                done
            } else {
                PageOut::Referenced
            };
            if let (Err(_), Ok(place)) = (won, place) {
                self.store.free(place);
            }
        }
        full
    }

    /// Nothing was copied: the pages go back to being in limbo.
    fn cancel(&self, ids: &[PageId], held: &[Held], outcome: &mut [PageOut]) {
        for h in held {
            outcome[h.index] = PageOut::Referenced;
            if h.ok {
                let (c, i) = split(ids[h.index]);
                // Lost to a fault: then it is mapped, which is as good.
                let _ = self.cancel_writeback(c, i);
            }
        }
    }

    /// Takes a page that is marked `Writeback` back to limbo; whether it was.
    pub(super) fn cancel_writeback(&self, c: usize, i: usize) -> bool {
        let cancel = |old: u64| protocol::cancel_writeback(Word(old)).map(|new| new.0);
        let word = self.link.word(c, i);
        word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, cancel)
            .is_ok()
    }

    /// Moves ranges to limbo; where pages are not exclusive after a fork and no child needs them
    /// any more, makes them so and tries again.
    pub(crate) fn move_out(&mut self, ranges: &[(u64, u64)]) -> Result<u64, Lost> {
        let outcomes = self.link.command(Op::MoveOut, ranges, LIMIT)?;
        let mut moved = outcomes.iter().map(|o| o.pages).sum();
        let busy: Vec<(u64, u64)> = ranges
            .iter()
            .zip(&outcomes)
            .filter(|(_, o)| o.stayed > 0)
            .map(|(r, _)| *r)
            .collect();
        if busy.is_empty() {
            return Ok(moved);
        }
        if self.link.get(keeper::layout::ctl::CHILDREN) == 0 {
            for &(start, end) in &busy {
                self.unshare(start & !1, end);
            }
            let again = self.link.command(Op::MoveOut, &busy, LIMIT)?;
            moved += again.iter().map(|o| o.pages).sum::<u64>();
            self.counters.busy_pages = again.iter().map(|o| o.stayed.max(0).unsigned_abs()).sum();
        } else {
            self.counters.shared_pages = outcomes
                .iter()
                .map(|o| o.stayed.max(0).unsigned_abs())
                .sum();
        }
        Ok(moved)
    }

    /// Makes the present pages of a range exclusive again.
    fn unshare(&mut self, start: u64, end: u64) {
        let mut runs = Vec::new();
        // A failed scan finds nothing to do.
        let _ = self
            .pagemap
            .scan(start, end, super::walk::MAPPED, |s, e, _| runs.push((s, e)));
        for (s, e) in runs {
            uffd::vm::unshare(self.pid, s, e - s);
        }
    }
}

/// A page on its way out: its index in the batch and where limbo has it.
struct Held {
    index: usize,
    limbo: u64,
    ok: bool,
}
