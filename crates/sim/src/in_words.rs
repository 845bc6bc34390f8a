//! Simulated memory whose accessed bits are in the engine's own table of pages, so a touch costs
//! one cache line.
//!
//! Invariant: every page that the engine passes to `page_out` is stored. The engine has removed
//! accessed pages from the batch before.

use engine::{FolioId, Lruvec, MemcgId, Memory, PageOut};

/// Memory of any number of tenants, with accessed bits in the engine's table of pages.
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
