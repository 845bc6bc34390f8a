//! Where accessed bits come from: one small trait, four sources.
//!
//! Invariant: every source tells the same thing, entries of pages with their frames, so that who asks
//! need not know which it is. What a source cannot know it says ([`Reading::hides`], [`Grain`]), and
//! does not make up.
//!
//! | source | knows | costs |
//! |---|---|---|
//! | [`crate::PageTables`] | each page, 4 KiB or huge | 0.3 ms a GiB to copy, some more for folios' marks |
//! | [`crate::IdleBitmap`] | each page, by frame | a microsecond a page |
//! | [`crate::Referenced`] | whether anything of a mapping was accessed | smaps: some 10 ms a GiB |
//! | [`crate::Sizes`] | sizes only | smaps |

use std::io;
use std::ops::Range;
use std::time::Duration;

use crate::access::{self, Access};
use crate::clear::{Cleared, Pace, Part};
use crate::mappings::Mapping;
use crate::walk::{Sink, Walked};

/// Which source it is (`age_source` in interfaces.md).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceKind {
    /// Page tables.
    PageTables,
    /// `/sys/kernel/mm/page_idle/bitmap`.
    IdleBitmap,
    /// `Referenced` in `/proc/PID/smaps`.
    Referenced,
    /// None: sizes only.
    None,
}

/// What one accessed bit stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grain {
    /// A page, of whatever size it is mapped in.
    Page,
    /// A mapping.
    Mapping,
    /// Nothing: bits say nothing.
    None,
}

/// What a reading found out beside the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// A number that no other living address space has; two processes that share one have the same.
    pub space: u64,
    /// Whether a secondary MMU accesses this memory unseen; `None` if the source cannot tell.
    pub hides: Option<bool>,
    /// What it took.
    pub walked: Walked,
}

/// Reads and clears accessed bits.
pub trait Source: Send {
    /// Which it is.
    fn kind(&self) -> SourceKind;

    /// What one bit stands for.
    fn grain(&self) -> Grain;

    /// Tells `sink` the entries of `ranges` of a process: ascending, disjoint, whole pages; one for each
    /// mapping.
    ///
    /// # Errors
    /// The process is gone ([`io::ErrorKind::NotFound`]), or may not be read.
    fn read(&mut self, pid: u32, ranges: &[Range<u64>], sink: &mut Sink<'_>)
    -> io::Result<Reading>;

    /// Tells the entries of `ranges` as they are this moment, and nothing that takes time to find out (whose
    /// bits others took away): what is asked right before and after paging out.
    ///
    /// # Errors
    /// As [`Source::read`].
    fn peek(&mut self, pid: u32, ranges: &[Range<u64>], sink: &mut Sink<'_>) -> io::Result<()> {
        self.read(pid, ranges, sink).map(drop)
    }

    /// Opens a process's address space: what is asked of this process next is of that one.
    ///
    /// # Errors
    /// As [`Source::read`]; its memory is locked ([`crate::access::is_locked`]).
    fn begin(&mut self, _pid: u32) -> io::Result<()> {
        Ok(())
    }

    /// Lets go of what [`Source::begin`] opened.
    fn end(&mut self) {}

    /// The mappings of a process, ascending and disjoint, read without its memory lock; `None` where the source cannot tell,
    /// or they change all the time: then `/proc/PID/maps` tells.
    ///
    /// # Errors
    /// As [`Source::read`].
    fn mappings(&mut self, _pid: u32) -> io::Result<Option<Vec<Mapping>>> {
        Ok(None)
    }

    /// Whether the process's memory lock has been held, in a way that `access` would wait for, for longer than a call takes;
    /// false where the source cannot tell.
    ///
    /// # Errors
    /// As [`Source::read`].
    fn is_locked(&mut self, _pid: u32, _access: Access) -> io::Result<bool> {
        Ok(false)
    }

    /// For how many readings more it is remembered that somebody else clears accessed bits; 0 if nobody was seen to.
    fn company(&self) -> u32 {
        0
    }

    /// From now on it is remembered for so many, as all sources of this kind together know.
    fn hear_of_company(&mut self, _readings: u32) {}

    /// One of the same kind for another thread, which tells the same of the same process once it has heard of the same company; none where
    /// sources of this kind remember something else of what they read.
    fn another(&self) -> Option<Box<dyn Source>> {
        None
    }

    /// The bits of a present entry that are a frame's address ([`crate::Entry::physical`]).
    fn frame_mask(&self) -> u64;

    /// Clears the accessed bits of a part of what was read last, `pages` present entries, if that is
    /// expected to hold the process up for no longer than `at_most`.
    ///
    /// # Errors
    /// The process is gone, or may not be written to; its memory is locked ([`crate::access::is_locked`]).
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
