//! The trait over all sources of accessed bits, and what a walk returns.
//!
//! Invariant: all sources report in the same form: page-table entries with the pages' frames. So
//! the caller need not know which source it uses. A source says what it cannot know
//! ([`WalkResult::hides`], [`Grain`]) and makes no accesses up.
//!
//! | source | knows | costs |
//! |---|---|---|
//! | [`crate::PageTables`] | each page, 4 KiB or huge | 0.3 ms per GiB, more with a foreign clearer |
//! | [`crate::IdleBitmap`] | each page, by frame | a microsecond per page |
//! | [`crate::Referenced`] | whether any page of a mapping was accessed | smaps: about 10 ms per GiB |
//! | [`crate::Sizes`] | sizes only | smaps: about 10 ms per GiB |

use std::io;
use std::ops::Range;
use std::time::Duration;

use crate::access::{self, Access};
use crate::clear::{Cleared, Pace, Part};
use crate::mappings::Mapping;
use crate::walk::{Sink, Walked};

/// The kind of a source. Reports name it in the field `age_source` (docs/interfaces.md).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceKind {
    /// Page tables ([`crate::PageTables`]).
    PageTables,
    /// `/sys/kernel/mm/page_idle/bitmap` ([`crate::IdleBitmap`]).
    IdleBitmap,
    /// `Referenced` in `/proc/PID/smaps` ([`crate::Referenced`]).
    Referenced,
    /// No accessed bits, only sizes ([`crate::Sizes`]).
    None,
}

/// What one accessed bit covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grain {
    /// One page, in the size in which it is mapped.
    Page,
    /// One mapping.
    Mapping,
    /// Nothing: the bits have no meaning.
    None,
}

/// What a walk of one process found, in addition to the entries that the walk passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkResult {
    /// A number that no other living address space has. Processes that share an address space have
    /// the same number.
    pub space: u64,
    /// Whether a secondary MMU (KVM, a GPU) accesses this memory without setting accessed bits;
    /// `None` if the source does not know.
    pub hides: Option<bool>,
    /// What the walk cost.
    pub walked: Walked,
}

/// A source of accessed bits: reads them, and clears them.
pub trait Source: Send {
    /// The kind of this source.
    fn kind(&self) -> SourceKind;

    /// What one accessed bit of this source covers.
    fn grain(&self) -> Grain {
        match self.kind() {
            SourceKind::PageTables | SourceKind::IdleBitmap => Grain::Page,
            SourceKind::Referenced => Grain::Mapping,
            SourceKind::None => Grain::None,
        }
    }

    /// Walks `ranges` of a process and passes each piece to `sink`, with the index of its range.
    /// The ranges must ascend, be disjoint and consist of whole pages, one for each mapping.
    ///
    /// # Errors
    /// The process is gone ([`io::ErrorKind::NotFound`]), or may not be read.
    fn read(
        &mut self,
        pid: u32,
        ranges: &[Range<u64>],
        sink: &mut Sink<'_>,
    ) -> io::Result<WalkResult>;

    /// Passes the current entries of `ranges` to `sink`, for checks right before and after a
    /// page-out. Does not set accessed bits again that a foreign clearer cleared, because to find
    /// these takes time.
    ///
    /// # Errors
    /// The same as those of [`Source::read`].
    fn peek(&mut self, pid: u32, ranges: &[Range<u64>], sink: &mut Sink<'_>) -> io::Result<()> {
        self.read(pid, ranges, sink).map(drop)
    }

    /// Opens a process's address space. Later calls for this process use it until [`Source::end`].
    ///
    /// # Errors
    /// The same as those of [`Source::read`]; also if the process's memory is locked
    /// ([`crate::access::is_locked`]).
    fn begin(&mut self, _pid: u32) -> io::Result<()> {
        Ok(())
    }

    /// Closes what [`Source::begin`] opened.
    fn end(&mut self) {}

    /// Returns the mappings of a process, ascending and disjoint, read without its memory lock.
    /// `None` if this source cannot read them, or if they change all the time: then the caller
    /// reads `/proc/PID/maps`.
    ///
    /// # Errors
    /// The same as those of [`Source::read`].
    fn mappings(&mut self, _pid: u32) -> io::Result<Option<Vec<Mapping>>> {
        Ok(None)
    }

    /// Whether a call that needs the process's memory lock for `access` would have to wait, because
    /// a task has held the lock for longer than normal calls do. False if this source cannot know.
    ///
    /// # Errors
    /// The same as those of [`Source::read`].
    fn is_locked(&mut self, _pid: u32, _access: Access) -> io::Result<bool> {
        Ok(false)
    }

    /// For how many more walks this source remembers the foreign clearer that it noticed; 0 if it
    /// remembers none.
    fn foreign_clearer(&self) -> u32 {
        0
    }

    /// Sets the number that [`Source::foreign_clearer`] returns. The caller passes the greatest
    /// number among all sources of this kind, so that each of them knows what any of them has
    /// noticed.
    fn hear_of_foreign_clearer(&mut self, _readings: u32) {}

    /// Returns a new source of the same kind, for another thread. The two report the same about a
    /// process once they know of the same foreign clearers ([`Source::hear_of_foreign_clearer`]).
    /// `None` if sources of this kind remember anything else of earlier walks.
    fn another(&self) -> Option<Box<dyn Source>> {
        None
    }

    /// The bits of a present entry that hold its frame's physical address
    /// ([`crate::Entry::physical`]).
    fn frame_mask(&self) -> u64;

    /// Clears the accessed bits of one part (anonymous or file mappings) of the process that was
    /// read last. `pages` is the number of present entries in that part. Clears nothing if the
    /// process would probably be locked for longer than `at_most`.
    ///
    /// # Errors
    /// The process is gone, or may not be written to; its memory is locked
    /// ([`crate::access::is_locked`]).
    fn clear(
        &mut self,
        (pid, part): (u32, Part),
        pace: &mut Pace,
        pages: u64,
        at_most: Duration,
    ) -> io::Result<Cleared> {
        if self.is_locked(pid, Access::Change)? {
            return Err(access::locked_error());
        }
        pace.clear(pid, part, pages, at_most)
    }
}
