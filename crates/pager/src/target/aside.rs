//! What an aging pass moves aside, and how each part of it is watched.
//!
//! Invariant: a page that came back from the store is watched by itself in the next pass. It was cold
//! and mostly is again: in a group with its neighbours it would come back with them for ever, and what
//! a limit finds cold would have to be found elsewhere, by more passes.

use super::Target;
use super::blocks::CHUNK_BLOCKS;
use super::page_out::PageId;
use super::walk::{ChunkSeen, PAGE, block_of, parts};
use keeper::layout::{CHUNK, watch};

/// What a pass moves aside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Aside {
    /// Nothing: it only takes in what came back.
    Nothing,
    /// Chunks that are not known well yet.
    New,
    /// Everything that is mapped, but for chunks that are hot through and through, every other time.
    Most,
    /// Everything that is mapped, but for pages that proved hot before ([`super::steady`]): of a limit.
    Suspect,
    /// Everything that is mapped.
    All,
}

/// So many are remembered, 4 MiB of them.
const NEWCOMERS_MAX: usize = 1 << 20;

/// Pages that came back from the store since the last pass that moves anything aside.
#[derive(Debug, Default)]
pub(crate) struct Newcomers(Vec<PageId>);

impl Newcomers {
    pub(crate) fn note(&mut self, id: PageId) {
        if self.0.len() == NEWCOMERS_MAX {
            // Passes are rare: the oldest are known by now, or never will be.
            self.0.clear();
        }
        self.0.push(id);
    }

    /// All, sorted, for a pass that uses them.
    pub(super) fn take(&mut self, aside: Aside) -> Vec<PageId> {
        if aside == Aside::Nothing {
            return Vec::new();
        }
        let mut all = std::mem::take(&mut self.0);
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl Target {
    /// How the mapped runs of a chunk are watched next, added to the runs to be moved aside.
    pub(super) fn watch(
        &mut self,
        pass: u64,
        chunk: usize,
        (runs, seen, newcomers): (&[(u64, u64)], &ChunkSeen, &[PageId]),
        out: &mut Vec<(u64, u64)>,
    ) {
        let mapped = || (0..CHUNK_BLOCKS).filter(|block| seen[*block].mapped > 0);
        for block in mapped() {
            self.blocks.note(pass, (chunk, block), seen[block]);
        }
        let mut how = [watch::GROUPS; CHUNK_BLOCKS];
        for block in mapped() {
            how[block] = self.blocks.next_watch((chunk, block), seen[block]);
        }
        for &(start, end) in runs {
            let first = self.id_of(start).unwrap_or(PageId::MAX);
            let single = addresses(newcomers, first, (start, end));
            for (at, stop) in parts(start, end) {
                let block = block_of(at);
                let alone = self.alone((chunk, block), at).clamp(at, stop);
                add_run(out, at, alone, watch::PAGES);
                let within = single.iter().filter(|s| **s >= alone && **s < stop);
                let rest = within.fold(alone, |from, &page| {
                    add_run(out, from, page, how[block]);
                    add_run(out, page, page + PAGE, watch::PAGES);
                    page + PAGE
                });
                add_run(out, rest, stop, how[block]);
            }
        }
    }
}

/// Those of the sorted pages that lie in a run whose first page is `first`.
fn addresses(ids: &[PageId], first: PageId, (start, end): (u64, u64)) -> Vec<u64> {
    let at = |id: &PageId| start + u64::from(id - first) * PAGE;
    let from = ids.partition_point(|id| *id < first);
    ids[from..]
        .iter()
        .map(at)
        .take_while(|at| *at < end)
        .collect()
}

/// Adds a run that is watched in one way, if there is anything of it, to the ones before.
fn add_run(runs: &mut Vec<(u64, u64)>, start: u64, end: u64, how: u64) {
    match runs.last_mut() {
        _ if start >= end => {}
        Some((s, e)) if *e == start && *s % PAGE == how && !start.is_multiple_of(CHUNK) => *e = end,
        _ => runs.push((start | how, end)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_a_run_are_found_by_their_numbers() {
        let ids = [1, 510, 513, 514, 600, 1025];
        let start = 0x7000_0000_0000;
        let found = addresses(&ids, 513, (start, start + 4 * PAGE));
        assert_eq!(found, [start, start + PAGE]);
        assert!(addresses(&ids, 700, (start, start + PAGE)).is_empty());
        assert!(addresses(&[], 0, (start, start + PAGE)).is_empty());
    }

    #[test]
    fn runs_of_one_kind_are_joined_within_a_chunk() {
        let mut runs = Vec::new();
        add_run(&mut runs, 0, PAGE, watch::GROUPS);
        add_run(&mut runs, PAGE, PAGE, watch::PAGES);
        add_run(&mut runs, PAGE, 3 * PAGE, watch::GROUPS);
        add_run(&mut runs, 3 * PAGE, CHUNK, watch::PAGES);
        add_run(&mut runs, CHUNK, CHUNK + PAGE, watch::PAGES);
        let expected = [
            (watch::GROUPS, 3 * PAGE),
            ((3 * PAGE) | watch::PAGES, CHUNK),
            (CHUNK | watch::PAGES, CHUNK + PAGE),
        ];
        assert_eq!(runs, expected);
    }

    #[test]
    fn newcomers_are_taken_once_and_by_a_pass_that_moves() {
        let mut newcomers = Newcomers::default();
        [7, 3, 7].into_iter().for_each(|id| newcomers.note(id));
        assert!(newcomers.take(Aside::Nothing).is_empty());
        assert_eq!(newcomers.take(Aside::All), [3, 7]);
        assert!(newcomers.take(Aside::All).is_empty());
    }
}
