//! A reading that makes up for bits that somebody else cleared (DAMON, another reader of idle pages), and
//! that knows the huge zero page.
//!
//! Invariant: an entry is told as accessed only if its page was, and as vague if it may have been. Where
//! nobody else clears bits this costs a look at a few pages of each table.

use std::io;
use std::ops::Range;

use crate::access::{self, Access};
use crate::btf::Btf;
use crate::entry::Entry;
use crate::folios::{Folios, Layout, Mark};
use crate::lock::Locks;
use crate::mappings::{self, Mapping};
use crate::reader::{Mm, Reader, not_btf, type_information};
use crate::source::{Grain, Reading, Source, SourceKind};
use crate::unavailable::Unavailable;
use crate::walk::{Piece, Sink, Walked};
use crate::zero::HugeZero;

/// Bytes of address space that are read before the reader passes them on. Where all of it is mapped, its entries take 256 KiB.
const PART: u64 = 128 << 20;
/// Pages of a table whose folios are asked about. A folio of one page is hit by DAMON once in minutes; a
/// large one, which is a folio for all its pages, again and again: so all pages of a table are asked
/// about where one of these is a part of a large folio.
const SAMPLES: usize = 4;
/// Readings, of whatever process, for which it is remembered that somebody else was seen to clear bits: for so long
/// idle pages of small folios are asked about, too ([`ASKED_MAX`]).
const REMEMBERED: u32 = 2048;
/// Idle pages of one process that are asked about in a reading because of that, some milliseconds; where there are more,
/// each reading asks about others.
const ASKED_MAX: usize = 128 << 10;

/// The source that reads page tables, and knows what others took away.
#[derive(Debug)]
pub struct PageTables {
    reader: Reader,
    /// What the kernel notes of folios; none if it cannot be read.
    folios: Option<Folios>,
    /// Where the tree of mappings is; none where it is of another kind.
    mappings: Option<mappings::Layout>,
    /// Whether memory locks are held; none where this kernel's are of another kind.
    locks: Option<Locks>,
    /// The address space that [`Source::begin`] opened, until it is read.
    begun: Option<(u32, Mm)>,
    huge_zero: HugeZero,
    foreign: Foreign,
    /// Room for entries that wait for their folios' marks, kept so that it is not made anew each time.
    held: Vec<Entry>,
}

/// Whether somebody else clears bits, as far as it was noticed.
#[derive(Clone, Copy, Debug, Default)]
struct Foreign {
    /// Readings until it is forgotten.
    remembered: u32,
    /// Idle pages that may still be asked about in this reading.
    left: usize,
    /// Moves on with each reading, so that the pages that are asked about change.
    turn: usize,
}

/// A piece that waits for its folios' marks.
enum Unmarked {
    /// Entries that are held in the reader's buffer.
    Pages {
        number: usize,
        start: u64,
        at: Range<usize>,
    },
    Whole {
        number: usize,
        start: u64,
        bytes: u64,
        span: u64,
        entry: Entry,
    },
}

/// A huge entry of which more must be known before it is told.
fn is_open(entry: Entry) -> bool {
    is_idle(entry) || HugeZero::may_be(entry)
}

/// A present page whose bit is clear.
fn is_idle(entry: Entry) -> bool {
    entry.is_present() && !entry.is_accessed() && !entry.is_special()
}

impl PageTables {
    /// Finds what must be known of this kernel.
    ///
    /// # Errors
    /// What is missing here, and what would help.
    pub fn open() -> Result<PageTables, Unavailable> {
        let bytes = type_information()?;
        let btf = Btf::parse(&bytes).ok_or_else(not_btf)?;
        let mut reader = Reader::with(&btf)?;
        let layout = Layout::find(&btf);
        Ok(PageTables {
            folios: layout.and_then(|layout| Folios::calibrate(&mut reader, layout)),
            mappings: mappings::Layout::find(&btf),
            locks: Locks::find(&btf),
            begun: None,
            reader,
            huge_zero: HugeZero::open(),
            foreign: Foreign::default(),
            held: Vec::new(),
        })
    }

