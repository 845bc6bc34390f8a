//! Mappings that go while their pages stay: those of files, which are in the page cache without them.
//! spec: reclaim-control.md 6.1.
//!
//! Invariant: afterwards no page of the range is accessed, and none has moved for it but by
//! [`Lruvec::mark_accessed`]: a mapping without recency leaves no trace.

use super::Lruvec;
use crate::folio::{FolioId, FolioType};
use crate::units::Pages;

impl Lruvec {
    /// The mapping of pages `start..start + len` is removed, with its accessed bits. Those of files that it
    /// found accessed are marked accessed, if it has recency ([`crate::Memory::has_recency`], now): how
    /// many. Anon pages are left for [`Self::unmap_range`]: nobody needs them without their mapping.
    pub fn zap_range(&mut self, start: FolioId, len: usize, has_recency: bool) -> Pages {
        let end = start.index().saturating_add(len).min(self.folios.len());
        let mut marked = Pages(0);
        for id in (start.0..u32::try_from(end).unwrap_or(u32::MAX)).map(FolioId) {
            let file = self.folios.get(id).folio_type() == FolioType::File;
            if self.folios.take_accessed(id) && has_recency && file {
                self.mark_accessed(id);
                marked.0 += 1;
            }
        }
        marked
    }
}
