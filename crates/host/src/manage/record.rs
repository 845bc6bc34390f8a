//! A recording: the accessed bits that scans find, in a file that `mrc` and `sim` read.
//!
//! Invariant: the file holds complete scans, in order, even if the manager dies, and never grows
//! beyond its maximum size. If the file cannot be written, the recording ends with a note; programs
//! and limits are not affected.
//!
//! A page is recorded as a page of the address space that owns its frame, as in the engine
//! (`super::engine_sync`).

mod sink;

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::time::Duration;

use engine::units::PAGE_SIZE;
use event_log::{CHUNK_PAGES, Encoder, Header, Pages, Planes, SPACES_MAX};
use pagetables::{Entry, Piece};

use super::engine_sync::{Page, classify};
use super::ids::{CHUNK, chunk_of, pages_within};
use super::stopwatch::Stopwatch;
use crate::age_table::Owner;
use crate::ages::{Listener, PieceContext};
use crate::report::RecordingReport;
use crate::system::{Identity, Kind, Maps};
use sink::Sink;

/// The file of a recording, and the data for its header.
#[derive(Debug)]
pub struct Recording {
    /// A regular file, empty at first.
    pub file: File,
    /// Maximum size of the file, in bytes.
    pub max_bytes: u64,
    /// Command line of the recorded program.
    pub command: String,
    /// When the recording begins, in milliseconds since 1970.
    pub begun_ms: u64,
}

/// Pages with a set accessed bit: number of the chunk (2 MiB), then one bit for each of its 512
/// pages.
type Set = BTreeMap<u64, [u64; 8]>;

/// The address space whose walk is being recorded.
struct Open {
    owner: Owner,
    /// States of the address space's pages, as found so far.
    now: Pages,
    /// The address space's pages with a set accessed bit, as found so far.
    set: Set,
}

/// What the last scan recorded of an address space.
#[derive(Default)]
struct RecordedSpace {
    /// Number of the address space in the file.
    number: u32,
    pages: Pages,
    set: Set,
}

/// Writes a recording, from what scans report.
pub(super) struct Recorder {
    encoder: Encoder,
    sink: Sink,
    spaces: BTreeMap<Owner, RecordedSpace>,
    /// Number in the file of the next new address space.
    next: u32,
    open: Option<Open>,
    /// Number of pages in the current scan for which it is unknown whether they were accessed.
    unknown: u64,
    /// When the recording began, in milliseconds of the watch.
    from_ms: u64,
    scans: u64,
    took: Duration,
}

/// Returns where the bit of page `at` of a chunk is: index of the word, then the bit in it.
const fn bit(at: u32) -> (usize, u64) {
    ((at / 64) as usize, 1 << (at % 64))
}

impl Recorder {
    /// Begins a recording at `now_ms`, in milliseconds of the watch.
    pub(super) fn new(recording: Recording, interval: Duration, now_ms: u64) -> Recorder {
        let header = Header {
            page_bytes: PAGE_SIZE,
            interval_ms: engine::Millis::from(interval).0,
            seed: recording.begun_ms,
            begun_ms: recording.begun_ms,
            command: recording.command,
        };
        let mut encoder = Encoder::new(&header);
        let mut sink = Sink::new(recording.file, recording.max_bytes);
        sink.write(&encoder.take(), &Encoder::end_of(0));
        Recorder {
            encoder,
            sink,
            spaces: BTreeMap::new(),
            next: 0,
            open: None,
            unknown: 0,
            from_ms: now_ms,
            scans: 0,
            took: Duration::ZERO,
        }
    }

    /// Writes a scan that ended at `now_ms`, in milliseconds of the watch.
    pub(super) fn end_scan(&mut self, now_ms: u64) {
        if self.sink.is_closed() {
            return;
        }
        let watch = Stopwatch::start();
        let since = now_ms.saturating_sub(self.from_ms);
        self.encoder.scan(since, std::mem::take(&mut self.unknown));
        let end = Encoder::end_of(self.scans + 1);
        if self.sink.write(&self.encoder.take(), &end) {
            self.scans += 1;
        }
        if self.sink.is_closed() {
            self.spaces.clear();
        }
        self.took += watch.took();
    }

    /// Ends the recording, and writes its end mark.
    pub(super) fn finish(&mut self) {
        self.sink.finish(&Encoder::end_of(self.scans));
    }

    /// Returns the size and the state of the recording.
    pub(super) fn report(&self) -> RecordingReport {
        RecordingReport {
            bytes: self.sink.bytes(),
            scans: self.scans,
            took_ms: engine::Millis::from(self.took).0,
            stopped: self.sink.stopped().map(str::to_owned),
        }
    }

