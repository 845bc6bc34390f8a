//! The source that walks page tables. It finds out which accessed bits a foreign clearer (DAMON,
//! idle page tracking) cleared, and recognizes the huge zero page.
//!
//! Invariant: an entry is reported as accessed only if its page was accessed. It is reported as
//! vague ([`Entry::is_vague`]) if the page may have been accessed. While there is no foreign
//! clearer, finding that out costs a check of a few pages of each table.

use std::io;
use std::ops::Range;

use crate::access::{self, Access};
use crate::btf::Btf;
use crate::entry::Entry;
use crate::folios::{Folios, Layout, Mark};
use crate::lock::Locks;
use crate::mappings::{self, Mapping};
use crate::noreuse;
use crate::reader::{Mm, Reader, not_btf, type_information};
use crate::source::{Source, SourceKind, WalkResult};
use crate::unavailable::Unavailable;
use crate::walk::{Piece, Sink, Walked, Whole};
use crate::zero::HugeZero;

/// Number of bytes of address space that are read before their entries are passed on. The entries
/// take at most 256 KiB: 8 bytes for each page of 4 KiB.
const PART: u64 = 128 << 20;
/// Number of idle pages in each table whose folios' young marks ([`crate::folios`]) are read to
/// notice a foreign clearer. DAMON clears the bit of a one-page folio about once in some minutes,
/// so a few samples are enough. But it clears bits of a large folio again and again, since it may
/// sample any of its pages. So if a sampled page is part of a large folio, the marks of all idle
/// pages of the table are read.
const SAMPLES: usize = 4;
/// Number of walks, of any process, for which a foreign clearer is remembered. In these walks the
/// marks of idle pages in small folios are read, too: up to [`REQUESTED_MAX`] per walk.
const REMEMBERED: u32 = 2048;
/// Maximum number of idle pages in small folios whose marks one walk reads, which takes some
/// milliseconds. If a process has more such pages, each walk begins at another table.
const REQUESTED_MAX: usize = 128 << 10;

/// The source of accessed bits that reads page tables, and finds what foreign clearers cleared.
#[derive(Debug)]
pub struct PageTables {
    reader: Reader,
    /// Finds the page structures of frames, for the young marks; `None` if these cannot be read.
    folios: Option<Folios>,
    /// Offsets in the kernel's tree of mappings; `None` if this kernel has another kind of tree.
    mappings: Option<mappings::Layout>,
    /// Checks memory locks; `None` if this kernel has another kind of lock.
    locks: Option<Locks>,
    /// The process and address space that [`Source::begin`] or the last walk opened.
    begun: Option<(u32, Mm)>,
    huge_zero: HugeZero,
    foreign: Foreign,
    /// Empty buffer of entries for the next walk; kept so that a walk need not allocate it.
    spare: Vec<Entry>,
}

/// What this source remembers of a foreign clearer, and how far this walk has checked for one.
#[derive(Clone, Copy, Debug, Default)]
struct Foreign {
    /// Number of walks until the foreign clearer is forgotten; 0 if none is remembered.
    remembered: u32,
    /// Number of idle pages of small folios that this walk may still check.
    checks_left: usize,
    /// Number of walks so far. The order in which tables are checked depends on it.
    walks: usize,
}

/// A piece of a walk that is buffered until the marks of its folios are read. `number` is the index
/// of the piece's range, `start` the piece's address.
enum Unmarked {
    /// Entries of 4 KiB pages: those at the indices `at` of the buffer of entries.
    Pages {
        number: usize,
        start: u64,
        at: Range<usize>,
    },
    /// One entry that covers the whole piece ([`Piece::Whole`]).
    Whole { number: usize, whole: Whole },
}

/// Whether a huge entry must be checked before it is passed on: its page is idle, or may be the
/// huge zero page.
fn needs_check(entry: Entry) -> bool {
    is_idle(entry) || HugeZero::may_be(entry)
}

/// Whether an entry is of a present page with a clear accessed bit.
fn is_idle(entry: Entry) -> bool {
    entry.is_present() && !entry.is_accessed() && !entry.is_special()
}

impl PageTables {
    /// Finds the constants of the running kernel and loads the BPF program.
    ///
    /// # Errors
    /// [`Unavailable`]: what is missing on this host, with a hint.
    pub fn open() -> Result<PageTables, Unavailable> {
        PageTables::with(noreuse::find)
    }

    /// Does what [`PageTables::open`] does; `used_once` returns the bit of an open file's mode that
    /// marks the file as used only once.
    fn with(
        used_once: impl FnOnce(&mut Reader, mappings::Layout) -> u32,
    ) -> Result<PageTables, Unavailable> {
        let bytes = type_information()?;
        let btf = Btf::parse(&bytes).ok_or_else(not_btf)?;
        let mut reader = Reader::with(&btf)?;
        let layout = Layout::find(&btf);
        let mappings = mappings::Layout::find(&btf);
        Ok(PageTables {
            folios: layout.and_then(|layout| Folios::calibrate(&mut reader, layout)),
            mappings: mappings.map(|layout| layout.with_used_once(used_once(&mut reader, layout))),
            locks: Locks::find(&btf),
            begun: None,
            reader,
            huge_zero: HugeZero::open(),
            foreign: Foreign::default(),
            spare: Vec::new(),
        })
    }

