//! Aging: one pass over the mapped pages of a target.
//!
//! A page found mapped was touched since the pass before (else it would still be in limbo), so
//! *mapped is the accessed bit*, and moving it aside clears it.

use super::Target;
use super::aside::Aside;
use super::blocks::{BLOCK_PAGES, CHUNK_BLOCKS, Seen};
use super::link::Lost;
use super::page_out::PageId;
use engine::Millis;
use keeper::layout::{CHUNK, CHUNK_PAGES, Op};
use keeper::word::{PAGE_SIZE, State};
use std::time::Duration;
use uffd::abi::page_is;
use uffd::pagemap::Query;

/// Pages with bytes of their own.
pub(crate) const MAPPED: Query = Query {
    mask: page_is::PRESENT | page_is::PFNZERO,
    inverted: page_is::PFNZERO,
    report: 0,
};
const LIMIT: Duration = Duration::from_secs(30);
pub(super) const PAGE: u64 = PAGE_SIZE as u64;
const BLOCK: u64 = BLOCK_PAGES as u64 * PAGE;

impl Target {
    /// Runs of mapped, managed pages, none across a chunk or a pinned part.
    fn mapped_runs(&mut self) -> Vec<(u64, u64)> {
        let mut runs = Vec::new();
        for m in self.regions.managed() {
            // Unmapped meanwhile: then there is nothing.
            let _ = self.pagemap.scan(m.start, m.end, MAPPED, |start, end, _| {
                let mut at = start;
                while at < end {
                    let stop = ((at / CHUNK + 1) * CHUNK).min(end);
                    without_pinned(at, stop, &m.pinned, &mut runs);
                    at = stop;
                }
            });
        }
        runs
    }

    /// Finds pages the engine does not know yet; they start as touched now.
    pub(crate) fn discover(&mut self) -> Result<Vec<(u64, u64)>, Lost> {
        let runs = self.mapped_runs();
        let missing: Vec<(u64, u64)> = runs
            .iter()
            .copied()
            .filter(|r| self.link.chunk_of(r.0).is_none())
            .collect();
        if !missing.is_empty() {
            self.link.command(Op::Claim, &missing, LIMIT)?;
        }
        for &(start, end) in &runs {
            if let Some(first) = self.id_of(start) {
                let n = u32::try_from((end - start) / PAGE).unwrap_or(0);
                for id in first..first + n {
                    if !self.lru.known(id) {
                        self.lru.first_touch(id);
                    }
                }
            }
        }
        Ok(runs)
    }

    /// The id of the page at `addr`, if its chunk has one.
    pub(crate) fn id_of(&self, addr: u64) -> Option<PageId> {
        let c = self.link.chunk_of(addr)?;
        let i = usize::try_from(addr % CHUNK / PAGE).ok()?;
        u32::try_from(c * CHUNK_PAGES + i).ok()
    }

    /// One aging pass: tells the engine which pages were touched, makes a generation, and moves
    /// what is to be watched aside to see what comes back. Pages moved.
    pub(crate) fn age(&mut self, now: Millis, aside: Aside) -> Result<u64, Lost> {
        self.read_log();
        let runs = self.discover()?;
        let pass = self.counters.aging_passes + 1;
        let newcomers = self.newcomers.take(aside);
        if aside == Aside::Suspect {
            self.steady.next_pass();
        }
        let mut groups: Vec<(u64, u64)> = Vec::with_capacity(runs.len());
        for runs in runs.chunk_by(|a, b| a.0 / CHUNK == b.0 / CHUNK) {
            let Some(first) = self.id_of(runs[0].0) else {
                continue;
            };
            let chunk = first as usize / CHUNK_PAGES;
            let watch = match aside {
                Aside::Nothing => false,
                Aside::New => self.blocks.is_new(chunk, pass),
                Aside::Most => !self.blocks.spare(chunk),
                Aside::Suspect | Aside::All => true,
            };
            let seen = self.see_chunk(chunk, runs);
            // Only a pass that moves it aside judges a block: the pages that came back would be
            // counted twice, the second time as if each had been watched by itself.
            if watch {
                let from = groups.len();
                self.watch(pass, chunk, (runs, &seen, &newcomers), &mut groups);
                if aside == Aside::Suspect {
                    self.spare_steady(chunk, &mut groups, from);
                }
            }
        }
        self.lru.age(now);
        self.counters.aging_passes = pass;
        self.move_out(&groups)
    }

