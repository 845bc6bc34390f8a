//! A guest's balloon, led by its working-set reports. spec: workingset-report.md 7, 8.
//!
//! Now and then the host asks, and inflates the balloon by what has been idle for too long in two reports
//! in a row: the guest keeps what it uses and an eighth more. When the guest reports on its own, which it
//! does under pressure, the balloon gives back an eighth of its memory, and the host asks later. The rule
//! is ours: the specification says what is reported, and what for.
//!
//! Invariant: a guest keeps a sixteenth of its memory at least, and never has more than all of it.

use engine::workingset_report::{Bins, GuestReport, config_message, read_report, request_message};
use engine::{Millis, Pages};

/// A guest's only node.
pub const NODE: u16 = 0;

/// The host's view of one guest.
#[derive(Clone, Debug)]
pub struct Host {
    memory: Pages,
    older_than: Millis,
    every: Millis,
    next: Millis,
    allowed: Pages,
    /// In use, by the report before the last.
    used: Pages,
}

impl Host {
    /// The host of a guest with `memory`, whose pages are in the way once they were idle for
    /// `older_than`; it asks every `every`.
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

    /// What the guest is told at first. It looks at intervals of half the age: of four generations
    /// the oldest then holds what is older, and no more.
    #[must_use]
    pub fn config(&self) -> Vec<u8> {
        let bins = Bins::new(&[self.older_than]).unwrap_or_default();
        let interval = Millis(self.older_than.0.div_ceil(2));
        config_message(NODE, &bins, interval, self.every)
    }

    /// The question, when it is time for it.
    pub fn ask(&mut self, now: Millis) -> Option<Vec<u8>> {
        if now < self.next {
            return None;
        }
        self.next = now.after(self.every);
        Some(request_message(NODE))
    }

    /// The answer has come.
    pub fn follow(&mut self, answer: &[u8]) {
        if let Ok(report) = read_report(answer) {
            let used = self.used(&report);
            let before = std::mem::replace(&mut self.used, used);
            let used = used.max(before);
            self.allow(Pages(used.0 + used.0 / 8));
        }
    }

    /// The guest has sent a report on its own: it is short.
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

    /// No more could be taken: the guest has so much.
    pub fn allow(&mut self, pages: Pages) {
        self.allowed = pages.clamp(Pages(self.memory.0 / 16), self.memory);
    }

    /// What the guest may have.
    #[must_use]
    pub const fn allowed(&self) -> Pages {
        self.allowed
    }

    /// The size of the balloon.
    #[must_use]
    pub const fn balloon(&self) -> Pages {
        self.memory.less(self.allowed)
    }
}
