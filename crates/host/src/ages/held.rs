//! A reading that is held back until bits are cleared.
//!
//! Invariant: [`Held::tell`] tells what was taken, all of it, once, in order.
//!
//! What a program touches between the reading of an entry and its clearing leaves no trace. Books take ten times
//! as long as the reading itself, so they wait: what a pass over a class of pages needs fell into that time now and then.

use std::ops::Range;

use pagetables::{Entry, Part, Piece};

/// What was read of one address space.
#[derive(Debug, Default)]
pub(super) struct Held {
    pieces: Vec<(usize, HeldPiece)>,
    entries: Vec<Entry>,
    /// Present entries of each part that is cleared by itself; a huge page is one.
    pub(super) present: [u64; 2],
    /// Those of them that are accessed.
    pub(super) accessed: [u64; 2],
}

/// A piece, its entries by their place.
#[derive(Debug)]
enum HeldPiece {
    Pages {
        start: u64,
        entries: Range<usize>,
    },
    /// A whole one or an unsure one: nothing of it is borrowed.
    Other(Piece<'static>),
}

impl Held {
    /// Takes a piece of the mapping with this number, which is cleared with `part`.
    pub(super) fn take(&mut self, part: Part, number: usize, piece: Piece<'_>) {
        let kept = match piece {
            Piece::Pages { start, entries } => {
                entries.iter().for_each(|entry| self.count(part, *entry));
                let first = self.entries.len();
                self.entries.extend_from_slice(entries);
                let entries = first..self.entries.len();
                HeldPiece::Pages { start, entries }
            }
            Piece::Whole {
                start,
                bytes,
                span,
                entry,
            } => {
                self.count(part, entry);
                HeldPiece::Other(Piece::Whole {
                    start,
                    bytes,
                    span,
                    entry,
                })
            }
            Piece::Unsure { start, bytes } => HeldPiece::Other(Piece::Unsure { start, bytes }),
        };
        self.pieces.push((number, kept));
    }

    fn count(&mut self, part: Part, entry: Entry) {
        let present = entry.is_present();
        self.present[part as usize] += u64::from(present);
        self.accessed[part as usize] += u64::from(present && entry.is_accessed());
    }

    /// Tells all that was taken.
    pub(super) fn tell(&self, mut sink: impl FnMut(usize, Piece<'_>)) {
        for (number, kept) in &self.pieces {
            let piece = match kept {
                HeldPiece::Pages { start, entries } => Piece::Pages {
                    start: *start,
                    entries: &self.entries[entries.clone()],
                },
                HeldPiece::Other(piece) => *piece,
            };
            sink(*number, piece);
        }
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
}
