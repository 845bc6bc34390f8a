//! The event log of a program under management (docs/formats.md, event log): what the manager learns
//! of touches, refaults and evictions, for `pagetide mrc` and the simulator.
//!
//! Invariant: noting only appends to memory; bytes are written between two looks of the manager,
//! which no fault waits for. After a failed write nothing more is kept, and [`Recorder::finish`]
//! tells.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What the file begins with.
const MAGIC: &[u8; 16] = b"pagetide-events1";
/// Bits of a page within its address space, and of an event.
const PAGE_BITS: u32 = 45;
/// Address spaces beyond are numbered from 0 again.
const SPACES: u64 = 1 << 15;
const EVENT_BITS: u32 = 4;
/// Noted bytes that are worth a write.
const WORTH: usize = 64 << 10;

/// What happened to a page. The numbers are the file's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Event {
    /// Seen for the first time.
    FirstTouch = 0,
    /// Touched since the last look.
    Touched = 1,
    /// Touched while it was out, and back.
    Refault = 2,
    /// Back beside one that was touched.
    Readahead = 3,
    /// Left.
    Evicted = 4,
    /// Removed by its program.
    Unmapped = 5,
    /// An aging pass ended.
    Aged = 6,
    /// The log ends.
    End = 15,
}

/// Notes what happens in one address space.
#[derive(Clone, Debug)]
pub struct Recorder {
    log: Arc<Mutex<Log>>,
    space: u64,
}

#[derive(Debug)]
struct Log {
    file: File,
    bytes: Vec<u8>,
    records: u64,
    spaces: u64,
    start: Instant,
    failed: Option<io::Error>,
}

impl Recorder {
    /// Begins a log in `file`; what it held is gone.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn create(file: &Path) -> io::Result<Recorder> {
        let mut file = File::create(file)?;
        file.write_all(MAGIC)?;
        let log = Log {
            file,
            bytes: Vec::new(),
            records: 0,
            spaces: 0,
            start: Instant::now(),
            failed: None,
        };
        Ok(Recorder {
            log: Arc::new(Mutex::new(log)),
            space: 0,
        })
    }

    /// For another address space, in the same log.
    #[must_use]
    pub fn another(&self) -> Recorder {
        let mut log = self.log();
        log.spaces = (log.spaces + 1) % SPACES;
        Recorder {
            log: Arc::clone(&self.log),
            space: log.spaces,
        }
    }

    /// Notes an event of a page (0 for [`Event::Aged`]) of this address space.
    pub fn note(&self, event: Event, page: u64) {
        let page = page & ((1 << PAGE_BITS) - 1);
        self.log().note(event, self.space << PAGE_BITS | page);
    }

    /// Writes what was noted, if it is much.
    pub fn write(&self) {
        let mut log = self.log();
        if log.bytes.len() >= WORTH {
            log.write();
        }
    }

    /// Ends the log.
    ///
    /// # Errors
    /// This or an earlier write failed: the log is not whole.
    pub fn finish(&self) -> io::Result<()> {
        let mut log = self.log();
        let records = log.records;
        log.note(Event::End, records);
        log.write();
        log.failed.take().map_or(Ok(()), Err)
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        // Whoever panicked left whole records behind: only `note` writes there.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    fn note(&mut self, event: Event, page: u64) {
        if self.failed.is_some() {
            return;
        }
        let time = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.bytes.extend(time.to_le_bytes());
        let key = page << EVENT_BITS | event as u64;
        self.bytes.extend(key.to_le_bytes());
        self.records += 1;
    }

    fn write(&mut self) {
        if self.failed.is_none() {
            self.failed = self.file.write_all(&self.bytes).err();
        }
        self.bytes.clear();
    }
}
