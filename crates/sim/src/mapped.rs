//! Simulated memory of one address space with mappings; the accessed bits are in the engine's
//! table.
//!
//! Invariant: at each read of an accessed bit, the mappings decide whether it counts. There is only
//! one bit for each page. So for a page that is mapped twice, with different advice, page tables
//! are needed (`scenario::space`).

use crate::vma::AddressSpace;
use engine::{FolioId, Lruvec, MemcgId, Memory, PageOut};

/// Memory of one tenant. Without any mapping it behaves as [`crate::in_words::InWords`].
#[derive(Clone, Copy, Debug)]
pub struct Mapped<'a>(pub &'a AddressSpace);

impl Memory for Mapped<'_> {
    fn walk(&mut self, _: MemcgId, lruvec: &mut Lruvec) {
        if self.0.is_all_recent() {
            lruvec.walk_accessed();
        } else {
            lruvec.walk_recent(|id| self.0.is_recent(id));
        }
    }

    fn has_recency(&self, _: MemcgId, id: FolioId) -> bool {
        self.0.is_recent(id)
    }

    fn page_out(&mut self, _: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>) {
        outcome.extend(batch.iter().map(|_| PageOut::Stored));
    }
}
