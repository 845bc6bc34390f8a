//! Traces: references to pages, read from files in the formats of docs/formats.md.
//!
//! Invariant: memory of the readers is bounded by the format, never by the file (what is made of the
//! references has a bound of its own, [`crate::memory_bound`]); whatever the bytes are, reading
//! ends with a reference, the end, or a [`TraceError`] that names file and place. Nothing that was
//! left out goes untold ([`Trace::left_out`]).

mod arc;
mod csv;
mod dense;
mod error;
mod format;
mod input;
mod looks;
mod oracle_general;
mod page_windows;
mod recording;
mod unzstd;

pub use csv::{Column, CsvOptions, Header, Ids};
pub use dense::Dense;
pub use error::{Place, TraceError};
pub use format::{Format, TraceOptions};
pub use looks::Looks;

use error::Fault;
use input::Input;
#[cfg(test)]
use std::io::Read;
use std::path::Path;

/// How a page was referenced, as far as the format tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Unknown, or found by an aging walk.
    #[default]
    Access,
    /// An instruction fetch.
    Fetch,
    /// A read.
    Read,
    /// A write.
    Write,
}

/// One reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reference {
    /// Which page; block and object numbers of other traces count as pages.
    pub page: u64,
    /// When, in the trace's own unit: seconds (oracleGeneral), whatever a CSV has, the number of
    /// the window (page windows), milliseconds (recordings), 0 (ARC).
    pub time: u64,
    /// How.
    pub kind: Kind,
}

/// What every format does.
trait Source {
    /// Appends up to `room` (at least 1) references; none means the end.
    fn read(&mut self, out: &mut Vec<Reference>, room: usize) -> Result<(), TraceError>;
    /// The bytes below.
    fn input(&self) -> &Input;
    /// Records left out because they are no references, e.g. objects of size 0.
    fn left_out(&self) -> u64 {
        0
    }
    /// What a reader should know of the trace, as far as it was read.
    fn note(&self) -> Option<String> {
        None
    }
}

/// A trace that is being read.
pub struct Trace {
    source: Box<dyn Source>,
    format: Format,
    references: u64,
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trace")
            .field("format", &self.format)
            .field("references", &self.references)
            .finish_non_exhaustive()
    }
}

/// References read at a time: a batch stays in the second-level cache.
pub const BATCH: usize = 4096;

impl Trace {
    /// Opens `file`, plain or zstd-compressed.
    ///
    /// # Errors
    /// It cannot be opened, its format is not known, or its beginning is not of that format.
    pub fn open(file: &Path, options: &TraceOptions) -> Result<Self, TraceError> {
        Self::over(Input::open(file)?, options)
    }

    /// Reads from any stream; `name` stands for the file in errors and in finding the format.
    ///
    /// # Errors
    /// As [`Self::open`].
    #[cfg(test)]
    pub(crate) fn from_reader(
        name: &Path,
        stream: Box<dyn Read>,
        options: &TraceOptions,
    ) -> Result<Self, TraceError> {
        Self::over(Input::new(name, stream, None)?, options)
    }

    fn over(mut input: Input, options: &TraceOptions) -> Result<Self, TraceError> {
        input.may_be_cut = options.cut_off;
        let format = options.format_of(&mut input)?;
        let source: Box<dyn Source> = match format {
            Format::OracleGeneral => Box::new(oracle_general::OracleGeneral::new(input)),
            Format::Csv => Box::new(csv::Csv::new(input, &options.csv)?),
            Format::Arc => Box::new(arc::Arc::new(input)),
            Format::PageWindows => Box::new(page_windows::PageWindows::new(input)),
            Format::Recording => Box::new(recording::Recording::new(input)?),
        };
        Ok(Self {
            source,
            format,
            references: 0,
        })
    }

    /// Replaces `batch` by the next up to [`BATCH`] references. False at the end.
    ///
    /// # Errors
    /// The trace is broken here, cut off, or holds no reference at all.
    pub fn fill(&mut self, batch: &mut Vec<Reference>) -> Result<bool, TraceError> {
        batch.clear();
        self.source.read(batch, BATCH)?;
        self.references += batch.len() as u64;
        if self.references == 0 {
            let fault = Fault::new(
                "the trace holds no reference",
                "is it the right file, and was it written to its end?",
            );
            return Err(self.source.input().whole(fault));
        }
        Ok(!batch.is_empty())
    }

    /// The format, given or found.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.format
    }

    /// References read so far.
    #[must_use]
    pub const fn references(&self) -> u64 {
        self.references
    }

    /// Records passed over so far because they are no references (docs/formats.md says which).
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.source.left_out()
    }

    /// What a reader should know of the trace, as far as it was read: that it was cut off, for one.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        self.source.note()
    }

    /// How much of the file has been read, 0 to 1; `None` where its size is not known.
    #[must_use]
    pub fn progress(&self) -> Option<f64> {
        self.source.input().progress()
    }
}

#[cfg(test)]
mod tests;