    /// Number of levels of the page tables: 4 or 5.
    #[must_use]
    pub fn levels(&self) -> u32 {
        self.reader.levels()
    }

    /// Whether [`Mapping::is_advised`] covers MADV_SEQUENTIAL and MADV_RANDOM, then whether it
    /// covers POSIX_FADV_NOREUSE.
    #[must_use]
    pub fn sees_advice(&self) -> (bool, bool) {
        let used_once = self.mappings.map_or(0, mappings::Layout::used_once);
        (self.mappings.is_some(), used_once != 0)
    }

    /// Returns the address space that was opened for this process, and removes it from
    /// [`PageTables::begun`]; opens it if none was opened.
    fn begun(&mut self, pid: u32) -> io::Result<Mm> {
        match self.begun.take() {
            Some((of, space)) if of == pid => Ok(space),
            _ => self.reader.attach(pid),
        }
    }

    /// Whether a foreign clearer was noticed in the last [`REMEMBERED`] walks.
    fn is_watchful(&self) -> bool {
        self.foreign.remembered > 0
    }

    /// Does what [`Reader::walk`] does, and sets accessed bits again that a foreign clearer
    /// cleared.
    ///
    /// # Errors
    /// The same as those of [`Reader::walk`].
    fn walk_all(
        &mut self,
        space: &Mm,
        ranges: &[Range<u64>],
        sink: &mut Sink<'_>,
    ) -> io::Result<Walked> {
        let mut walked = Walked::default();
        self.foreign.remembered = self.foreign.remembered.saturating_sub(1);
        self.foreign.checks_left = REQUESTED_MAX;
        self.foreign.walks = self.foreign.walks.wrapping_add(1);
        for (numbers, part) in parts(ranges) {
            let mut unmarked = Vec::new();
            let mut buffer = std::mem::take(&mut self.spare);
            buffer.clear();
            let read = self.reader.walk(space, &part, &mut |index, piece| {
                let number = numbers[index];
                match piece {
                    Piece::Pages { start, entries }
                        if entries.iter().any(|entry| is_idle(*entry)) =>
                    {
                        let from = buffer.len();
                        buffer.extend_from_slice(entries);
                        let at = from..buffer.len();
                        unmarked.push(Unmarked::Pages { number, start, at });
                    }
                    Piece::Whole(whole) if needs_check(whole.entry) => {
                        unmarked.push(Unmarked::Whole { number, whole });
                    }
                    _ => sink(number, piece),
                }
            })?;
            walked.tables += read.tables;
            walked.again += read.again;
            self.mark_wholes(&mut unmarked)?;
            self.mark_pages(&unmarked, &mut buffer)?;
            for one in &unmarked {
                one.pass_on(&buffer, sink);
            }
            self.spare = buffer;
        }
        Ok(walked)
    }

    /// Changes the huge entries in `unmarked`: an entry that maps the huge zero page becomes
    /// special; any other gets the young mark of its folio. The marks of all huge pages are read,
    /// since these are few.
    fn mark_wholes(&mut self, unmarked: &mut [Unmarked]) -> io::Result<()> {
        let mask = self.reader.mask;
        let first = |whole: &Whole| (whole.entry.physical(mask) & !(whole.span - 1)) >> 12;
        let frames: Vec<u64> = unmarked
            .iter()
            .filter_map(|one| match one {
                Unmarked::Whole { whole, .. } => Some(first(whole)),
                Unmarked::Pages { .. } => None,
            })
            .collect();
        let mut marks = self.marks(&frames, true)?.into_iter();
        for one in unmarked {
            let Unmarked::Whole { whole, .. } = one else {
                continue;
            };
            let entry = whole.entry;
            let mark = marks
                .next()
                .filter(|_| is_idle(entry))
                .unwrap_or(Mark::None);
            if HugeZero::may_be(entry) && self.huge_zero.is(first(whole)) {
                whole.entry = entry.special();
                continue;
            }
            self.note_mark(mark);
            whole.entry = marked(entry, mark);
        }
        Ok(())
    }

