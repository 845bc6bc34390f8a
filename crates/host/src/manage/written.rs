//! What was paged out to swap that is no zram: the kernel writes it and keeps it, clean, until somebody needs the memory.
//!
//! Invariant: what was asked to leave and is charged still is not asked for again. (The story: the charge does not fall when such
//! pages leave, so everything that was cold went to the disk for a limit that half a percent was over.)

use engine::Pages;

use crate::system::Proc;

/// Pages that are on their way.
#[derive(Debug, Default)]
pub(super) struct Written {
    pages: Pages,
    /// The look at which it was asked last where swap is.
    asked_at: Option<u64>,
    /// Some of it is on something slower than memory.
    is_slow: bool,
}

impl Written {
    /// So many have left, after look number `reading`.
    pub(super) fn note(&mut self, left: Pages, reading: u64, proc: &Proc) {
        if self.asked_at != Some(reading) {
            self.asked_at = Some(reading);
            self.is_slow = proc.has_slow_swap();
        }
        if self.is_slow {
            self.pages.0 += left.0;
        }
    }

    /// Those that may be charged still.
    pub(super) fn pages(&self) -> Pages {
        self.pages
    }

    /// What of them is written by now, if there has been a look since: the kernel is to let go of it.
    pub(super) fn take(&mut self, reading: u64) -> Option<Pages> {
        let is_due = self.pages > Pages(0) && self.asked_at != Some(reading);
        is_due.then(|| std::mem::take(&mut self.pages))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_its_way_is_not_asked_for_again() {
        let mut written = Written {
            asked_at: Some(1),
            is_slow: true,
            ..Written::default()
        };
        let proc = Proc::system().expect("/proc");
        written.note(Pages(5), 1, &proc);
        written.note(Pages(2), 1, &proc);
        assert_eq!(written.pages(), Pages(7));
        assert_eq!(written.take(1), None, "it is being written");
        assert_eq!(written.take(2), Some(Pages(7)));
        assert_eq!((written.take(3), written.pages()), (None, Pages(0)));
    }
}