    /// Records pages in a chunk. For each page: its number in the chunk, its entry, and its offset
    /// in bytes within the memory that the entry maps.
    fn note<'a>(
        &mut self,
        reported: &PieceContext<'_>,
        chunk: u64,
        pages: impl Iterator<Item = (u32, &'a Entry, u64)>,
    ) {
        let Some(open) = &mut self.open else {
            return;
        };
        let number = chunk / CHUNK;
        let space = self.spaces.get(&open.owner);
        let before = space.map_or(Planes::default(), |space| space.pages.chunk(number));
        let set_before = space.and_then(|space| space.set.get(&number));
        let set_before = set_before.copied().unwrap_or_default();
        let mut now = open.now.chunk(number);
        for (at, entry, offset) in pages {
            let (word, bit) = bit(at);
            match classify(reported, *entry, offset) {
                Page::In(_, seen) => {
                    now.present[word] |= bit;
                    let was_there = before.present[word] & bit != 0;
                    // An access is recorded once, by the first scan that finds the bit set. Later
                    // scans may find the bit still set.
                    let is_reported =
                        reported.kept_bits && was_there && set_before[word] & bit != 0;
                    if entry.is_accessed() {
                        open.set.entry(number).or_default()[word] |= bit;
                    }
                    now.accessed[word] |= if seen.young && !is_reported { bit } else { 0 };
                    self.unknown += u64::from(was_there && !reported.is_known(*entry));
                }
                // In a mapping of a file, the page of an empty entry may never have been accessed.
                Page::SwappedOut => {
                    now.out[word] |= bit & (before.present[word] | before.out[word])
                }
                Page::Gone | Page::Anothers => {}
            }
        }
        if !now.is_empty() {
            *open.now.chunk_mut(number) = now;
        }
    }

    /// Returns the numbers of the chunks (2 MiB) within a range of which the last scan recorded
    /// pages.
    fn known(&self, range: &Range<u64>) -> Vec<u64> {
        let owner = self.open.as_ref().map(|open| open.owner);
        let pages = owner.and_then(|owner| self.spaces.get(&owner));
        let numbers = range.start / CHUNK..range.end.div_ceil(CHUNK);
        let found = pages
            .into_iter()
            .flat_map(|space| space.pages.chunks(numbers.clone()));
        found.map(|(number, _)| number).collect()
    }

    /// Records all pages in the range `whole`, which one entry describes: a part of a huge page of
    /// `span` bytes, or a hole of any size.
    fn note_whole(
        &mut self,
        reported: &PieceContext<'_>,
        whole: &Range<u64>,
        span: u64,
        entry: Entry,
    ) {
        let numbers = match entry.is_present() {
            true => (whole.start / CHUNK..whole.end.div_ceil(CHUNK)).collect(),
            // In a hole, only pages recorded before matter.
            false => self.known(whole),
        };
        for number in numbers {
            let chunk = number * CHUNK;
            let offset = |at: u32| (chunk + u64::from(at) * PAGE_SIZE) & (span - 1);
            let pages = pages_within(whole, chunk).map(|at| (at, &entry, offset(at)));
            self.note(reported, chunk, pages);
        }
    }

    /// Records the pages of a range that could not be read: they stay as at the scan before, and
    /// their accesses are unknown.
    fn leave(&mut self, range: &Range<u64>) {
        for number in self.known(range) {
            let Some(open) = &mut self.open else {
                return;
            };
            let space = self.spaces.get(&open.owner);
            let before = space.map_or(Planes::default(), |space| space.pages.chunk(number));
            let now = open.now.chunk_mut(number);
            for at in pages_within(range, number * CHUNK) {
                let (word, bit) = bit(at);
                now.present[word] |= before.present[word] & bit;
                now.accessed[word] |= before.present[word] & bit;
                now.out[word] |= before.out[word] & bit;
                self.unknown += u64::from(before.present[word] & bit != 0);
            }
        }
    }
}

impl Listener for Recorder {
    fn begin(&mut self, owner: Owner, _: Identity, _: &Maps) {
        self.open = (!self.sink.is_closed()).then(|| Open {
            owner,
            now: Pages::default(),
            set: Set::new(),
        });
    }

    fn hear(&mut self, reported: PieceContext<'_>, piece: Piece<'_>) {
        if self.open.is_none() || matches!(reported.mapping.kind, Kind::Device | Kind::Hugetlb) {
            return;
        }
        debug_assert_eq!(CHUNK, CHUNK_PAGES * PAGE_SIZE, "chunks are the file's");
        let watch = Stopwatch::start();
        match piece {
            Piece::Pages { start, entries } => {
                let chunk = chunk_of(start);
                let pages = pages_within(&(start..chunk + CHUNK), chunk).zip(entries);
                self.note(&reported, chunk, pages.map(|(at, entry)| (at, entry, 0)));
            }
            Piece::Whole(whole) => {
                self.note_whole(&reported, &whole.range(), whole.span, whole.entry);
            }
            Piece::Unsure { start, bytes } => self.leave(&(start..start + bytes)),
        }
        self.took += watch.took();
    }

    fn end(&mut self, owner: Owner, _: Identity, _: bool) {
        let Some(mut open) = self.open.take() else {
            return;
        };
        let watch = Stopwatch::start();
        open.now.prune();
        let known = self.spaces.remove(&owner);
        let before = known.unwrap_or_else(|| {
            self.next += 1;
            RecordedSpace {
                number: self.next - 1,
                ..RecordedSpace::default()
            }
        });
        let number = before.number;
        if number >= SPACES_MAX {
            self.sink.stop(format!(
                "a recording can hold at most {SPACES_MAX} processes"
            ));
            return;
        }
        self.encoder.space(number, &before.pages, &open.now);
        let now = RecordedSpace {
            number,
            pages: open.now,
            set: open.set,
        };
        self.spaces.insert(owner, now);
        self.took += watch.took();
    }

    fn gone(&mut self, owner: Owner) {
        self.open = None;
        if let Some(space) = self.spaces.remove(&owner) {
            self.encoder.gone(space.number);
        }
    }
}

#[cfg(test)]
mod tests;
