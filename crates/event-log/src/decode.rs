//! Decodes the frames of a recording into scans.
//!
//! Invariant: after each scan the decoder has the same bits as the encoder had. A frame that breaks
//! a rule of the format is [`Damaged`]; no scan is made from it.

use std::collections::BTreeMap;

use crate::item;
use crate::order::shuffle;
use crate::pages::{CHUNK_PAGES, Pages, Planes, WORD_PAGES};
use crate::runs::{self, Run};
use crate::unit::Unit;
use crate::{Header, PAGE_BITS, SPACES_MAX, varint};

/// Maximum number of chunks in all address spaces together. So many chunks cover 2 TiB of addresses
/// and take about 300 MiB of the decoder's memory. It is also the maximum number of chunks that
/// change in one scan; their previous bits take about 300 MiB, too.
pub const CHUNKS_MAX: usize = 1 << 20;
/// Upper bound of a scan's time in milliseconds since the recording began: some thousands of years.
const TIME_MAX: u64 = 1 << 47;

/// The error for a frame that breaks a rule of the format; the text says which rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged(pub &'static str);

impl std::fmt::Display for Damaged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Damaged {}

/// The kind of a decoded frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// The header; see [`Decoder::header`].
    Header,
    /// A part of a scan; the scan goes on in the next frame.
    Part,
    /// The last frame of a scan; see [`Decoder::scan`].
    Scan,
    /// The end of the recording; no frame may follow.
    End,
}

/// What one scan of a program found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Time of the scan, milliseconds since the recording began.
    pub now_ms: u64,
    /// Pages that were accessed since the previous scan, in the order in which to replay the
    /// accesses. The first scan lists all present pages: first those with a clear accessed bit,
    /// then the others.
    pub accessed: Vec<Unit>,
    /// Pages that the program unmapped since the previous scan, or that were freed when it ended.
    pub unmapped: Vec<Unit>,
    /// Number of pages that were paged out since the previous scan.
    pub left: u64,
    /// Number of pages that refaulted since the previous scan.
    pub back: u64,
    /// Number of pages for which the scan could not find out whether they were accessed. They are
    /// listed as accessed.
    pub unknown: u64,
}

/// The decoder's state of one address space.
#[derive(Debug, Default)]
struct Space {
    /// The bits of the address space's pages, after the frames read so far.
    pages: Pages,
    /// Whether the current scan contains this address space. (A scan need not read the tables of
    /// all.)
    was_read: bool,
}

/// Decodes the frames of a recording, one after the other.
#[derive(Debug, Default)]
pub struct Decoder {
    header: Option<Header>,
    spaces: BTreeMap<u32, Space>,
    /// For each chunk that changed in the current scan: its bits before the scan. The key is the
    /// number of the address space, then the number of the chunk.
    before: BTreeMap<(u32, u64), Planes>,
    /// Number of chunks of all address spaces ([`CHUNKS_MAX`]).
    chunks: usize,
    /// Time of the last scan, in milliseconds since the recording began.
    now_ms: u64,
    /// [`Scan::unknown`] of the last scan.
    unknown: u64,
    /// Number of scans read so far.
    scans: u64,
    has_ended: bool,
}

/// The number of a page in the recording ([`Unit::first`]).
fn key(space: u32, page: u64) -> u64 {
    u64::from(space) << PAGE_BITS | page
}

impl Decoder {
    /// Returns the header; `None` until its frame was read.
    #[must_use]
    pub const fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// Returns the number of scans read so far.
    #[must_use]
    pub const fn scans(&self) -> u64 {
        self.scans
    }

    /// Reads the content of the next frame.
    ///
    /// # Errors
    /// If the frame breaks a rule of the format. The decoder must not be used after an error.
    pub fn frame(&mut self, mut content: &[u8]) -> Result<Decoded, Damaged> {
        let bytes = &mut content;
        let (mut space, mut decoded) = (None, Decoded::Part);
        while let Some((&tag, rest)) = bytes.split_first() {
            *bytes = rest;
            let is_alone = decoded == Decoded::Part;
            if !is_alone || self.has_ended || self.header.is_none() != (tag == item::HEADER) {
                return Err(Damaged("data follows where the recording must end"));
            }
            match tag {
                item::HEADER => {
                    let header = Header::take(bytes);
                    self.header = Some(header.ok_or(Damaged("the header is not valid"))?);
                    decoded = Decoded::Header;
                }
                item::SPACE => space = Some(self.space(number(bytes)?)?),
                item::RUNS => {
                    let space = space.ok_or(Damaged("pages that belong to no address space"))?;
                    self.runs(space, bytes)?;
                }
                item::GONE => {
                    space = None;
                    self.gone(number(bytes)?);
                }
                item::SCAN => {
                    self.end_scan(number(bytes)?, number(bytes)?)?;
                    decoded = Decoded::Scan;
                }
                item::END => {
                    if number(bytes)? != self.scans || !self.before.is_empty() {
                        return Err(Damaged("scans are missing before the end"));
                    }
                    self.has_ended = true;
                    decoded = Decoded::End;
                }
                _ => return Err(Damaged("unknown item: from a newer pagetide?")),
            }
        }
        Ok(decoded)
    }

    /// Reads the number of the address space that the following runs belong to, and returns it.
    fn space(&mut self, number: u64) -> Result<u32, Damaged> {
        let number = u32::try_from(number).ok();
        let number = number.filter(|number| *number < SPACES_MAX);
        let number = number.ok_or(Damaged("too many address spaces"))?;
        self.spaces.entry(number).or_default().was_read = true;
        Ok(number)
    }

