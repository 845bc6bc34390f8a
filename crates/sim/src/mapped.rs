//! Simulated memory behind the mappings of one address space, with its accessed bits in the engine's table.
//!
//! Invariant: whether an accessed bit means anything is asked of the mappings at each look. There is one bit a
//! page here: a page that is mapped twice, once without recency, needs page tables (`scenario::space`).

use engine::{FolioId, Lruvec, MemcgId, Memory, PageOut};
use models::vma::AddressSpace;

/// Memory of one tenant; without any mapping as [`crate::in_words::InWords`].
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
