//! A buffered walk: page table entries read from one process, kept until the process's accessed
//! bits are cleared.
//!
//! Invariant: [`BufferedWalk::replay`] passes on everything that was buffered, once and in order.
//! Runs of zero entries take no memory, so a page table that maps one page costs no more than that
//! page.
//!
//! Reason: an access between the reading and the clearing of an entry is lost. Updating the age
//! table takes ten times as long as the walk, so it is done after the clearing. If it were done
//! before, a program could access all of some memory within that gap, unnoticed.

use engine::units::PAGE_LEN;
use pagetables::{Entry, Part, Piece};

/// Most entries in one buffered piece: the number of entries in one page table.
const PIECE_MAX: usize = 512;
/// Longest run of zero entries that is stored as entries. To end the run of entries and begin a new
/// one after the zeros takes less memory than storing more zeros.
const ZEROS_MAX: usize = 2;

/// Page table entries read from one address space.
#[derive(Debug, Default)]
pub(super) struct BufferedWalk {
    pieces: Vec<BufferedPiece>,
    /// For each run of entries, in order: index of its first entry in the piece, then number of
    /// entries.
    runs: Vec<(u16, u16)>,
    /// The entries of all runs, in order.
    entries: Vec<Entry>,
    /// Pieces without page table entries (a huge page, or a table that changed), in order.
    others: Vec<Piece<'static>>,
    /// Number of present entries: of anonymous memory, then of files. A huge page has one entry.
    pub(super) present: [u64; 2],
    /// Number of present entries with the accessed bit set: of anonymous memory, then of files.
    pub(super) accessed: [u64; 2],
    /// Number of page tables that contain these entries: of anonymous memory, then of files.
    pub(super) tables: [u64; 2],
}

/// One piece of a walk: consecutive entries of one mapping.
#[derive(Debug)]
struct BufferedPiece {
    start: u64,
    /// Index of the mapping that the piece belongs to.
    number: u32,
    /// Number of entries; 0 if the piece is stored in `others`.
    pages: u16,
    runs: u16,
}

impl BufferedWalk {
    /// Buffers a piece of mapping `number`. `part`: anonymous memory or files; the bits of each are
    /// cleared separately.
    pub(super) fn buffer(&mut self, part: Part, number: usize, piece: Piece<'_>) {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let other = match piece {
            Piece::Pages { start, entries } => {
                self.tables[part as usize] += 1;
                let starts = (start..).step_by(PIECE_MAX * PAGE_LEN);
                for (start, entries) in starts.zip(entries.chunks(PIECE_MAX)) {
                    entries.iter().for_each(|entry| self.count(part, *entry));
                    self.buffer_pages((start, number), entries);
                }
                return;
            }
            Piece::Whole(whole) => {
                self.count(part, whole.entry);
                Piece::Whole(whole)
            }
            Piece::Unsure { start, bytes } => Piece::Unsure { start, bytes },
        };
        self.others.push(other);
        self.pieces.push(BufferedPiece {
            start: 0,
            number,
            pages: 0,
            runs: 0,
        });
    }

    /// Buffers the entries of one page table of mapping `number`; the first entry maps the address
    /// `start`.
    fn buffer_pages(&mut self, (start, number): (u64, u32), entries: &[Entry]) {
        let short = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
        let zero = |entry: &&Entry| **entry == Entry::default();
        let (first, mut at) = (self.runs.len(), 0);
        loop {
            at += entries[at..].iter().take_while(zero).count();
            if at == entries.len() {
                break;
            }
            let mut end = at;
            loop {
                end += entries[end..]
                    .iter()
                    .take_while(|entry| !zero(entry))
                    .count();
                let zeros = entries[end..].iter().take_while(zero).count();
                if zeros > ZEROS_MAX || end + zeros == entries.len() {
                    break;
                }
                end += zeros;
            }
            self.runs.push((short(at), short(end - at)));
            self.entries.extend_from_slice(&entries[at..end]);
            at = end;
        }
        self.pieces.push(BufferedPiece {
            start,
            number,
            pages: short(entries.len()),
            runs: short(self.runs.len() - first),
        });
    }

    /// Adds an entry to `present` and `accessed`.
    fn count(&mut self, part: Part, entry: Entry) {
        let present = entry.is_present();
        self.present[part as usize] += u64::from(present);
        self.accessed[part as usize] += u64::from(present && entry.is_accessed());
    }

    /// Passes everything that was buffered to `sink`: the index of the mapping, then the piece.
    pub(super) fn replay(&self, mut sink: impl FnMut(usize, Piece<'_>)) {
        let (mut runs, mut rest) = (self.runs.iter(), self.entries.as_slice());
        let mut others = self.others.iter();
        for piece in &self.pieces {
            let number = piece.number as usize;
            if piece.pages == 0 {
                others
                    .next()
                    .into_iter()
                    .for_each(|other| sink(number, *other));
                continue;
            }
            let mut all = [Entry::default(); PIECE_MAX];
            for &(first, pages) in runs.by_ref().take(usize::from(piece.runs)) {
                let (run, later) = rest.split_at(usize::from(pages));
                all[usize::from(first)..][..run.len()].copy_from_slice(run);
                rest = later;
            }
            let entries = &all[..usize::from(piece.pages)];
            let start = piece.start;
            sink(number, Piece::Pages { start, entries });
        }
    }

    /// Returns the number of bytes that this has on the heap.
    #[cfg(test)]
    fn memory_bytes(&self) -> usize {
        let pieces = self.pieces.len() * size_of::<BufferedPiece>() + self.runs.len() * 4;
        pieces + self.entries.len() * 8 + self.others.len() * size_of::<Piece<'_>>()
    }
}

