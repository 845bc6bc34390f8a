//! One reading of page tables: all entries of some ranges of an address space.
//!
//! Invariant: each page of each range is told exactly once, as an entry that was in its table while the
//! way to that table was as we had read it, or as [`Piece::Unsure`]. The upper entries are read again in
//! the same run of the program, behind the leaf tables, so that a table which was freed (and perhaps
//! used again) meanwhile is noticed.

use std::io;
use std::ops::Range;

use crate::entry::Entry;
use crate::reader::{GIB, Mm, Reader};

const MIB2: u64 = 2 << 20;
/// Regions of 1 GiB whose upper tables are read together.
const REGIONS: usize = 32;
/// Leaf tables in one run: those of 1 GiB. The way to them fits beside ([`crate::program::COPIES`]).
const LEAVES: usize = 512;
/// Readings before a table that changes all the time is given up.
const TRIES: u32 = 4;

/// What a reading tells.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'a> {
    /// Entries of 4 KiB pages, from the address `start` on.
    Pages {
        /// The first page's address.
        start: u64,
        /// Their entries.
        entries: &'a [Entry],
    },
    /// A part of a huge page, or of a hole above the last level: one entry for all of it.
    Whole {
        /// The part's address.
        start: u64,
        /// The part's length in bytes.
        bytes: u64,
        /// The entry's own span in bytes: 2 MiB, 1 GiB or more.
        span: u64,
        /// The entry.
        entry: Entry,
    },
    /// The tables changed while they were read, several times.
    Unsure {
        /// The part's address.
        start: u64,
        /// The part's length in bytes.
        bytes: u64,
    },
}

/// What a reading cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// Last-level tables that were read.
    pub tables: u64,
    /// Tables that had to be read again.
    pub again: u64,
}

/// The 2 MiB that one leaf table maps.
#[derive(Clone, Copy, Debug)]
struct Leaf {
    /// Address of the region of 1 GiB that it is in.
    region: u64,
    /// Its own address.
    start: u64,
}

impl Leaf {
    fn span(self) -> Range<u64> {
        self.start..self.start + MIB2
    }
}

/// A region of 1 GiB, and the way to its table of the second level.
struct Region {
    base: u64,
    /// Addresses and values of the entries on the way.
    way: Vec<(u64, Entry)>,
    /// The address of its second-level table; 0 if the way ends above.
    table: u64,
    /// That table; the entry that ends the way, 512 times, if there is none.
    entries: Box<[Entry; 512]>,
    /// The span of one of these entries.
    span: u64,
}

/// Takes a range's number and a piece of it.
pub type Sink<'a> = dyn FnMut(usize, Piece<'_>) + 'a;

/// A reading under way.
struct Pass<'a, 'b> {
    ranges: &'a [Range<u64>],
    sink: &'a mut Sink<'b>,
    walked: Walked,
    /// To be read again.
    again: Vec<Leaf>,
    /// Nothing of these regions was told yet.
    is_first: bool,
    /// What changes once more is given up.
    is_last: bool,
}

impl Reader {
    /// Tells `sink` all entries of `ranges`, which ascend, do not overlap and are whole pages.
    ///
    /// # Errors
    /// The program cannot be run. (Memory that vanishes meanwhile is no error.)
    pub fn walk(
        &mut self,
        space: &Mm,
        ranges: &[Range<u64>],
        sink: &mut Sink<'_>,
    ) -> io::Result<Walked> {
        debug_assert!(ranges.windows(2).all(|two| two[0].end <= two[1].start));
        let (walked, again) = (Walked::default(), Vec::new());
        let mut pass = Pass {
            ranges,
            sink,
            walked,
            again,
            is_first: true,
            is_last: false,
        };
        for group in regions_of(ranges).chunks(REGIONS) {
            let pieces = group.iter().flat_map(|base| tables_in(*base, ranges));
            let mut wanted: Vec<Leaf> = pieces.collect();
            for attempt in 1..=TRIES {
                (pass.is_first, pass.is_last) = (attempt == 1, attempt == TRIES);
                let regions = self.descend(space, &wanted)?;
                self.read_leaves(&regions, &wanted, &mut pass)?;
                wanted = std::mem::take(&mut pass.again);
                if wanted.is_empty() {
                    break;
                }
                pass.walked.again += wanted.len() as u64;
            }
        }
        Ok(pass.walked)
    }

