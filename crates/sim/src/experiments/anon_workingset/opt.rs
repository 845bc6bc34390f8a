//! Belady's optimal replacement (OPT) for a program that touches whole chunks of pages in order:
//! the fewest pages that it can swap in.
//!
//! Invariant: the resident pages of a chunk are those at its beginning, which are needed first. So
//! the page with the latest next use is the last resident page of the chunk with the latest next
//! use, and it is enough to count the resident pages of each chunk.

use std::collections::BTreeSet;

/// Returns the pages swapped in with memory for `limit` pages. `accesses` are chunk numbers; each
/// chunk has `size` pages. The first access of a chunk allocates it.
#[must_use]
pub fn swap_ins(accesses: &[u32], chunks: u32, size: u64, limit: u64) -> u64 {
    let next = next_uses(accesses, chunks);
    let mut resident: Vec<Option<u64>> = vec![None; chunks as usize];
    let mut uses = vec![0; chunks as usize];
    let mut by_use: BTreeSet<(usize, u32)> = BTreeSet::new();
    let (mut used, mut swapped) = (0, 0);
    for (&chunk, &next) in accesses.iter().zip(&next) {
        let at = chunk as usize;
        let had = resident[at].unwrap_or(0);
        swapped += resident[at].map_or(0, |had| size - had);
        by_use.remove(&(uses[at], chunk));
        resident[at] = Some(size);
        uses[at] = next;
        by_use.insert((next, chunk));
        used += size - had;
        while used > limit {
            let Some(&last) = by_use.last() else { break };
            let pages = resident[last.1 as usize].get_or_insert(0);
            let gone = (used - limit).min(*pages);
            *pages -= gone;
            used -= gone;
            if *pages == 0 {
                by_use.remove(&last);
            }
        }
    }
    swapped
}

/// Returns, for each access, the position of the next access of the same chunk.
fn next_uses(accesses: &[u32], chunks: u32) -> Vec<usize> {
    let mut last = vec![usize::MAX; chunks as usize];
    let mut next = vec![usize::MAX; accesses.len()];
    for (at, &chunk) in accesses.iter().enumerate().rev() {
        next[at] = std::mem::replace(&mut last[chunk as usize], at);
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Computes the same page by page, and searches for the next uses at every miss.
    fn naive(accesses: &[u32], size: u32, limit: usize) -> u64 {
        let pages: Vec<u32> = accesses
            .iter()
            .flat_map(|&c| (0..size).map(move |p| c * size + p))
            .collect();
        let (mut resident, mut seen, mut swapped) = (Vec::new(), BTreeSet::new(), 0);
        for (at, page) in pages.iter().enumerate() {
            if resident.contains(page) {
                continue;
            }
            swapped += u64::from(!seen.insert(*page));
            if resident.len() == limit {
                let ahead = |page: &u32| pages[at..].iter().position(|p| p == page);
                let far = |page: &u32| ahead(page).unwrap_or(usize::MAX);
                let victim = (0..limit).max_by_key(|&n| far(&resident[n]));
                resident.swap_remove(victim.unwrap_or(0));
            }
            resident.push(*page);
        }
        swapped
    }

    #[test]
    fn swap_ins_by_chunks_are_as_few_as_by_pages() {
        let mut rng = Rng::new(7);
        for round in 0..60 {
            let chunks = 2 + rng.below(8);
            let accesses: Vec<u32> = (0..60).map(|_| rng.below(chunks)).collect();
            let limit = u64::from(4 + rng.below(4 * chunks));
            let (ours, exact) = (
                swap_ins(&accesses, chunks, 4, limit),
                naive(&accesses, 4, usize::try_from(limit).expect("small")),
            );
            // OPT by pages must keep the page in use in memory, even if its next use is the latest.
            // The count by chunks may evict that page, so it may swap in one page less at each
            // access.
            let slack = accesses.len() as u64;
            assert!(
                ours <= exact && exact <= ours + slack,
                "{round}: {ours} {exact}"
            );
        }
    }
}
