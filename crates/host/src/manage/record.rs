//! A recording: what looks find of each page, in a file that `mrc` and `sim` read.
//!
//! Invariant: what the file holds is whole looks, in order, whatever becomes of us; it never grows beyond what was allowed. What
//! cannot be written ends the recording, with a note, and nothing else: the programs and their limits are not touched by it.
//!
//! A page is recorded where the engine has it (`super::feed`): in the address space that owns its frame.

mod sink;

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::time::{Duration, Instant};

use event_log::{CHUNK_PAGES, Encoder, Header, Pages, Planes, SPACES_MAX};
use pagetables::{Entry, Piece};

use super::feed::{Page, classify};
use super::ids::{CHUNK, chunk_of, pages_within};
use crate::ages::{Listener, Told};
use crate::books::Owner;
use crate::report::RecordingReport;
use crate::system::{Identity, Kind, Maps};
use sink::Sink;

/// Where a recording goes, and what is said of it there.
#[derive(Debug)]
pub struct Recording {
    /// A regular file, empty.
    pub file: File,
    /// The most bytes that it may get.
    pub max_bytes: u64,
    /// What the programs are called.
    pub command: String,
    /// Milliseconds since 1970.
    pub begun_ms: u64,
}

/// Of each chunk, pages whose accessed bits are set.
type Set = BTreeMap<u64, [u64; 8]>;

/// The address space that is told.
struct Open {
    owner: Owner,
    now: Pages,
    set: Set,
}

/// An address space as the last look left it.
#[derive(Default)]
struct RecordedSpace {
    /// What it is called in the file.
    number: u32,
    pages: Pages,
    set: Set,
}

/// Writes a recording.
pub(super) struct Recorder {
    encoder: Encoder,
    sink: Sink,
    spaces: BTreeMap<Owner, RecordedSpace>,
    next: u32,
    open: Option<Open>,
    /// Pages of this look whose accesses nobody knows.
    unknown: u64,
    /// When it was begun, by the watch's clock.
    from_ms: u64,
    looks: u64,
    took: Duration,
}

const fn bit(at: u32) -> (usize, u64) {
    ((at / 64) as usize, 1 << (at % 64))
}

impl Recorder {
    /// Looks from now on, `now_ms` by the watch's clock, are recorded.
    pub(super) fn new(recording: Recording, interval: Duration, now_ms: u64) -> Recorder {
        let header = Header {
            page_bytes: 4096,
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
            looks: 0,
            took: Duration::ZERO,
        }
    }

    /// A look has ended.
    pub(super) fn end_look(&mut self, now_ms: u64) {
        if self.sink.is_closed() {
            return;
        }
        let begin = Instant::now();
        let since = now_ms.saturating_sub(self.from_ms);
        self.encoder.look(since, std::mem::take(&mut self.unknown));
        let end = Encoder::end_of(self.looks + 1);
        if self.sink.write(&self.encoder.take(), &end) {
            self.looks += 1;
        }
        if self.sink.is_closed() {
            self.spaces.clear();
        }
        self.took += begin.elapsed();
    }

    /// Nothing more is recorded.
    pub(super) fn finish(&mut self) {
        self.sink.finish(&Encoder::end_of(self.looks));
    }

    /// What became of it until now.
    pub(super) fn report(&self) -> RecordingReport {
        RecordingReport {
            bytes: self.sink.bytes(),
            looks: self.looks,
            took_ms: engine::Millis::from(self.took).0,
            stopped: self.sink.stopped().map(str::to_owned),
        }
    }

    /// One entry's pages within a chunk: `entry_of` gives the entry of each with how far into it the page is.
    fn note<'a>(
        &mut self,
        told: &Told<'_>,
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
            match classify(told, *entry, offset) {
                Page::In(_, seen) => {
                    now.present[word] |= bit;
                    let was_there = before.present[word] & bit != 0;
                    // A reference is one however many looks find its bit set: the first tells it.
                    let is_told = told.spared && was_there && set_before[word] & bit != 0;
                    if entry.is_accessed() {
                        open.set.entry(number).or_default()[word] |= bit;
                    }
                    now.accessed[word] |= if seen.young && !is_told { bit } else { 0 };
                    self.unknown += u64::from(was_there && !told.is_known(*entry));
                }
                // An empty entry of a file's mapping may never have been touched.
                Page::Out => now.out[word] |= bit & (before.present[word] | before.out[word]),
                Page::Gone | Page::Anothers => {}
            }
        }
        if !now.is_empty() {
            *open.now.chunk_mut(number) = now;
        }
    }

    /// Numbers of the chunks of a range of which something was known.
    fn known(&self, range: &Range<u64>) -> Vec<u64> {
        let owner = self.open.as_ref().map(|open| open.owner);
        let pages = owner.and_then(|owner| self.spaces.get(&owner));
        let numbers = range.start / CHUNK..range.end.div_ceil(CHUNK);
        let found = pages
            .into_iter()
            .flat_map(|space| space.pages.chunks(numbers.clone()));
        found.map(|(number, _)| number).collect()
    }

    /// One entry for a part of a huge page, or for a hole of any size.
    fn note_whole(&mut self, told: &Told<'_>, whole: &Range<u64>, span: u64, entry: Entry) {
        let numbers = match entry.is_present() {
            true => (whole.start / CHUNK..whole.end.div_ceil(CHUNK)).collect(),
            // Of a hole only what was there before matters.
            false => self.known(whole),
        };
        for number in numbers {
            let chunk = number * CHUNK;
            let offset = |at: u32| (chunk + u64::from(at) * 4096) & (span - 1);
            let pages = pages_within(whole, chunk).map(|at| (at, &entry, offset(at)));
            self.note(told, chunk, pages);
        }
    }

    /// What could not be read stays as it was; whether it was accessed nobody knows.
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

    fn hear(&mut self, told: Told<'_>, piece: Piece<'_>) {
        if self.open.is_none() || matches!(told.mapping.kind, Kind::Device | Kind::Hugetlb) {
            return;
        }
        debug_assert_eq!(CHUNK, CHUNK_PAGES * 4096, "chunks are the file's");
        let begin = Instant::now();
        match piece {
            Piece::Pages { start, entries } => {
                let chunk = chunk_of(start);
                let pages = pages_within(&(start..chunk + CHUNK), chunk).zip(entries);
                self.note(&told, chunk, pages.map(|(at, entry)| (at, entry, 0)));
            }
            Piece::Whole {
                start,
                bytes,
                span,
                entry,
            } => self.note_whole(&told, &(start..start + bytes), span, entry),
            Piece::Unsure { start, bytes } => self.leave(&(start..start + bytes)),
        }
        self.took += begin.elapsed();
    }

    fn end(&mut self, owner: Owner, _: Identity, _: bool) {
        let Some(mut open) = self.open.take() else {
            return;
        };
        let begin = Instant::now();
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
                "{SPACES_MAX} processes are the most that are told apart"
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
        self.took += begin.elapsed();
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