    /// Reads the upper tables of the regions in which `wanted` lies, level by level, all at once.
    fn descend(&mut self, space: &Mm, wanted: &[Leaf]) -> io::Result<Vec<Region>> {
        let mut regions: Vec<Region> = Vec::new();
        for leaf in wanted {
            if regions.last().is_none_or(|last| last.base != leaf.region) {
                regions.push(Region::new(leaf.region, space.pgd));
            }
        }
        let mut shift = self.top_shift();
        while shift >= 30 {
            for region in regions.iter_mut().filter(|region| region.table != 0) {
                let at = region.table.wrapping_add((region.base >> shift & 511) * 8);
                self.copier.ask(at, 8);
                region.way.push((at, Entry(0)));
            }
            self.copier.run()?;
            let (copier, mask, direct_map) = (&self.copier, self.mask, self.direct_map);
            let open = regions.iter_mut().filter(|region| region.table != 0);
            for (number, region) in open.enumerate() {
                let entry = Entry(copier.answer(number).map_or(0, |words| words[0]));
                if let Some(step) = region.way.last_mut() {
                    step.1 = entry;
                }
                if !entry.is_present() || (shift == 30 && entry.is_huge()) {
                    // The way ends here: one entry stands for all that is below.
                    *region = Region {
                        table: 0,
                        span: 1 << shift,
                        entries: Box::new([entry; 512]),
                        way: Vec::new(),
                        ..*region
                    };
                } else {
                    region.table = direct_map.wrapping_add(entry.physical(mask));
                }
            }
            shift -= 9;
        }
        for region in regions.iter().filter(|region| region.table != 0) {
            self.copier.ask(region.table, 4096);
        }
        self.copier.run()?;
        let open = regions.iter_mut().filter(|region| region.table != 0);
        for (number, region) in open.enumerate() {
            if let Some(words) = self.copier.answer(number) {
                *region.entries = std::array::from_fn(|index| Entry(words[index]));
            }
        }
        Ok(regions)
    }

    /// Reads and tells the 2 MiB pieces in `wanted`.
    fn read_leaves(
        &mut self,
        regions: &[Region],
        wanted: &[Leaf],
        pass: &mut Pass<'_, '_>,
    ) -> io::Result<()> {
        let mut batch: Vec<(usize, Leaf)> = Vec::with_capacity(LEAVES);
        let (mut at, mut told) = (0, None);
        for leaf in wanted {
            let base = leaf.region;
            if told == Some(base) {
                continue;
            }
            while regions[at].base != base {
                at += 1;
            }
            let entry = regions[at].entry(leaf.start);
            // Programs reserve terabytes: told in pieces of 2 MiB, ThreadSanitizer's 133 TiB took 35 s.
            if regions[at].table == 0 && !entry.is_present() && pass.is_first {
                pass.tell_whole(base..base + GIB, regions[at].span, entry);
                told = Some(base);
                continue;
            }
            if regions[at].table == 0 || entry.is_huge() || !entry.is_present() {
                pass.tell_whole(leaf.span(), regions[at].span, entry);
                continue;
            }
            batch.push((at, *leaf));
            if batch.len() == LEAVES {
                self.read_batch(regions, &batch, pass)?;
                batch.clear();
            }
        }
        if batch.is_empty() {
            return Ok(());
        }
        self.read_batch(regions, &batch, pass)
    }

    /// One run: these leaf tables, then the way to them.
    fn read_batch(
        &mut self,
        regions: &[Region],
        batch: &[(usize, Leaf)],
        pass: &mut Pass<'_, '_>,
    ) -> io::Result<()> {
        for (index, leaf) in batch {
            let table = regions[*index].entry(leaf.start).physical(self.mask);
            self.copier.ask(self.direct_map.wrapping_add(table), 4096);
        }
        let (first, last) = (batch[0].0, batch[batch.len() - 1].0);
        // For each region of the batch, the numbers of its way's answers, the table's last.
        let mut checks: Vec<Vec<usize>> = Vec::with_capacity(last - first + 1);
        for region in &regions[first..=last] {
            let steps = region.way.iter().map(|(at, _)| (*at, 8));
            let table = (region.table != 0).then_some((region.table, 4096));
            let asked = steps
                .chain(table)
                .map(|(at, bytes)| self.copier.ask(at, bytes));
            checks.push(asked.collect());
        }
        self.copier.run()?;
        pass.walked.tables += batch.len() as u64;
        let checked = regions[first..=last].iter().zip(&checks);
        let tables: Vec<Option<&[u64]>> = checked
            .map(|(region, check)| self.table_if_same(region, check))
            .collect();
        for (number, (index, leaf)) in batch.iter().enumerate() {
            let region = &regions[*index];
            let slot = region.slot(leaf.start);
            let now = tables[*index - first].map(|table| Entry(table[slot]));
            let is_same = now.is_some_and(|now| now.leads_where(region.entries[slot], self.mask));
            match self.copier.answer(number).filter(|_| is_same) {
                Some(words) => pass.tell_pages(leaf.span(), words),
                None if pass.is_last => pass.tell_unsure(leaf.span()),
                None => pass.again.push(*leaf),
            }
        }
        Ok(())
    }

