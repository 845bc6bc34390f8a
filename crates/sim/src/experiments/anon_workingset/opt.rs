//! Belady's OPT for a program that touches whole chunks in order: the fewest pages it can swap in.
//!
//! Invariant: the resident pages of a chunk are the ones at its beginning, which are needed first.
//! So the page with the latest next use is at the end of the chunk with the latest next use, and a
//! count of resident pages for each chunk is enough.

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

    /// Computes the same page by page, and searches ahead at every miss.
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
    fn as_few_as_page_by_page() {
        let mut rng = Rng::new(7);
        for round in 0..60 {
            let chunks = 2 + rng.below(8);
            let accesses: Vec<u32> = (0..60).map(|_| rng.below(chunks)).collect();
            let limit = u64::from(4 + rng.below(4 * chunks));
            let (ours, exact) = (
                swap_ins(&accesses, chunks, 4, limit),
                naive(&accesses, 4, usize::try_from(limit).expect("small")),
            );
            // The page in use must be in memory, even if its next use is the latest. By chunks it
            // is evicted one page too early.
            let slack = accesses.len() as u64;
            assert!(
                ours <= exact && exact <= ours + slack,
                "{round}: {ours} {exact}"
            );
        }
    }
}
