//! The balloon of a guest (a virtual machine), which its host controls by the guest's working-set
//! reports. spec: workingset-report.md 7, 8.
//!
//! At intervals the host requests a report. It sizes the balloon so that the guest keeps the memory
//! that it used in either of the last two reports, and an eighth more. A guest under memory
//! pressure reports without a request. Then the balloon shrinks by an eighth of the guest's memory,
//! and the host's next request is delayed. This rule is pagetide's own; the specification only says
//! what is reported, and for what purpose.
//!
//! Invariant: a guest keeps at least a sixteenth of its memory, and never has more than all of it.

use engine::workingset_report::{Bins, GuestReport, config_message, read_report, request_message};
use engine::{Millis, Pages};

/// Number of the guest's NUMA node; a simulated guest has only one.
pub const NODE: u16 = 0;

/// The host of one guest, with what it knows about the guest.
#[derive(Clone, Debug)]
pub struct Host {
    memory: Pages,
    older_than: Millis,
    every: Millis,
    next: Millis,
    allowed: Pages,
    /// Number of pages in use, by the previous report.
    used: Pages,
}

impl Host {
    /// Makes the host of a guest with `memory`. The balloon takes pages that were idle for
    /// `older_than`; the host requests a report every `every`.
    #[must_use]
    pub fn new(memory: Pages, older_than: Millis, every: Millis, now: Millis) -> Self {
        Self {
            memory,
            older_than,
            every,
            next: now.after(every),
            allowed: memory,
            used: memory,
        }
    }

    /// Returns the first message to the guest, its configuration. The guest scans at intervals of
    /// half of `older_than`. So the oldest of its four generations has exactly the pages that are
    /// older.
    #[must_use]
    pub fn config(&self) -> Vec<u8> {
        let bins = Bins::new(&[self.older_than]).unwrap_or_default();
        let interval = Millis(self.older_than.0.div_ceil(2));
        config_message(NODE, &bins, interval, self.every)
    }

    /// Returns the host's request for a report; `None` if it is not time for it.
    pub fn request(&mut self, now: Millis) -> Option<Vec<u8>> {
        if now < self.next {
            return None;
        }
        self.next = now.after(self.every);
        Some(request_message(NODE))
    }

    /// Processes the guest's reply to a request, and sizes the balloon by it.
    pub fn process_reply(&mut self, reply: &[u8]) {
        if let Ok(report) = read_report(reply) {
            let used = self.used(&report);
            let before = std::mem::replace(&mut self.used, used);
            let used = used.max(before);
            self.allow(Pages(used.0 + used.0 / 8));
        }
    }

    /// Processes a report that the guest sent without a request because it is short of memory.
    pub fn relieve(&mut self, report: &[u8], now: Millis) {
        if read_report(report).is_ok() {
            self.next = now.after(self.every);
            self.allow(Pages(self.allowed.0 + self.memory.0 / 8));
        }
    }

    fn used(&self, report: &GuestReport) -> Pages {
        let idle = report.idle_longer_than(self.older_than);
        report.total().pages().less(idle.pages())
    }

    /// Sets the number of pages that the guest may have, within the bounds of the module's
    /// invariant.
    pub fn allow(&mut self, pages: Pages) {
        self.allowed = pages.clamp(Pages(self.memory.0 / 16), self.memory);
    }

    /// Returns the memory that the guest may have.
    #[must_use]
    pub const fn allowed(&self) -> Pages {
        self.allowed
    }

    /// Returns the size of the balloon.
    #[must_use]
    pub const fn balloon(&self) -> Pages {
        self.memory.less(self.allowed)
    }
}