#[cfg(test)]
mod tests {
    use pagetables::Whole;

    use super::*;

    /// Bits of an x86-64 entry: present, accessed.
    const PRESENT: u64 = 1;
    const ACCESSED: u64 = 1 << 5;

    #[test]
    fn a_buffered_walk_is_passed_on_unchanged_and_counted() {
        let entries = [0, PRESENT, PRESENT | ACCESSED].map(Entry);
        let pieces = [
            Piece::Pages {
                start: 4096,
                entries: &entries,
            },
            Piece::Unsure {
                start: 1 << 21,
                bytes: 8192,
            },
            Piece::Whole(Whole {
                start: 2 << 21,
                bytes: 2 << 20,
                span: 2 << 20,
                entry: Entry(PRESENT | ACCESSED),
            }),
            Piece::Pages {
                start: 3 << 21,
                entries: &entries[1..2],
            },
        ];
        let mut walk = BufferedWalk::default();
        for (number, piece) in pieces.iter().enumerate() {
            let part = if number == 3 { Part::File } else { Part::Anon };
            walk.buffer(part, number, *piece);
        }
        assert_eq!((walk.present, walk.accessed), ([3, 1], [2, 0]));
        let mut reported = Vec::new();
        walk.replay(|number, piece| reported.push((number, format!("{piece:?}"))));
        let want = pieces.iter().map(|piece| format!("{piece:?}"));
        assert_eq!(reported, want.enumerate().collect::<Vec<_>>());
    }

    /// Regression: if a program had one page in each 2 MiB, a buffered walk took 4 KiB for each
    /// page.
    #[test]
    fn a_table_with_one_page_costs_what_the_page_does() {
        let mut walk = BufferedWalk::default();
        let mut entries = [Entry::default(); 512];
        for table in 0..1000_u64 {
            let at = (table * 37 % 512) as usize;
            entries[at] = Entry(PRESENT | table << 12);
            let start = table << 21;
            let piece = Piece::Pages {
                start,
                entries: &entries,
            };
            walk.buffer(Part::Anon, 3, piece);
            entries[at] = Entry::default();
        }
        assert!(walk.memory_bytes() <= 28 * 1000, "{}", walk.memory_bytes());
    }

    /// Entries are passed on unchanged, however zeros are distributed among them.
    #[test]
    fn zero_entries_are_passed_on() {
        for word in 0..1_u32 << 12 {
            let entry =
                |at: u32| Entry(u64::from(word >> at & 1) * (PRESENT | u64::from(at) << 12));
            let entries: Vec<Entry> = (0..12).map(entry).collect();
            let mut walk = BufferedWalk::default();
            for start in [0, 1 << 21] {
                let piece = Piece::Pages {
                    start,
                    entries: &entries,
                };
                walk.buffer(Part::File, 1, piece);
            }
            let mut reported = Vec::new();
            walk.replay(|_, piece| match piece {
                Piece::Pages { start, entries } => reported.push((start, entries.to_vec())),
                other => panic!("{other:?}"),
            });
            assert_eq!(reported, [(0, entries.clone()), (1 << 21, entries)]);
        }
    }
}