    /// How many levels the tables have: 4 or 5.
    #[must_use]
    pub fn levels(&self) -> u32 {
        self.reader.levels()
    }

    /// The address space that was opened for this process last, or anew.
    fn begun(&mut self, pid: u32) -> io::Result<Mm> {
        match self.begun.take() {
            Some((of, space)) if of == pid => Ok(space),
            _ => self.reader.attach(pid),
        }
    }

    /// Whether somebody else was seen to clear accessed bits.
    fn is_watchful(&self) -> bool {
        self.foreign.remembered > 0
    }

    /// As [`Reader::walk`], with what others took away put back.
    ///
    /// # Errors
    /// As [`Reader::walk`].
    fn walk_all(
        &mut self,
        space: &Mm,
        ranges: &[Range<u64>],
        sink: &mut Sink<'_>,
    ) -> io::Result<Walked> {
        let mut walked = Walked::default();
        self.foreign.remembered = self.foreign.remembered.saturating_sub(1);
        self.foreign.left = ASKED_MAX;
        self.foreign.turn = self.foreign.turn.wrapping_add(1);
        for (numbers, part) in parts(ranges) {
            let mut held = Vec::new();
            let mut buffer = std::mem::take(&mut self.held);
            buffer.clear();
            let read = self.reader.walk(space, &part, &mut |place, piece| {
                let number = numbers[place];
                match piece {
                    Piece::Pages { start, entries }
                        if entries.iter().any(|entry| is_idle(*entry)) =>
                    {
                        let from = buffer.len();
                        buffer.extend_from_slice(entries);
                        let at = from..buffer.len();
                        held.push(Unmarked::Pages { number, start, at });
                    }
                    Piece::Whole {
                        start,
                        bytes,
                        span,
                        entry,
                    } if is_open(entry) => {
                        held.push(Unmarked::Whole {
                            number,
                            start,
                            bytes,
                            span,
                            entry,
                        });
                    }
                    _ => sink(number, piece),
                }
            })?;
            walked.tables += read.tables;
            walked.again += read.again;
            self.mark_wholes(&mut held)?;
            self.mark_pages(&held, &mut buffer)?;
            for one in &held {
                one.tell(&buffer, sink);
            }
            self.held = buffer;
        }
        Ok(walked)
    }

    /// Asks about huge pages, all of them: they are few.
    fn mark_wholes(&mut self, held: &mut [Unmarked]) -> io::Result<()> {
        let mask = self.reader.mask;
        let first = |entry: Entry, span: u64| (entry.physical(mask) & !(span - 1)) >> 12;
        let frames: Vec<u64> = held
            .iter()
            .filter_map(|one| match one {
                Unmarked::Whole { entry, span, .. } => Some(first(*entry, *span)),
                Unmarked::Pages { .. } => None,
            })
            .collect();
        let mut marks = self.marks(&frames, true)?.into_iter();
        for one in held {
            let Unmarked::Whole { entry, span, .. } = one else {
                continue;
            };
            let mark = marks
                .next()
                .filter(|_| is_idle(*entry))
                .unwrap_or(Mark::None);
            if HugeZero::may_be(*entry) && self.huge_zero.is(first(*entry, *span)) {
                *entry = entry.special();
                continue;
            }
            self.notice(mark);
            *entry = marked(*entry, mark);
        }
        Ok(())
    }

