//! When the kernel flushed its statistics, which it does every two seconds for everybody.
//!
//! memory.stat of a group shows what was flushed; reading it flushes only if more than 64 pages a processor have changed.
//! So a process in a group of its own touches one page, and once memory.stat shows the fault, somebody has flushed. The
//! groups that are measured are not read until their run is over.
//!
//! Invariant: between two looks far less than 64 pages of that group change, so that looking flushes nothing.

use std::time::{Duration, Instant};

use touches::cases::WATCH;

use crate::child::Worker;
use crate::counters::faults;
use crate::groups::Groups;

/// The next flush does not come sooner after one that was seen: two seconds, less what seeing it may have taken.
const REST: Duration = Duration::from_millis(1900);

/// A process whose faults nobody has flushed yet.
pub(crate) struct Watch {
    // Before its group, which can be removed only when it is gone.
    worker: Worker,
    groups: Groups,
    shown: u64,
    next: Instant,
    seen: Vec<u64>,
}

impl Watch {
    /// From now on.
    pub(crate) fn start() -> Result<Watch, String> {
        let groups = Groups::make(&WATCH)?;
        let mut worker = Worker::start(&WATCH, (0, 0), groups.path(0))?;
        let shown = faults(groups.path(0))?;
        worker.order(1)?;
        Ok(Watch {
            worker,
            groups,
            shown,
            next: Instant::now(),
            seen: Vec::new(),
        })
    }

    /// So many bursts are over: notes that there was a flush since the last look.
    pub(crate) fn look(&mut self, bursts: u64) -> Result<(), String> {
        let now = Instant::now();
        if now < self.next {
            return Ok(());
        }
        let shown = faults(self.groups.path(0))?;
        if shown != self.shown {
            self.shown = shown;
            self.seen.push(bursts);
            self.next = now + REST;
            self.worker.order(1)?;
        }
        Ok(())
    }

    /// After how many bursts flushes were seen.
    pub(crate) fn seen(&self) -> Vec<u64> {
        self.seen.clone()
    }
}