    /// A region's second-level table as it is now, if the way to it is the way that we came.
    fn table_if_same(&self, region: &Region, check: &[usize]) -> Option<&[u64]> {
        let (table, steps) = check.split_last()?;
        let is_same = steps.iter().zip(&region.way).all(|(number, (_, before))| {
            let now = self.copier.answer(*number).map_or(0, |words| words[0]);
            before.leads_where(Entry(now), self.mask)
        });
        is_same.then(|| self.copier.answer(*table)).flatten()
    }
}

impl Region {
    fn new(base: u64, table: u64) -> Region {
        let (way, entries) = (Vec::with_capacity(3), Box::new([Entry(0); 512]));
        Region {
            base,
            way,
            table,
            entries,
            span: MIB2,
        }
    }

    fn slot(&self, start: u64) -> usize {
        usize::try_from(start >> 21 & 511).unwrap_or(0)
    }

    fn entry(&self, start: u64) -> Entry {
        self.entries[self.slot(start)]
    }
}

/// The leaves of the region at `region` in which something of `ranges` lies.
fn tables_in(region: u64, ranges: &[Range<u64>]) -> Vec<Leaf> {
    let end = region + GIB;
    let mut pieces: Vec<Leaf> = Vec::new();
    let from = ranges.partition_point(|range| range.end <= region);
    for range in ranges[from..].iter().take_while(|range| range.start < end) {
        if range.is_empty() {
            continue;
        }
        let first = range.start.max(region) & !(MIB2 - 1);
        let next = pieces
            .last()
            .map_or(first, |last| first.max(last.span().end));
        let starts = (next..range.end.min(end)).step_by(2 << 20);
        pieces.extend(starts.map(|start| Leaf { region, start }));
    }
    pieces
}

/// The parts of `ranges` in `span`, with their numbers.
fn clip(span: &Range<u64>, ranges: &[Range<u64>], mut tell: impl FnMut(usize, Range<u64>)) {
    let from = ranges.partition_point(|range| range.end <= span.start);
    for (number, range) in ranges.iter().enumerate().skip(from) {
        if range.start >= span.end {
            break;
        }
        let part = range.start.max(span.start)..range.end.min(span.end);
        if !part.is_empty() {
            tell(number, part);
        }
    }
}

impl Pass<'_, '_> {
    fn tell_pages(&mut self, span: Range<u64>, words: &[u64]) {
        let entries: [Entry; 512] = std::array::from_fn(|index| Entry(words[index]));
        let index = |at: u64| usize::try_from((at - span.start) >> 12).unwrap_or(0);
        clip(&span, self.ranges, |number, part| {
            let (start, entries) = (part.start, &entries[index(part.start)..index(part.end)]);
            (self.sink)(number, Piece::Pages { start, entries });
        });
    }

    /// All of `whole` is one entry, which maps `span` bytes.
    fn tell_whole(&mut self, whole: Range<u64>, span: u64, entry: Entry) {
        clip(&whole, self.ranges, |number, part| {
            let (start, bytes) = (part.start, part.end - part.start);
            (self.sink)(
                number,
                Piece::Whole {
                    start,
                    bytes,
                    span,
                    entry,
                },
            );
        });
    }

    fn tell_unsure(&mut self, span: Range<u64>) {
        clip(&span, self.ranges, |number, part| {
            let (start, bytes) = (part.start, part.end - part.start);
            (self.sink)(number, Piece::Unsure { start, bytes });
        });
    }
}

/// The bases of the regions of 1 GiB in which something of `ranges` lies.
fn regions_of(ranges: &[Range<u64>]) -> Vec<u64> {
    let mut bases: Vec<u64> = Vec::new();
    for range in ranges.iter().filter(|range| !range.is_empty()) {
        let first = range.start & !(GIB - 1);
        let from = bases.last().map_or(first, |last| first.max(last + GIB));
        bases.extend((from..range.end).step_by(1 << 30));
    }
    bases
}

#[cfg(test)]
mod tests;
