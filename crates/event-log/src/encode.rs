//! From the bits of each look to frames.
//!
//! Invariant: frames are within their bound however much changed; what [`Encoder::take`] gives, added up, is a recording
//! that was cut off, and a whole one with [`Encoder::end_of`] behind it.

use crate::frame::{self, FRAME_MAX};
use crate::item;
use crate::pages::{Pages, Planes};
use crate::runs::{Run, differing};
use crate::{Header, MAGIC, SPACES_MAX, varint};

/// Runs of one item: they fit a frame in their longest form, two numbers of ten bytes each.
const RUNS_MAX: usize = 4096;
/// A frame that is longer takes no further item of runs.
const FULL: usize = FRAME_MAX - RUNS_MAX * 20 - 64;

/// See the module.
#[derive(Debug, Default)]
pub struct Encoder {
    /// Whole frames that nobody has taken.
    done: Vec<u8>,
    /// The content of the next one.
    content: Vec<u8>,
    /// Time of the last look, milliseconds.
    last_ms: u64,
}

impl Encoder {
    /// Begins a recording.
    #[must_use]
    pub fn new(header: &Header) -> Encoder {
        let mut encoder = Encoder::default();
        encoder.done.extend_from_slice(&MAGIC);
        encoder.content.push(item::HEADER);
        header.put(&mut encoder.content);
        encoder.close_frame();
        encoder
    }

    fn close_frame(&mut self) {
        if !self.content.is_empty() {
            frame::put(&mut self.done, &self.content);
            self.content.clear();
        }
    }

    fn put(&mut self, tag: u8, values: &[u64]) {
        self.content.push(tag);
        for value in values {
            varint::put(&mut self.content, *value);
        }
    }

    /// An address space was read: its bits as of the look that read it before, and as they are now.
    ///
    /// # Panics
    /// If its number is too large.
    pub fn space(&mut self, number: u32, before: &Pages, after: &Pages) {
        assert!(number < SPACES_MAX, "so many address spaces are told apart");
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

    fn runs(&mut self, kind: usize, runs: &[Run]) {
        self.put(item::RUNS, &[kind as u64, runs.len() as u64]);
        let mut at = 0;
        for run in runs {
            varint::put(&mut self.content, run.first - at);
            // At least one page.
            varint::put(&mut self.content, run.pages - 1);
            at = run.first + run.pages;
        }
        debug_assert!(self.content.len() <= FRAME_MAX);
    }

    /// An address space is gone, with all its pages.
    pub fn gone(&mut self, number: u32) {
        self.put(item::GONE, &[u64::from(number)]);
        if self.content.len() > FULL {
            self.close_frame();
        }
    }

    /// A look ends: when it was (milliseconds since the recording was begun), and of how many pages that were there before nobody knows
    /// whether they were accessed. They are told as accessed.
    pub fn look(&mut self, now_ms: u64, unknown: u64) {
        let since = now_ms.saturating_sub(self.last_ms);
        self.last_ms += since;
        self.put(item::LOOK, &[since, unknown]);
        self.close_frame();
    }

    /// What stands behind the last look: the whole end of a recording of so many looks.
    #[must_use]
    pub fn end_of(looks: u64) -> Vec<u8> {
        let mut encoder = Encoder::default();
        encoder.put(item::END, &[looks]);
        encoder.close_frame();
        encoder.done
    }

    /// Whole frames since the last time.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.done)
    }
}