    /// Asks about some idle pages of each table, and about all where large folios are, or where somebody
    /// was seen to clear bits.
    fn mark_pages(&mut self, held: &[Unmarked], buffer: &mut [Entry]) -> io::Result<()> {
        let mask = self.reader.mask;
        let idle = |entries: &[Entry], frames: &mut Vec<u64>| {
            let idle = entries.iter().filter(|entry| is_idle(**entry));
            frames.extend(idle.map(|entry| entry.physical(mask) >> 12));
        };
        let tables: Vec<Range<usize>> = held.iter().filter_map(Unmarked::place).collect();
        let (mut frames, mut samples, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        for at in &tables {
            frames.clear();
            idle(&buffer[at.clone()], &mut frames);
            let before = samples.len();
            spread(&frames, &mut samples);
            counts.push((samples.len() - before, frames.len()));
        }
        let mut marks = self.samples(&samples)?.into_iter();
        let mut is_large = Vec::with_capacity(tables.len());
        for (sampled, _) in &counts {
            let of_table: Vec<(Mark, bool)> = marks.by_ref().take(*sampled).collect();
            of_table.iter().for_each(|(mark, _)| self.notice(*mark));
            is_large.push(of_table.iter().any(|(_, is_large)| *is_large));
        }
        let mut asked = Vec::new();
        for step in 0..tables.len() {
            let place = (step + self.foreign.turn.wrapping_mul(67)) % tables.len();
            let pages = counts[place].1;
            let has_room = self.is_watchful() && self.foreign.left >= pages;
            if is_large[place] || has_room {
                self.foreign.left = self.foreign.left.saturating_sub(pages);
                asked.push(tables[place].clone());
            }
        }
        frames.clear();
        asked
            .iter()
            .for_each(|at| idle(&buffer[at.clone()], &mut frames));
        let mut marks = self.marks(&frames, false)?.into_iter();
        for at in asked {
            for entry in buffer[at].iter_mut().filter(|entry| is_idle(**entry)) {
                let mark = marks.next().unwrap_or(Mark::None);
                self.notice(mark);
                *entry = marked(*entry, mark);
            }
        }
        Ok(())
    }

    fn marks(&mut self, frames: &[u64], is_whole: bool) -> io::Result<Vec<Mark>> {
        match self.folios {
            Some(folios) => folios.marks(&mut self.reader, frames, is_whole),
            None => Ok(vec![Mark::None; frames.len()]),
        }
    }

    fn samples(&mut self, frames: &[u64]) -> io::Result<Vec<(Mark, bool)>> {
        match self.folios {
            Some(folios) => folios.folio_marks(&mut self.reader, frames),
            None => Ok(vec![(Mark::None, false); frames.len()]),
        }
    }

    fn notice(&mut self, mark: Mark) {
        if mark != Mark::None {
            self.foreign.remembered = REMEMBERED;
        }
    }
}

impl Source for PageTables {
    fn kind(&self) -> SourceKind {
        SourceKind::PageTables
    }

    fn grain(&self) -> Grain {
        Grain::Page
    }

    fn read(
        &mut self,
        pid: u32,
        ranges: &[Range<u64>],
        sink: &mut Sink<'_>,
    ) -> io::Result<Reading> {
        let space = self.begun(pid)?;
        let walked = self.walk_all(&space, ranges, sink)?;
        let reading = Reading {
            space: space.id(),
            hides: space.has_secondary_mmu(),
            walked,
        };
        self.begun = Some((pid, space));
        Ok(reading)
    }

    fn peek(&mut self, pid: u32, ranges: &[Range<u64>], sink: &mut Sink<'_>) -> io::Result<()> {
        let space = self.begun(pid)?;
        self.reader.walk(&space, ranges, sink).map(drop)
    }

    fn begin(&mut self, pid: u32) -> io::Result<()> {
        self.begun = None;
        self.begun = Some((pid, self.reader.attach(pid)?));
        Ok(())
    }

    fn end(&mut self) {
        self.begun = None;
    }

    fn mappings(&mut self, pid: u32) -> io::Result<Option<Vec<Mapping>>> {
        let Some(layout) = self.mappings else {
            return Ok(None);
        };
        let space = self.begun(pid)?;
        let mappings = layout.read(&mut self.reader, &space);
        self.begun = Some((pid, space));
        mappings
    }

    fn is_locked(&mut self, pid: u32, access: Access) -> io::Result<bool> {
        if self.locks.is_none() {
            return Ok(false);
        }
        let space = self.begun(pid)?;
        let is_locked = match &mut self.locks {
            Some(locks) => locks.is_held(&mut self.reader, &space, access)?,
            None => false,
        };
        self.begun = Some((pid, space));
        match is_locked {
            true => access::note_locked(pid),
            false => access::note_free(pid),
        }
        Ok(is_locked)
    }

