//! OPT (Belady 1966): evicts the page with the latest next use. No policy has fewer misses.
//!
//! OPT needs the future references, so all ids of the trace are kept: 8 bytes for each reference.
//!
//! Invariant: an evicted page has the latest next use of all pages that are present.

use std::collections::BinaryHeap;

/// Value for a page that is not used again.
const NEVER: u32 = u32::MAX;

/// A trace; for each reference it also has the index of the next reference to the same page.
#[derive(Clone, Debug, Default)]
pub struct NextUses {
    ids: Vec<u32>,
    next: Vec<u32>,
}

impl NextUses {
    /// Makes the list from the ids of a whole trace.
    ///
    /// # Panics
    /// If there are 2^32 - 1 references or more.
    #[must_use]
    pub fn new(ids: Vec<u32>) -> Self {
        let len = u32::try_from(ids.len()).ok().filter(|len| *len < NEVER);
        let len = len.expect("OPT takes less than 2^32 references");
        let mut next = vec![NEVER; ids.len()];
        let mut upcoming: Vec<u32> = Vec::new();
        for at in (0..len).rev() {
            let id = ids[at as usize] as usize;
            if id >= upcoming.len() {
                upcoming.resize((id + 1).next_power_of_two(), NEVER);
            }
            next[at as usize] = upcoming[id];
            upcoming[id] = at;
        }
        Self { ids, next }
    }
}

/// Returns the misses of OPT with a memory of `size` pages.
#[must_use]
pub fn opt_misses(trace: &NextUses, size: u64) -> u64 {
    // Entries are (next use, id). An entry is stale if its page was used after it was added: its
    // next use is then in the past. A page that is not used again has one entry, at the top.
    let mut heap: BinaryHeap<(u32, u32)> = BinaryHeap::new();
    let (mut due, mut held, mut misses) = (Vec::new(), 0, 0);
    for (&id, &next) in trace.ids.iter().zip(&trace.next) {
        let at = id as usize;
        if at >= due.len() {
            due.resize((at + 1).next_power_of_two(), ABSENT);
        }
        if due[at] == ABSENT {
            misses += 1;
            if size == 0 {
                continue;
            }
            if held == size {
                evict(&mut heap, &mut due);
            } else {
                held += 1;
            }
        }
        due[at] = u64::from(next);
        heap.push((next, id));
        // Each hit makes an older entry stale. Stale entries are removed when they are more than
        // the present pages.
        if heap.len() as u64 > 2 * held + STALE_MOST {
            heap.retain(|&(next, id)| due[id as usize] == u64::from(next));
        }
    }
    misses
}

/// Number of stale entries that are allowed in addition to the number of pages present.
const STALE_MOST: u64 = 1024;

/// Value for a page that is not in memory; larger than any next use.
const ABSENT: u64 = u64::MAX;

fn evict(heap: &mut BinaryHeap<(u32, u32)>, due: &mut [u64]) {
    while let Some((next, id)) = heap.pop() {
        if due[id as usize] == u64::from(next) {
            due[id as usize] = ABSENT;
            return;
        }
    }
}
