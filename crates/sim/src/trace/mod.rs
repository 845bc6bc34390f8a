//! Reads traces: references to pages, from files in the formats of docs/formats.md.
//!
//! Invariant: the memory of a reader is bounded by the format, not by the file. (The memory for
//! results computed from the references has a bound of its own, [`crate::memory_bound`].) For any
//! bytes, reading ends with a reference, the end, or a [`TraceError`] that names file and position.
//! All skipped records are counted ([`Trace::left_out`]).

mod dense;
mod error;
mod unzstd;

mod input;

mod arc;
mod csv;
mod oracle_general;
mod page_windows;
mod recording;

mod format;
mod scans;

pub use csv::{Column, CsvOptions, Header, Ids};
pub use dense::Dense;
pub use error::{Position, TraceError};
pub use format::{Format, TraceOptions};
pub use scans::Scans;

use error::Fault;
use input::Input;
#[cfg(test)]
use std::io::Read;
use std::path::Path;

/// How a page was referenced, if the format says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Unknown, or found by a scan of accessed bits.
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
    /// Number of the page. Block and object numbers of other traces are used as page numbers.
    pub page: u64,
    /// Time in the trace's own unit: seconds (oracleGeneral), any unit (CSV), number of the window
    /// (page windows), milliseconds (recordings), always 0 (ARC).
    pub time: u64,
    /// How the page was referenced.
    pub kind: Kind,
}

/// A reader of one format.
trait Source {
    /// Appends up to `room` references (`room` is at least 1) to `out`. Appends none at the end of
    /// the trace.
    fn read(&mut self, out: &mut Vec<Reference>, room: usize) -> Result<(), TraceError>;
    /// Returns the input, which the source reads from.
    fn input(&self) -> &Input;
    /// Returns the number of records that are not references and were skipped, e.g. objects of size
    /// 0.
    fn left_out(&self) -> u64 {
        0
    }
    /// Returns a remark for the user about the trace, as far as it was read; `None` if there is
    /// none.
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

/// Number of references read at a time, so that a batch stays in the second-level cache.
pub const BATCH: usize = 4096;

impl Trace {
    /// Opens `file`, plain or compressed with zstd.
    ///
    /// # Errors
    /// If the file cannot be opened, its format is unknown, or its beginning is not in that format.
    pub fn open(file: &Path, options: &TraceOptions) -> Result<Self, TraceError> {
        Self::over(Input::open(file)?, options)
    }

    /// Reads from any stream. `name` is used as the file name, in errors and to find the format.
    ///
    /// # Errors
    /// As for [`Self::open`].
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

    /// Replaces the content of `batch` by the next references, at most [`BATCH`]. Returns false at
    /// the end.
    ///
    /// # Errors
    /// If the trace is damaged here, is cut off, or has no reference at all.
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

    /// Returns the format, given by the user or found.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Returns the number of references read so far.
    #[must_use]
    pub const fn references(&self) -> u64 {
        self.references
    }

    /// Returns the number of records skipped so far because they are not references
    /// (docs/formats.md).
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.source.left_out()
    }

    /// Returns a remark for the user about the trace, as far as it was read, e.g. that it was cut
    /// off.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        self.source.note()
    }

    /// Returns the share of the file that was read, 0 to 1; `None` if its size is unknown.
    #[must_use]
    pub fn progress(&self) -> Option<f64> {
        self.source.input().progress()
    }
}

#[cfg(test)]
mod tests;
