//! Finds out when the kernel flushes its statistics, which it does every two seconds for all
//! control groups.
//!
//! memory.stat of a group shows the counts as of the last flush. Reading the file itself causes a
//! flush only if more than 64 counts per processor have changed. So a process in a separate group
//! touches one page. Once memory.stat of that group shows the page fault, the kernel has flushed.
//! The measured groups are not read until their run is over.
//!
//! Invariant: between two reads, far fewer than 64 counts of the separate group change, so the
//! reads do not cause a flush.

use std::thread::sleep;
use std::time::{Duration, Instant};

use touches::cases::WATCH;

use crate::child::Worker;
use crate::counters::faults;
use crate::groups::Groups;

/// Minimum time between two noticed flushes: two seconds, less the delay with which the first one
/// may have been noticed.
const REST: Duration = Duration::from_millis(1900);

/// Maximum time that [`Watch::wait`] waits for two flushes.
const PATIENCE: Duration = Duration::from_secs(30);

/// A process in a separate group, with a page fault that the kernel has not flushed yet.
pub(crate) struct Watch {
    // Declared before `groups` so that it is dropped first: a group can be removed only when it has
    // no processes.
    worker: Worker,
    groups: Groups,
    /// Number of page faults that memory.stat of the separate group last showed.
    shown: u64,
    /// Earliest time of the next flush.
    next: Instant,
    /// For each flush noticed so far: the number of bursts before it.
    seen: Vec<u64>,
}

impl Watch {
    /// Starts watching for flushes.
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

    /// Checks whether the kernel has flushed since the last call, and notes it. `bursts` is the
    /// number of bursts so far.
    pub(crate) fn scan(&mut self, bursts: u64) -> Result<(), String> {
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

    /// Waits until the kernel has certainly flushed after this call. The first flush that is
    /// noticed may have happened before the call, so this waits for two.
    pub(crate) fn wait(&mut self, bursts: u64) -> Result<(), String> {
        let (begin, wanted) = (Instant::now(), self.seen.len() + 2);
        while self.seen.len() < wanted {
            if begin.elapsed() > PATIENCE {
                return Err("the kernel does not flush its statistics".to_owned());
            }
            sleep(Duration::from_millis(20));
            self.scan(bursts)?;
        }
        Ok(())
    }

    /// Returns, for each flush noticed so far, the number of bursts before it.
    pub(crate) fn seen(&self) -> Vec<u64> {
        self.seen.clone()
    }
}
