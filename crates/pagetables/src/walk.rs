//! A walk of page tables: reads all entries of some ranges of an address space.
//!
//! Invariant: each page of each range is reported exactly once: as an entry, or as
//! [`Piece::Unsure`]. An entry was in its table at a moment when the upper entries still led to
//! that table. To check this, each run of the BPF program first copies the last-level tables, then
//! the upper entries once more. So the walk notices a table that was freed (and perhaps reused)
//! meanwhile.

use std::io;
use std::ops::Range;

use crate::entry::{Entry, PAGE_SIZE};
use crate::reader::{GIB, Mm, Reader};

/// 2 MiB: what a last-level table maps.
const MIB2: u64 = 2 << 20;
/// Number of regions of 1 GiB whose upper tables are read together.
const REGIONS: usize = 32;
/// Maximum number of last-level tables in one run of the BPF program: those of 1 GiB. The upper
/// entries that lead to them fit into the same run ([`crate::program::COPIES`]).
const LEAVES: usize = 512;
/// Number of tries to read a table that changes during each try. After the last try it is reported
/// as unsure.
const TRIES: u32 = 4;

/// What a walk passes to its sink: a piece of one of the requested ranges.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'a> {
    /// Entries of consecutive 4 KiB pages.
    Pages {
        /// Address of the first page, in bytes.
        start: u64,
        /// The pages' entries, one for each page.
        entries: &'a [Entry],
    },
    /// One entry that covers all of the piece.
    Whole(Whole),
    /// A part that could not be read: its tables changed during each try.
    Unsure {
        /// Address of the part, in bytes.
        start: u64,
        /// Length of the part in bytes.
        bytes: u64,
    },
}

/// A part of a huge page, or of a hole without lower tables: one entry covers all of the part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole {
    /// Address of the part, in bytes.
    pub start: u64,
    /// Length of the part in bytes.
    pub bytes: u64,
    /// Number of bytes that the entry covers: 2 MiB, 1 GiB or more.
    pub span: u64,
    /// The page-table entry.
    pub entry: Entry,
}

impl Whole {
    /// Returns the addresses of the part.
    #[must_use]
    pub const fn range(&self) -> Range<u64> {
        self.start..self.start + self.bytes
    }
}

/// What a walk cost: numbers of tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// Number of last-level tables that were read.
    pub tables: u64,
    /// Number of tables that had to be read again because they changed.
    pub again: u64,
}

/// A last-level table: the 2 MiB of address space that it maps.
#[derive(Clone, Copy, Debug)]
struct Leaf {
    /// Address of the 1 GiB region that contains the table's 2 MiB.
    region: u64,
    /// First address that the table maps.
    start: u64,
}

impl Leaf {
    /// The addresses that the table maps.
    fn span(self) -> Range<u64> {
        self.start..self.start + MIB2
    }
}

/// A 1 GiB region of address space, and the upper entries that lead to its second-level table.
struct Region {
    /// Address of the region's first byte.
    base: u64,
    /// The upper entries from the top table down: kernel address, then value.
    upper: Vec<(u64, Entry)>,
    /// Kernel address of the region's second-level table; 0 if a higher entry is not present or
    /// maps all of the region.
    table: u64,
    /// The entries of the second-level table. If there is no such table: 512 copies of the upper
    /// entry that covers the region.
    entries: Box<[Entry; 512]>,
    /// Number of bytes that one of `entries` covers.
    span: u64,
}

/// The consumer of a walk: receives the index of a range in `ranges`, and a piece of that range.
pub type Sink<'a> = dyn FnMut(usize, Piece<'_>) + 'a;

/// The state of a walk that is under way.
struct Pass<'a, 'b> {
    ranges: &'a [Range<u64>],
    sink: &'a mut Sink<'b>,
    walked: Walked,
    /// Last-level tables that changed while they were read, for the next try.
    again: Vec<Leaf>,
    /// Whether this is the first try for these regions: nothing of them was passed on yet.
    is_first: bool,
    /// Whether this is the last try: a table that changes again is reported as unsure.
    is_last: bool,
}