    /// Takes out of a chunk's runs, from the `from`th on, what proved hot before.
    fn spare_steady(&mut self, chunk: usize, runs: &mut Vec<(u64, u64)>, from: usize) {
        let id_of = |at: u64| id_in(chunk, at);
        let mut steady = std::mem::take(&mut self.steady);
        let all_hot = |at| self.blocks.rests((chunk, block_of(at)));
        let proven = |id| self.state_of(id).young();
        steady.thin(runs, from, id_of, proven, all_hot);
        self.steady = steady;
    }

    /// Takes in which pages of a chunk were touched, and which of those that are watched by
    /// themselves were not: they are still in limbo.
    fn see_chunk(&mut self, chunk: usize, runs: &[(u64, u64)]) -> ChunkSeen {
        let mut all = ChunkSeen::default();
        let id_of = |at: u64| id_in(chunk, at);
        for &(start, end) in runs {
            for (at, stop) in parts(start, end) {
                let alone = self.alone((chunk, block_of(at)), at);
                let seen = &mut all[block_of(at)];
                for at in (at..stop).step_by(PAGE_SIZE) {
                    let word = self.state_of(id_of(at));
                    let proven = word.young();
                    if proven || word.state() == State::None {
                        self.lru.young(id_of(at));
                    }
                    seen.mapped += 1;
                    seen.young += usize::from(proven);
                    seen.exact_young += usize::from(proven && at < alone);
                }
            }
        }
        let base = runs[0].0 / CHUNK * CHUNK;
        for (block, seen) in all.iter_mut().enumerate().filter(|(_, s)| s.mapped > 0) {
            let start = base + block as u64 * BLOCK;
            let exact = (start..self.alone((chunk, block), start)).step_by(PAGE_SIZE);
            let aside = exact.filter(|at| self.state_of(id_of(*at)).in_limbo());
            seen.exact_aside = aside.count();
        }
        all
    }

    /// Up to where the pages of the block around `at` are watched by themselves: its first ones.
    pub(super) fn alone(&self, place: (usize, usize), at: u64) -> u64 {
        at / BLOCK * BLOCK + self.blocks.exact(place) as u64 * PAGE
    }
}

/// What is seen of each block of a chunk.
pub(super) type ChunkSeen = [Seen; CHUNK_BLOCKS];

/// The id of the page at `at`, which lies in `chunk`.
fn id_in(chunk: usize, at: u64) -> PageId {
    let page = usize::try_from(at % CHUNK / PAGE).unwrap_or(0);
    PageId::try_from(chunk * CHUNK_PAGES + page).unwrap_or(PageId::MAX)
}

/// The block that an address lies in, in its chunk.
pub(super) fn block_of(at: u64) -> usize {
    usize::try_from(at % CHUNK / BLOCK).unwrap_or(0)
}

/// A run cut at the ends of blocks.
pub(super) fn parts(start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut at = start;
    std::iter::from_fn(move || {
        let part = (at, ((at / BLOCK + 1) * BLOCK).min(end));
        at = part.1;
        (part.0 < end).then_some(part)
    })
}

/// Adds `start..end` without the parts that must stay.
fn without_pinned(start: u64, end: u64, pinned: &[(u64, u64)], out: &mut Vec<(u64, u64)>) {
    let mut at = start;
    for &(s, e) in pinned {
        if s < end && at < e {
            if at < s {
                out.push((at, s));
            }
            at = at.max(e);
        }
    }
    if at < end {
        out.push((at, end));
    }
}
