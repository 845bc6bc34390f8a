//! Encodes what each scan found into the frames of a recording.
//!
//! Invariant: no frame is longer than [`FRAME_MAX`], however much changed. The concatenated results
//! of [`Encoder::take`] are a recording without an end mark, which a reader treats as cut off.
//! [`Encoder::end_of`] returns the end mark that completes it.

use crate::frame::{self, FRAME_MAX};
use crate::item;
use crate::pages::{Pages, Planes};
use crate::runs::{Run, differing};
use crate::{Header, MAGIC, SPACES_MAX, varint};

/// Maximum number of runs in one item. A run takes at most two numbers of ten bytes, so the item
/// fits in a frame.
const RUNS_MAX: usize = 4096;
/// Content length in bytes above which a frame is closed before more runs are added.
const FULL: usize = FRAME_MAX - RUNS_MAX * 20 - 64;

/// Encodes a recording, scan by scan.
#[derive(Debug, Default)]
pub struct Encoder {
    /// Complete frames that the caller has not taken yet.
    done: Vec<u8>,
    /// The content of the frame that is being built.
    content: Vec<u8>,
    /// Time of the last scan, milliseconds since the recording began.
    last_ms: u64,
}

impl Encoder {
    /// Begins a recording: its first bytes ([`MAGIC`]) and the frame of its header.
    #[must_use]
    pub fn new(header: &Header) -> Encoder {
        let mut encoder = Encoder::default();
        encoder.done.extend_from_slice(&MAGIC);
        encoder.content.push(item::HEADER);
        header.put(&mut encoder.content);
        encoder.close_frame();
        encoder
    }

    /// Appends the frame that is being built to the complete frames; does nothing if it is empty.
    fn close_frame(&mut self) {
        if !self.content.is_empty() {
            frame::put(&mut self.done, &self.content);
            self.content.clear();
        }
    }

    /// Adds an item of this kind and its numbers to the frame that is being built.
    fn put(&mut self, tag: u8, values: &[u64]) {
        self.content.push(tag);
        for value in values {
            varint::put(&mut self.content, *value);
        }
    }

    /// Adds an address space that this scan has read. `number` identifies it in the recording;
    /// `before` are the bits of its pages at the last scan that read it, `after` their bits now.
    ///
    /// # Panics
    /// If `number` is not below [`SPACES_MAX`].
    pub fn space(&mut self, number: u32, before: &Pages, after: &Pages) {
        assert!(number < SPACES_MAX, "no more address spaces have numbers");
        self.put(item::SPACE, &[u64::from(number)]);
        for kind in 0..Planes::KINDS {
            for runs in differing(before, after, kind).chunks(RUNS_MAX) {
                if self.content.len() > FULL {
                    self.close_frame();
                    self.put(item::SPACE, &[u64::from(number)]);
                }
                self.runs(kind, runs);
            }
        }
        if self.content.len() > FULL {
            self.close_frame();
        }
    }

    /// Adds an item of these runs; `kind` is the kind of bit that changed.
    fn runs(&mut self, kind: usize, runs: &[Run]) {
        self.put(item::RUNS, &[kind as u64, runs.len() as u64]);
        let mut at = 0;
        for run in runs {
            varint::put(&mut self.content, run.first - at);
            // A run has at least one page.
            varint::put(&mut self.content, run.pages - 1);
            at = run.first + run.pages;
        }
        debug_assert!(self.content.len() <= FRAME_MAX);
    }

    /// Records that the address space `number` has ended, with all its pages.
    pub fn gone(&mut self, number: u32) {
        self.put(item::GONE, &[u64::from(number)]);
        if self.content.len() > FULL {
            self.close_frame();
        }
    }

    /// Ends a scan at `now_ms`, milliseconds since the recording began.
    ///
    /// `unknown` counts the pages for which this scan could not find out whether they were
    /// accessed, though they existed before the scan. They are recorded as accessed.
    pub fn scan(&mut self, now_ms: u64, unknown: u64) {
        let since = now_ms.saturating_sub(self.last_ms);
        self.last_ms += since;
        self.put(item::SCAN, &[since, unknown]);
        self.close_frame();
    }

    /// Returns the end mark of a recording that has `scans` scans. These bytes follow its last
    /// scan.
    #[must_use]
    pub fn end_of(scans: u64) -> Vec<u8> {
        let mut encoder = Encoder::default();
        encoder.put(item::END, &[scans]);
        encoder.close_frame();
        encoder.done
    }

    /// Returns the frames that were completed since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.done)
    }
}