    /// Reads an item of runs ([`item::RUNS`]), and inverts the bits of the runs' pages in the
    /// address space `space`.
    fn runs(&mut self, space: u32, bytes: &mut &[u8]) -> Result<(), Damaged> {
        let kind = usize::try_from(number(bytes)?).ok();
        let kind = kind.filter(|kind| *kind < Planes::KINDS);
        let kind = kind.ok_or(Damaged("unknown kind of change"))?;
        let mut at = 0_u64;
        for _ in 0..number(bytes)? {
            let (gap, more) = (number(bytes)?, number(bytes)?);
            let first = at.checked_add(gap).filter(|first| *first < 1 << PAGE_BITS);
            let first = first.ok_or(Damaged("a page number above the highest address"))?;
            let end = first
                .checked_add(more)
                .filter(|last| *last < 1 << PAGE_BITS);
            at = end.ok_or(Damaged("a page number above the highest address"))? + 1;
            let pages = at - first;
            self.toggle(space, kind, Run { first, pages })?;
        }
        Ok(())
    }

    /// Inverts the bits of one kind of all pages of the run, in the address space `space`.
    fn toggle(&mut self, space: u32, kind: usize, run: Run) -> Result<(), Damaged> {
        let Decoder {
            spaces,
            before,
            chunks,
            ..
        } = self;
        let Some(of) = spaces.get_mut(&space) else {
            return Err(Damaged("pages that belong to no address space"));
        };
        let mut is_fine = true;
        runs::masks(run, |number, words| {
            let held = of.pages.len();
            let planes = of.pages.chunk_mut(number);
            before.entry((space, number)).or_insert(*planes);
            runs::toggle(planes, kind, words);
            *chunks += of.pages.len() - held;
            // Chunks that appear and disappear within the same scan count, too.
            is_fine = *chunks <= CHUNKS_MAX && before.len() <= CHUNKS_MAX;
            is_fine
        });
        match is_fine {
            true => Ok(()),
            false => Err(Damaged("more pages than an address space can have")),
        }
    }

    /// Removes an address space that has ended, with all its pages.
    fn gone(&mut self, number: u64) {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        if let Some(space) = self.spaces.remove(&number) {
            self.chunks -= space.pages.len();
            for (chunk, planes) in space.pages.0 {
                self.before.entry((number, chunk)).or_insert(planes);
            }
        }
    }

    /// Ends the current scan, `since_ms` after the previous one; fails if its bits contradict each
    /// other.
    fn end_scan(&mut self, since_ms: u64, unknown: u64) -> Result<(), Damaged> {
        let now_ms = self.now_ms.checked_add(since_ms);
        let now_ms = now_ms.filter(|now_ms| *now_ms < TIME_MAX);
        self.now_ms = now_ms.ok_or(Damaged("a time that is too large"))?;
        self.unknown = unknown;
        self.scans += 1;
        let after = |(space, number): (u32, u64)| {
            let space = self.spaces.get(&space);
            space.map_or(Planes::default(), |space| space.pages.chunk(number))
        };
        match self.before.keys().all(|at| after(*at).is_sound()) {
            true => Ok(()),
            false => Err(Damaged("a page is both in memory and swapped out")),
        }
    }

    /// Returns the last scan. Call it once after [`Decoded::Scan`], before the next frame is read.
    pub fn scan(&mut self) -> Scan {
        let mut scan = Scan {
            now_ms: self.now_ms,
            unknown: self.unknown,
            ..Scan::default()
        };
        let seed = self.header.as_ref().map_or(0, |header| header.seed);
        if self.scans == 1 {
            scan.accessed = self.units(|planes, at| planes.present[at] & !planes.accessed[at]);
            shuffle(&mut scan.accessed, seed, 0);
        }
        let mut accessed = self.units(|planes, at| planes.accessed[at]);
        shuffle(&mut accessed, seed, self.scans);
        scan.accessed.append(&mut accessed);
        for ((space, number), before) in std::mem::take(&mut self.before) {
            let of = self.spaces.get_mut(&space);
            let after = of
                .as_ref()
                .map_or(Planes::default(), |of| of.pages.chunk(number));
            if let Some(of) = of
                && after.is_empty()
                && of.pages.0.remove(&number).is_some()
            {
                self.chunks -= 1;
            }
            for at in 0..before.present.len() {
                let (was, is) = (before.present[at], after.present[at]);
                scan.left += u64::from((was & after.out[at]).count_ones());
                scan.back += u64::from((is & before.out[at]).count_ones());
                let bits = (was | before.out[at]) & !(is | after.out[at]);
                if bits != 0 {
                    let first = key(space, number * CHUNK_PAGES) + at as u64 * WORD_PAGES;
                    scan.unmapped.push(Unit { first, bits });
                }
            }
        }
        self.spaces
            .values_mut()
            .for_each(|space| space.was_read = false);
        scan
    }

    /// Returns a unit for each word of bits for which `wanted` returns at least one set bit, in the
    /// address spaces that this scan has read. The arguments of `wanted` are the bits of a chunk
    /// and the index of a word in it.
    fn units(&self, wanted: impl Fn(&Planes, usize) -> u64) -> Vec<Unit> {
        let mut units = Vec::new();
        for (space, of) in self.spaces.iter().filter(|(_, of)| of.was_read) {
            for (number, planes) in &of.pages.0 {
                for at in 0..planes.present.len() {
                    let bits = wanted(planes, at);
                    let first = key(*space, number * CHUNK_PAGES) + at as u64 * WORD_PAGES;
                    if bits != 0 {
                        units.push(Unit { first, bits });
                    }
                }
            }
        }
        units
    }
}

/// Reads a number and removes it from `bytes`.
fn number(bytes: &mut &[u8]) -> Result<u64, Damaged> {
    varint::take(bytes).ok_or(Damaged("a number is cut off or too large"))
}
