//! A recording of a real program in memory, to be replayed by any number of tenants.
//!
//! Invariant: pages have dense numbers, in the order in which they are accessed first; what was accessed between two looks is
//! spread evenly over the time between them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use event_log::{Look, Unit};

use crate::trace::{Dense, Looks, TraceError};

/// Most accesses, and pages given back: 1 GiB of memory.
const EVENTS_MAX: u64 = 1 << 28;
/// Most different pages: 64 GiB of a program's memory, and at most 1 GiB of ours for their numbers.
const PAGES_MAX: u32 = 1 << 24;

/// Between the look before and this one.
#[derive(Clone, Copy, Debug)]
struct Span {
    /// When it ends, milliseconds since the recording was begun.
    until_ms: u64,
    /// Where its accesses end, and the pages that it has given back.
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
    /// What a reader should know of it.
    note: Option<String>,
    file: PathBuf,
}

/// How far a replay has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Replay {
    /// The span that it is in, and the next access and page given back.
    span: usize,
    access: usize,
    unmapped: usize,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// This page is accessed.
    Access(u32),
    /// Its program gives it back.
    Unmap(u32),
}

impl Recorded {
    /// The end of a look. Of looks in a row in which nothing happened one is kept: a small file may have any number of them.
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

    /// Asked before a look is taken up: a file of some bytes may have one of any number of pages.
    ///
    /// # Errors
    /// There would be too many events.
    fn admit(&self, look: &Look, file: &Path) -> Result<(), String> {
        let count = |units: &[Unit]| -> u64 {
            let pages = units.iter().map(|unit| u64::from(unit.bits.count_ones()));
            pages.sum()
        };
        let known = (self.accesses.len() + self.unmapped.len()) as u64;
        match known + count(&look.accessed) + count(&look.unmapped) <= EVENTS_MAX {
            true => Ok(()),
            false => Err(format!(
                "{}: it has more than {EVENTS_MAX} accesses; record for a shorter time",
                file.display()
            )),
        }
    }

    /// Takes up the pages of a look.
    ///
    /// # Errors
    /// There are too many different ones.
    fn take_up(&mut self, look: &Look, dense: &mut Dense, file: &Path) -> Result<(), String> {
        let full = |dense: &Dense| match dense.len() <= PAGES_MAX {
            true => Ok(()),
            false => Err(format!(
                "{}: it has more than {PAGES_MAX} different pages (64 GiB); record fewer processes, or for a shorter time",
                file.display()
            )),
        };
        for unit in &look.accessed {
            self.accesses
                .extend(unit.pages().map(|page| dense.id(page)));
            full(dense)?;
        }
        // A page that was never accessed is not there to be given back.
        let known = dense.len();
        for unit in &look.unmapped {
            let unmapped = unit.pages().map(|page| dense.id(page));
            self.unmapped.extend(unmapped.filter(|id| *id < known));
            full(dense)?;
        }
        Ok(())
    }

    fn read(file: &Path) -> Result<Self, String> {
        let told = |error: TraceError| format!("{error}; {}", error.remedy);
        let mut looks = Looks::open(file).map_err(told)?;
        let (mut recorded, mut dense) = (Self::default(), Dense::default());
        while let Some(look) = looks.next_look().map_err(told)? {
            recorded.admit(&look, file)?;
            recorded.take_up(&look, &mut dense, file)?;
            recorded.push(look.now_ms);
        }
        recorded.pages = dense.len();
        recorded.note = looks.note();
        file.clone_into(&mut recorded.file);
        match recorded.accesses.is_empty() {
            true => Err(format!("{}: nothing is recorded in it", file.display())),
            false => Ok(recorded),
        }
    }

    /// What a reader of a replay should know: that it was cut off or is not known in part, and that `duration` milliseconds are less than it has.
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

    /// Where it is.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Different pages.
    #[must_use]
    pub const fn pages(&self) -> u32 {
        self.pages
    }

    /// Accesses in all.
    #[must_use]
    pub const fn accesses(&self) -> usize {
        self.accesses.len()
    }

    /// The next thing that happens before `now`, milliseconds since the replay began; none if nothing does.
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

/// Recordings that a file names, each read once.
#[derive(Debug)]
pub struct Recordings {
    folder: PathBuf,
    read: BTreeMap<String, Arc<Recorded>>,
}

impl Recordings {
    /// Those named from this folder.
    #[must_use]
    pub fn within(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            read: BTreeMap::new(),
        }
    }

    /// The recording of this name.
    ///
    /// # Errors
    /// It cannot be read, and why, with what to do.
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