impl Reader {
    /// Passes all entries of `ranges` to `sink`. The ranges must ascend, must not overlap and must
    /// consist of whole pages.
    ///
    /// # Errors
    /// The BPF program cannot be run. (Memory that vanishes during the walk is no error.)
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

    /// Reads the upper tables of the regions that contain the tables `wanted`: level by level, for
    /// all regions at once.
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
                self.copier.request(at, 8);
                region.upper.push((at, Entry(0)));
            }
            self.copier.run()?;
            let (copier, mask, direct_map) = (&self.copier, self.mask, self.direct_map);
            let open = regions.iter_mut().filter(|region| region.table != 0);
            for (number, region) in open.enumerate() {
                let entry = Entry(copier.result(number).map_or(0, |words| words[0]));
                if let Some(step) = region.upper.last_mut() {
                    step.1 = entry;
                }
                if !entry.is_present() || (shift == 30 && entry.is_huge()) {
                    // There is no lower table: this entry covers the whole region.
                    *region = Region {
                        table: 0,
                        span: 1 << shift,
                        entries: Box::new([entry; 512]),
                        upper: Vec::new(),
                        ..*region
                    };
                } else {
                    region.table = direct_map.wrapping_add(entry.physical(mask));
                }
            }
            shift -= 9;
        }
        for region in regions.iter().filter(|region| region.table != 0) {
            self.copier.request(region.table, PAGE_SIZE);
        }
        self.copier.run()?;
        let open = regions.iter_mut().filter(|region| region.table != 0);
        for (number, region) in open.enumerate() {
            if let Some(words) = self.copier.result(number) {
                *region.entries = std::array::from_fn(|index| Entry(words[index]));
            }
        }
        Ok(regions)
    }

    /// Reads the last-level tables in `wanted` and passes their entries on.
    fn read_leaves(
        &mut self,
        regions: &[Region],
        wanted: &[Leaf],
        pass: &mut Pass<'_, '_>,
    ) -> io::Result<()> {
        let mut batch: Vec<(usize, Leaf)> = Vec::with_capacity(LEAVES);
        let (mut at, mut reported) = (0, None);
        for leaf in wanted {
            let base = leaf.region;
            if reported == Some(base) {
                continue;
            }
            while regions[at].base != base {
                at += 1;
            }
            let entry = regions[at].entry(leaf.start);
            // An empty region of 1 GiB is passed on as one piece. Programs reserve terabytes: in
            // pieces of 2 MiB, ThreadSanitizer's 133 TiB would take 35 s.
            if regions[at].table == 0 && !entry.is_present() && pass.is_first {
                pass.pass_whole(base..base + GIB, regions[at].span, entry);
                reported = Some(base);
                continue;
            }
            if regions[at].table == 0 || entry.is_huge() || !entry.is_present() {
                pass.pass_whole(leaf.span(), regions[at].span, entry);
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

    /// Reads the tables of `batch`, and after them the upper entries again, in one run of the BPF
    /// program. Passes on the entries of those tables to which the upper entries still lead. Each
    /// member of `batch` is the index of a region, and a table in that region.
    fn read_batch(
        &mut self,
        regions: &[Region],
        batch: &[(usize, Leaf)],
        pass: &mut Pass<'_, '_>,
    ) -> io::Result<()> {
        for (index, leaf) in batch {
            let table = regions[*index].entry(leaf.start).physical(self.mask);
            self.copier
                .request(self.direct_map.wrapping_add(table), PAGE_SIZE);
        }
        let (first, last) = (batch[0].0, batch[batch.len() - 1].0);
        // For each region of the batch: the request numbers of its upper entries, then that of its
        // second-level table.
        let mut checks: Vec<Vec<usize>> = Vec::with_capacity(last - first + 1);
        for region in &regions[first..=last] {
            let steps = region.upper.iter().map(|(at, _)| (*at, 8));
            let table = (region.table != 0).then_some((region.table, PAGE_SIZE));
            let requested = steps
                .chain(table)
                .map(|(at, bytes)| self.copier.request(at, bytes));
            checks.push(requested.collect());
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
            let is_same =
                now.is_some_and(|now| now.leads_to_same_table(region.entries[slot], self.mask));
            match self.copier.result(number).filter(|_| is_same) {
                Some(words) => pass.pass_pages(leaf.span(), words),
                None if pass.is_last => pass.pass_unsure(leaf.span()),
                None => pass.again.push(*leaf),
            }
        }
        Ok(())
    }

    /// Returns the region's second-level table as the last run copied it; `None` if the region's
    /// upper entries lead to another table now. `check`: the request numbers
    /// ([`Reader::read_batch`]).
    fn table_if_same(&self, region: &Region, check: &[usize]) -> Option<&[u64]> {
        let (table, steps) = check.split_last()?;
        let is_same = steps
            .iter()
            .zip(&region.upper)
            .all(|(number, (_, before))| {
                let now = self.copier.result(*number).map_or(0, |words| words[0]);
                before.leads_to_same_table(Entry(now), self.mask)
            });
        is_same.then(|| self.copier.result(*table)).flatten()
    }
}

impl Region {
    /// A region whose upper tables are still to be read, from the top table `table` on.
    fn new(base: u64, table: u64) -> Region {
        let (upper, entries) = (Vec::with_capacity(3), Box::new([Entry(0); 512]));
        Region {
            base,
            upper,
            table,
            entries,
            span: MIB2,
        }
    }

    /// Index of the entry for the address `start` in the second-level table.
    fn slot(&self, start: u64) -> usize {
        usize::try_from(start >> 21 & 511).unwrap_or(0)
    }

    /// The second-level entry for the address `start`.
    fn entry(&self, start: u64) -> Entry {
        self.entries[self.slot(start)]
    }
}

/// Returns the last-level tables in the 1 GiB at address `region` that overlap one of `ranges`.
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

/// Calls `visit` with each part of `span` that lies in a range: the range's index in `ranges`, then
/// the part.
fn clip(span: &Range<u64>, ranges: &[Range<u64>], mut visit: impl FnMut(usize, Range<u64>)) {
    let from = ranges.partition_point(|range| range.end <= span.start);
    for (number, range) in ranges.iter().enumerate().skip(from) {
        if range.start >= span.end {
            break;
        }
        let part = range.start.max(span.start)..range.end.min(span.end);
        if !part.is_empty() {
            visit(number, part);
        }
    }
}

impl Pass<'_, '_> {
    /// Passes on the entries of one last-level table, which maps `span`.
    fn pass_pages(&mut self, span: Range<u64>, words: &[u64]) {
        let entries: [Entry; 512] = std::array::from_fn(|index| Entry(words[index]));
        let index = |at: u64| usize::try_from((at - span.start) >> 12).unwrap_or(0);
        clip(&span, self.ranges, |number, part| {
            let (start, entries) = (part.start, &entries[index(part.start)..index(part.end)]);
            (self.sink)(number, Piece::Pages { start, entries });
        });
    }

    /// Passes on the addresses `whole`, which a single entry covers. `span` is the number of bytes
    /// that the entry covers; it may be more than `whole`.
    fn pass_whole(&mut self, whole: Range<u64>, span: u64, entry: Entry) {
        clip(&whole, self.ranges, |number, part| {
            let (start, bytes) = (part.start, part.end - part.start);
            let whole = Whole {
                start,
                bytes,
                span,
                entry,
            };
            (self.sink)(number, Piece::Whole(whole));
        });
    }

    /// Passes on that the entries of the addresses `span` could not be read.
    fn pass_unsure(&mut self, span: Range<u64>) {
        clip(&span, self.ranges, |number, part| {
            let (start, bytes) = (part.start, part.end - part.start);
            (self.sink)(number, Piece::Unsure { start, bytes });
        });
    }
}

/// The start addresses of the 1 GiB regions that overlap one of `ranges`.
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
