//! Pages that were paged out to swap that is slower than memory. The kernel writes such a page, and
//! keeps the clean page in memory until memory is needed.
//!
//! Invariant: these pages stay charged to the cgroup, but are not counted again as pages to
//! reclaim. The charge does not fall when they are paged out. So if they were counted, a usage 0.5%
//! above the limit would send all cold memory to the disk.

use engine::Pages;

/// Pages that the kernel is writing to slow swap.
#[derive(Debug, Default)]
pub(super) struct WritingBack {
    /// Number of pages added since they were last taken.
    pages: Pages,
    /// Number of the scan after which the kind of swap was last read.
    requested_at: Option<u64>,
    /// Whether some swap is on a device slower than memory.
    is_slow: bool,
}

impl WritingBack {
    /// Adds `left` pages, paged out after the scan numbered `reading`, if some swap is slow.
    /// `is_slow` reads whether some swap is slow. This function calls it once for each scan.
    pub(super) fn note(&mut self, left: Pages, reading: u64, is_slow: impl FnOnce() -> bool) {
        if self.requested_at != Some(reading) {
            self.requested_at = Some(reading);
            self.is_slow = is_slow();
        }
        if self.is_slow {
            self.pages.0 += left.0;
        }
    }

    /// Returns the number of pages that were paged out and may still be charged.
    pub(super) fn pages(&self) -> Pages {
        self.pages
    }

    /// Returns the number of pages and forgets them, if a scan was made since they were added;
    /// otherwise `None`. They are written by then, and the caller requests that the kernel free
    /// them.
    pub(super) fn take(&mut self, reading: u64) -> Option<Pages> {
        let is_due = self.pages > Pages(0) && self.requested_at != Some(reading);
        is_due.then(|| std::mem::take(&mut self.pages))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_being_written_are_not_requested_again() {
        let mut written = WritingBack::default();
        written.note(Pages(5), 1, || true);
        written.note(Pages(2), 1, || unreachable!("it was read after this scan"));
        assert_eq!(written.pages(), Pages(7));
        assert_eq!(written.take(1), None, "it is being written");
        assert_eq!(written.take(2), Some(Pages(7)));
        assert_eq!((written.take(3), written.pages()), (None, Pages(0)));
    }

    #[test]
    fn pages_in_compressed_memory_are_not_charged_any_more() {
        let mut written = WritingBack::default();
        written.note(Pages(5), 1, || false);
        assert_eq!((written.pages(), written.take(2)), (Pages(0), None));
        // A disk was added as swap meanwhile; the next scan notices.
        written.note(Pages(3), 2, || true);
        assert_eq!(
            (written.pages(), written.take(3)),
            (Pages(3), Some(Pages(3)))
        );
    }
}
