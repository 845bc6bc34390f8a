//! Simulated memory whose accessed bits lie in the engine's own words: a touch costs one cache line.
//!
//! Invariant: it stores whatever it is given; what was accessed has been taken out of the batch by
//! the engine's reference check before.

use engine::{FolioId, Lruvec, MemcgId, Memory, PageOut};

/// Memory of any number of tenants.
#[derive(Clone, Copy, Debug, Default)]
pub struct InWords;

impl Memory for InWords {
    fn walk(&mut self, _: MemcgId, lruvec: &mut Lruvec) {
        lruvec.walk_accessed();
    }

    fn page_out(&mut self, _: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>) {
        outcome.extend(batch.iter().map(|_| PageOut::Stored));
    }
}
