//! A recording of a real program, loaded into memory so that any number of tenants can replay it.
//!
//! Invariant: pages are numbered 0, 1, 2... in the order of their first access. The accesses that
//! one scan found are spread evenly over the time since the previous scan.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use event_log::{Scan, Unit};

use crate::trace::{Dense, Scans, TraceError};

/// Maximum number of accesses and freed pages together, which take 1 GiB of memory.
const EVENTS_MAX: u64 = 1 << 28;
/// Maximum number of different pages: 64 GiB of a program's memory. The table of their numbers
/// takes at most 1 GiB.
const PAGES_MAX: u32 = 1 << 24;

/// The time from the previous scan to a scan, with the events in it.
#[derive(Clone, Copy, Debug)]
struct Span {
    /// Time of this scan, milliseconds since the recording began.
    until_ms: u64,
    /// The end of this span's accesses, and of its freed pages, as indices in
    /// [`Recorded::accesses`] and [`Recorded::unmapped`].
    accesses: usize,
    unmapped: usize,
}

/// A recording.
#[derive(Debug, Default)]
pub struct Recorded {
    pages: u32,
    accesses: Vec<u32>,
    unmapped: Vec<u32>,
    spans: Vec<Span>,
    /// A remark about the recording for the user, if there is one.
    note: Option<String>,
    file: PathBuf,
}

/// Position of a replay in a recording.
#[derive(Clone, Copy, Debug, Default)]
pub struct Replay {
    /// Indices of the current span, the next access, and the next freed page.
    span: usize,
    access: usize,
    unmapped: usize,
}

/// An event in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The program accesses this page.
    Access(u32),
    /// The program frees this page.
    Unmap(u32),
}

impl Recorded {
    /// Ends a span with a scan. A row of scans without events is kept as one span, since a small
    /// file may have any number of such scans.
    fn push(&mut self, until_ms: u64) {
        let (accesses, unmapped) = (self.accesses.len(), self.unmapped.len());
        let is_empty = |span: &Span| (span.accesses, span.unmapped) == (accesses, unmapped);
        if let [.., before, last] = &mut self.spans[..]
            && is_empty(before)
            && is_empty(last)
        {
            last.until_ms = until_ms;
            return;
        }
        self.spans.push(Span {
            until_ms,
            accesses,
            unmapped,
        });
    }

    /// Checks the number of events before a scan's pages are copied, since a file of a few bytes
    /// may have a scan of any number of pages.
    ///
    /// # Errors
    /// If there would be too many events.
    fn admit(&self, scan: &Scan, file: &Path) -> Result<(), String> {
        let count = |units: &[Unit]| -> u64 {
            let pages = units.iter().map(|unit| u64::from(unit.bits.count_ones()));
            pages.sum()
        };
        let known = (self.accesses.len() + self.unmapped.len()) as u64;
        match known + count(&scan.accessed) + count(&scan.unmapped) <= EVENTS_MAX {
            true => Ok(()),
            false => Err(format!(
                "{}: it has more than {EVENTS_MAX} accesses; record for a shorter time",
                file.display()
            )),
        }
    }

    /// Copies the pages of a scan.
    ///
    /// # Errors
    /// If there are too many different pages.
    fn take_up(&mut self, scan: &Scan, dense: &mut Dense, file: &Path) -> Result<(), String> {
        let full = |dense: &Dense| match dense.len() <= PAGES_MAX {
            true => Ok(()),
            false => Err(format!(
                "{}: it has more than {PAGES_MAX} different pages (64 GiB); record fewer processes, or for a shorter time",
                file.display()
            )),
        };
        for unit in &scan.accessed {
            self.accesses
                .extend(unit.pages().map(|page| dense.id(page)));
            full(dense)?;
        }
        // A page that was never accessed need not be freed in the replay.
        let known = dense.len();
        for unit in &scan.unmapped {
            let unmapped = unit.pages().map(|page| dense.id(page));
            self.unmapped.extend(unmapped.filter(|id| *id < known));
            full(dense)?;
        }
        Ok(())
    }

    fn read(file: &Path) -> Result<Self, String> {
        let reported = |error: TraceError| format!("{error}; {}", error.remedy);
        let mut scans = Scans::open(file).map_err(reported)?;
        let (mut recorded, mut dense) = (Self::default(), Dense::default());
        while let Some(scan) = scans.next_scan().map_err(reported)? {
            recorded.admit(&scan, file)?;
            recorded.take_up(&scan, &mut dense, file)?;
            recorded.push(scan.now_ms);
        }
        recorded.pages = dense.len();
        recorded.note = scans.note();
        file.clone_into(&mut recorded.file);
        match recorded.accesses.is_empty() {
            true => Err(format!("{}: nothing is recorded in it", file.display())),
            false => Ok(recorded),
        }
    }

    /// Returns remarks about a replay: the recording was cut off, part of it is unknown, or it is
    /// longer than `duration` milliseconds.
    #[must_use]
    pub fn notes(&self, duration: u64) -> Vec<String> {
        let length = self.spans.last().map_or(0, |span| span.until_ms);
        let is_longer = (length > duration).then(|| {
            format!(
                "the first {duration} ms of {length} were replayed, for `duration` is no longer"
            )
        });
        self.note.clone().into_iter().chain(is_longer).collect()
    }

    /// Returns the path of the recording.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the number of different pages.
    #[must_use]
    pub const fn pages(&self) -> u32 {
        self.pages
    }

    /// Returns the number of accesses.
    #[must_use]
    pub const fn accesses(&self) -> usize {
        self.accesses.len()
    }

    /// Returns the next event that is before `now` (milliseconds since the replay began), and
    /// advances `at`; `None` if there is none yet, or no more.
    #[must_use]
    pub fn next(&self, at: &mut Replay, now: u64) -> Option<Event> {
        loop {
            let span = self.spans.get(at.span)?;
            let before = at.span.checked_sub(1).map(|before| self.spans[before]);
            let from_ms = before.map_or(0, |before| before.until_ms);
            let first = before.map_or(0, |before| before.accesses);
            if at.access < span.accesses {
                let (number, all) = (at.access - first, span.accesses - first);
                let length = u128::from(span.until_ms - from_ms);
                let since = length * number as u128 / all as u128;
                let due = from_ms + u64::try_from(since).unwrap_or(u64::MAX);
                if due >= now {
                    return None;
                }
                at.access += 1;
                return Some(Event::Access(self.accesses[at.access - 1]));
            }
            if span.until_ms > now {
                return None;
            }
            if at.unmapped < span.unmapped {
                at.unmapped += 1;
                return Some(Event::Unmap(self.unmapped[at.unmapped - 1]));
            }
            at.span += 1;
        }
    }
}

/// The recordings that an experiment file names; each is read once.
#[derive(Debug)]
pub struct Recordings {
    folder: PathBuf,
    read: BTreeMap<String, Arc<Recorded>>,
}

impl Recordings {
    /// Makes an empty set; names are relative to this folder.
    #[must_use]
    pub fn within(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            read: BTreeMap::new(),
        }
    }

    /// Returns the recording of this name.
    ///
    /// # Errors
    /// If the recording cannot be read; the error says why, and what the user can do.
    pub fn get(&mut self, name: &str) -> Result<Arc<Recorded>, String> {
        if let Some(known) = self.read.get(name) {
            return Ok(Arc::clone(known));
        }
        let recorded = Arc::new(Recorded::read(&self.folder.join(name))?);
        self.read.insert(name.to_owned(), Arc::clone(&recorded));
        Ok(recorded)
    }
}

#[cfg(test)]
pub(super) mod tests;
