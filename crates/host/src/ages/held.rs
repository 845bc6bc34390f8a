//! A reading that is held back until bits are cleared.
//!
//! Invariant: [`Held::tell`] tells what was taken, all of it, once, in order. Entries of zero in a row
//! take no memory: a table that maps one page costs what that page costs.
//!
//! What a program touches between the reading of an entry and its clearing leaves no trace. Books take ten times
//! as long as the reading itself, so they wait: what a pass over a class of pages needs fell into that time now and then.

use pagetables::{Entry, Part, Piece};

/// A table has 512 entries, and so has a piece at most.
const PIECE_MAX: usize = 512;
/// So many zeros in a row end a run: to keep them costs more than another run.
const ZEROS_MAX: usize = 2;

/// What was read of one address space.
#[derive(Debug, Default)]
pub(super) struct Held {
    pieces: Vec<HeldPiece>,
    /// Of the pieces with pages, in order: where runs of entries begin within their piece, and how long they are.
    runs: Vec<(u16, u16)>,
    /// Of the runs, in order.
    entries: Vec<Entry>,
    /// Whole and unsure pieces, in order: nothing of them is borrowed.
    others: Vec<Piece<'static>>,
    /// Present entries of each part that is cleared by itself; a huge page is one.
    pub(super) present: [u64; 2],
    /// Those of them that are accessed.
    pub(super) accessed: [u64; 2],
    /// Tables that hold them.
    pub(super) tables: [u64; 2],
}

/// A piece.
#[derive(Debug)]
struct HeldPiece {
    start: u64,
    /// Of the mapping.
    number: u32,
    /// None of one of the others.
    pages: u16,
    runs: u16,
}

impl Held {
    /// Takes a piece of the mapping with this number, which is cleared with `part`.
    pub(super) fn take(&mut self, part: Part, number: usize, piece: Piece<'_>) {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let other = match piece {
            Piece::Pages { start, entries } => {
                self.tables[part as usize] += 1;
                let starts = (start..).step_by(PIECE_MAX * 4096);
                for (start, entries) in starts.zip(entries.chunks(PIECE_MAX)) {
                    entries.iter().for_each(|entry| self.count(part, *entry));
                    self.take_pages((start, number), entries);
                }
                return;
            }
            Piece::Whole {
                start,
                bytes,
                span,
                entry,
            } => {
                self.count(part, entry);
                Piece::Whole {
                    start,
                    bytes,
                    span,
                    entry,
                }
            }
            Piece::Unsure { start, bytes } => Piece::Unsure { start, bytes },
        };
        self.others.push(other);
        self.pieces.push(HeldPiece {
            start: 0,
            number,
            pages: 0,
            runs: 0,
        });
    }

    fn take_pages(&mut self, (start, number): (u64, u32), entries: &[Entry]) {
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
        self.pieces.push(HeldPiece {
            start,
            number,
            pages: short(entries.len()),
            runs: short(self.runs.len() - first),
        });
    }

    fn count(&mut self, part: Part, entry: Entry) {
        let present = entry.is_present();
        self.present[part as usize] += u64::from(present);
        self.accessed[part as usize] += u64::from(present && entry.is_accessed());
    }

    /// Tells all that was taken.
    pub(super) fn tell(&self, mut sink: impl FnMut(usize, Piece<'_>)) {
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

    /// Bytes on the heap.
    #[cfg(test)]
    fn memory_bytes(&self) -> usize {
        let pieces = self.pieces.len() * size_of::<HeldPiece>() + self.runs.len() * 4;
        pieces + self.entries.len() * 8 + self.others.len() * size_of::<Piece<'_>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bits of an x86-64 entry: present, accessed.
    const PRESENT: u64 = 1;
    const ACCESSED: u64 = 1 << 5;

    #[test]
    fn what_was_taken_is_told_again_and_counted() {
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
            Piece::Whole {
                start: 2 << 21,
                bytes: 2 << 20,
                span: 2 << 20,
                entry: Entry(PRESENT | ACCESSED),
            },
            Piece::Pages {
                start: 3 << 21,
                entries: &entries[1..2],
            },
        ];
        let mut held = Held::default();
        for (number, piece) in pieces.iter().enumerate() {
            let part = if number == 3 { Part::File } else { Part::Anon };
            held.take(part, number, *piece);
        }
        assert_eq!((held.present, held.accessed), ([3, 1], [2, 0]));
        let mut told = Vec::new();
        held.tell(|number, piece| told.push((number, format!("{piece:?}"))));
        let want = pieces.iter().map(|piece| format!("{piece:?}"));
        assert_eq!(told, want.enumerate().collect::<Vec<_>>());
    }

    /// Regression: a page of a program that has one in each 2 MiB took 4 KiB until it was told.
    #[test]
    fn a_table_with_one_page_costs_what_the_page_does() {
        let mut held = Held::default();
        let mut entries = [Entry::default(); 512];
        for table in 0..1000_u64 {
            let at = (table * 37 % 512) as usize;
            entries[at] = Entry(PRESENT | table << 12);
            let start = table << 21;
            let piece = Piece::Pages {
                start,
                entries: &entries,
            };
            held.take(Part::Anon, 3, piece);
            entries[at] = Entry::default();
        }
        assert!(held.memory_bytes() <= 28 * 1000, "{}", held.memory_bytes());
    }

    /// Whatever zeros are among the entries, all are told as they were.
    #[test]
    fn zeros_are_told_again() {
        for word in 0..1_u32 << 12 {
            let entry =
                |at: u32| Entry(u64::from(word >> at & 1) * (PRESENT | u64::from(at) << 12));
            let entries: Vec<Entry> = (0..12).map(entry).collect();
            let mut held = Held::default();
            for start in [0, 1 << 21] {
                let piece = Piece::Pages {
                    start,
                    entries: &entries,
                };
                held.take(Part::File, 1, piece);
            }
            let mut told = Vec::new();
            held.tell(|_, piece| match piece {
                Piece::Pages { start, entries } => told.push((start, entries.to_vec())),
                other => panic!("{other:?}"),
            });
            assert_eq!(told, [(0, entries.clone()), (1 << 21, entries)]);
        }
    }
}