    /// Changes the entries of 4 KiB pages in `buffer` by the young marks of their folios. Reads the
    /// marks of [`SAMPLES`] idle pages of each table. Reads those of all its idle pages if a
    /// sampled page is in a large folio, or if a foreign clearer is remembered.
    fn mark_pages(&mut self, unmarked: &[Unmarked], buffer: &mut [Entry]) -> io::Result<()> {
        let mask = self.reader.mask;
        let idle = |entries: &[Entry], frames: &mut Vec<u64>| {
            let idle = entries.iter().filter(|entry| is_idle(**entry));
            frames.extend(idle.map(|entry| entry.physical(mask) >> 12));
        };
        let tables: Vec<Range<usize>> = unmarked.iter().filter_map(Unmarked::buffered).collect();
        let (mut frames, mut samples, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        for at in &tables {
            frames.clear();
            idle(&buffer[at.clone()], &mut frames);
            let before = samples.len();
            add_samples(&frames, &mut samples);
            counts.push((samples.len() - before, frames.len()));
        }
        let mut marks = self.samples(&samples)?.into_iter();
        let mut is_large = Vec::with_capacity(tables.len());
        for (sampled, _) in &counts {
            let of_table: Vec<(Mark, bool)> = marks.by_ref().take(*sampled).collect();
            of_table.iter().for_each(|(mark, _)| self.note_mark(*mark));
            is_large.push(of_table.iter().any(|(_, is_large)| *is_large));
        }
        let mut requested = Vec::new();
        for step in 0..tables.len() {
            let index = (step + self.foreign.walks.wrapping_mul(67)) % tables.len();
            let pages = counts[index].1;
            let has_room = self.is_watchful() && self.foreign.checks_left >= pages;
            if is_large[index] || has_room {
                self.foreign.checks_left = self.foreign.checks_left.saturating_sub(pages);
                requested.push(tables[index].clone());
            }
        }
        frames.clear();
        requested
            .iter()
            .for_each(|at| idle(&buffer[at.clone()], &mut frames));
        let mut marks = self.marks(&frames, false)?.into_iter();
        for at in requested {
            for entry in buffer[at].iter_mut().filter(|entry| is_idle(**entry)) {
                let mark = marks.next().unwrap_or(Mark::None);
                self.note_mark(mark);
                *entry = marked(*entry, mark);
            }
        }
        Ok(())
    }

    /// Returns the mark of each frame's folio ([`Folios::marks`]); [`Mark::None`] if marks cannot
    /// be read.
    fn marks(&mut self, frames: &[u64], is_whole: bool) -> io::Result<Vec<Mark>> {
        match self.folios {
            Some(folios) => folios.marks(&mut self.reader, frames, is_whole),
            None => Ok(vec![Mark::None; frames.len()]),
        }
    }

    /// Returns for each frame the mark of its folio, and whether the folio has several pages.
    fn samples(&mut self, frames: &[u64]) -> io::Result<Vec<(Mark, bool)>> {
        match self.folios {
            Some(folios) => folios.folio_marks(&mut self.reader, frames),
            None => Ok(vec![(Mark::None, false); frames.len()]),
        }
    }

    /// Remembers a foreign clearer if a folio is marked.
    fn note_mark(&mut self, mark: Mark) {
        if mark != Mark::None {
            self.foreign.remembered = REMEMBERED;
        }
    }
}

impl Source for PageTables {
    fn kind(&self) -> SourceKind {
        SourceKind::PageTables
    }

    fn read(
        &mut self,
        pid: u32,
        ranges: &[Range<u64>],
        sink: &mut Sink<'_>,
    ) -> io::Result<WalkResult> {
        let space = self.begun(pid)?;
        let walked = self.walk_all(&space, ranges, sink)?;
        let reading = WalkResult {
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

    fn foreign_clearer(&self) -> u32 {
        self.foreign.remembered
    }

    fn hear_of_foreign_clearer(&mut self, readings: u32) {
        self.foreign.remembered = readings;
    }

    fn another(&self) -> Option<Box<dyn Source>> {
        // Both sources must report the same advice, so the new one gets the bit that this one has
        // found.
        let used_once = self.mappings.map_or(0, mappings::Layout::used_once);
        let another = PageTables::with(|_, _| used_once).ok()?;
        Some(Box::new(another))
    }

    fn frame_mask(&self) -> u64 {
        self.reader.mask
    }
}

impl Unmarked {
    /// The indices of the piece's entries in the buffer; `None` for a piece with a single entry.
    fn buffered(&self) -> Option<Range<usize>> {
        match self {
            Unmarked::Pages { at, .. } => Some(at.clone()),
            Unmarked::Whole { .. } => None,
        }
    }

    /// Passes the piece on to `sink`.
    fn pass_on(&self, buffer: &[Entry], sink: &mut Sink<'_>) {
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
            Unmarked::Whole { number, whole } => sink(*number, Piece::Whole(*whole)),
        }
    }
}

/// Adds up to [`SAMPLES`] of `frames`, evenly spread, to `samples`.
fn add_samples(frames: &[u64], samples: &mut Vec<u64>) {
    let step = frames.len().div_ceil(SAMPLES).max(1);
    samples.extend(frames.iter().step_by(step));
}

/// Returns the entry, changed to what the mark of its folio means.
fn marked(entry: Entry, mark: Mark) -> Entry {
    match mark {
        Mark::Accessed => entry.accessed(),
        Mark::OneOf => entry.vague(),
        Mark::None => entry,
    }
}

/// Splits the ranges into groups of at most [`PART`] bytes each. A group has the split ranges, and
/// for each of them the index in `ranges` of the range that it is a part of.
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
    fn parts_cover_the_ranges() {
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
        add_samples(&frames, &mut samples);
        add_samples(&frames[..1], &mut samples);
        add_samples(&[], &mut samples);
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