    fn company(&self) -> u32 {
        self.foreign.remembered
    }

    fn hear_of_company(&mut self, readings: u32) {
        self.foreign.remembered = readings;
    }

    fn another(&self) -> Option<Box<dyn Source>> {
        let another = PageTables::open().ok()?;
        Some(Box::new(another))
    }

    fn frame_mask(&self) -> u64 {
        self.reader.mask
    }
}

impl Unmarked {
    /// Where entries of single pages are held.
    fn place(&self) -> Option<Range<usize>> {
        match self {
            Unmarked::Pages { at, .. } => Some(at.clone()),
            Unmarked::Whole { .. } => None,
        }
    }

    fn tell(&self, buffer: &[Entry], sink: &mut Sink<'_>) {
        match self {
            Unmarked::Pages { number, start, at } => {
                let entries = &buffer[at.clone()];
                sink(
                    *number,
                    Piece::Pages {
                        start: *start,
                        entries,
                    },
                );
            }
            Unmarked::Whole {
                number,
                start,
                bytes,
                span,
                entry,
            } => {
                let (start, bytes, span, entry) = (*start, *bytes, *span, *entry);
                sink(
                    *number,
                    Piece::Whole {
                        start,
                        bytes,
                        span,
                        entry,
                    },
                );
            }
        }
    }
}

/// Adds some of `frames`, apart from each other, to `samples`.
fn spread(frames: &[u64], samples: &mut Vec<u64>) {
    let step = frames.len().div_ceil(SAMPLES).max(1);
    samples.extend(frames.iter().step_by(step));
}

/// An entry with what its folio's mark says.
fn marked(entry: Entry, mark: Mark) -> Entry {
    match mark {
        Mark::Accessed => entry.accessed(),
        Mark::OneOf => entry.vague(),
        Mark::None => entry,
    }
}

/// Ranges cut into parts of at most [`PART`] together, each with the numbers of the ranges it is made of.
fn parts(ranges: &[Range<u64>]) -> Vec<(Vec<usize>, Vec<Range<u64>>)> {
    let mut all: Vec<(Vec<usize>, Vec<Range<u64>>)> = Vec::new();
    let mut room = 0;
    for (number, range) in ranges.iter().enumerate() {
        let mut start = range.start;
        while start < range.end {
            if room == 0 {
                all.push((Vec::new(), Vec::new()));
                room = PART;
            }
            let end = range.end.min(start + room);
            if let Some((numbers, part)) = all.last_mut() {
                numbers.push(number);
                part.push(start..end);
            }
            room -= end - start;
            start = end;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_all_of_the_ranges() {
        let ranges = [
            4096..8192,
            8192..8192,
            PART..3 * PART,
            4 * PART..4 * PART + 4096,
        ];
        let parts = parts(&ranges);
        let sizes = parts
            .iter()
            .map(|(_, part)| part.iter().map(|r| r.end - r.start).sum::<u64>());
        assert!(sizes.clone().all(|size| size <= PART));
        assert_eq!(sizes.sum::<u64>(), 2 * PART + 8192);
        assert_eq!(parts[0].0, [0, 2]);
        assert_eq!(parts[0].1, [4096..8192, PART..2 * PART - 4096]);
    }

    #[test]
    fn samples_are_spread() {
        let frames: Vec<u64> = (0..10).collect();
        let mut samples = Vec::new();
        spread(&frames, &mut samples);
        spread(&frames[..1], &mut samples);
        spread(&[], &mut samples);
        assert_eq!(samples, [0, 3, 6, 9, 0]);
    }

    #[test]
    fn marks_change_idle_entries() {
        let idle = Entry(0x1001);
        assert!(marked(idle, Mark::Accessed).is_accessed());
        let vague = marked(idle, Mark::OneOf);
        assert!(vague.is_vague() && !vague.is_accessed());
        let mask = (1 << 52) - 4096;
        assert_eq!(vague.physical(mask), 0x1000);
        assert_eq!(marked(idle, Mark::None), idle);
    }
}
