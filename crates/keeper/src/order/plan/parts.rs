//! A sketch of an address space: what is where, and how far it has moved.
//!
//! Invariant: parts do not overlap.

/// Parts of a sketch.
const PARTS_MAX: usize = 512;

/// A part of the address space that something is at.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) start: u64,
    pub(super) end: u64,
    /// How far it has moved, wrapping.
    pub(super) by: u64,
    /// The move that brought it.
    pub(super) came: Option<usize>,
    /// It was left behind by a move: no page of it has bytes.
    pub(super) empty: bool,
}

const NOTHING: Part = Part {
    start: 0,
    end: 0,
    by: 0,
    came: None,
    empty: false,
};

/// The parts, unordered.
pub(super) struct Parts {
    at: [Part; PARTS_MAX],
    len: usize,
    overflow: bool,
}

impl Parts {
    pub(super) const fn new() -> Parts {
        Parts {
            at: [NOTHING; PARTS_MAX],
            len: 0,
            overflow: false,
        }
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.overflow = false;
    }

    /// Whether something had no room: then the sketch tells nothing.
    pub(super) fn overflow(&self) -> bool {
        self.overflow
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Part> {
        self.at[..self.len].iter()
    }

    /// Something that has not moved is at a range.
    pub(super) fn add(&mut self, start: u64, end: u64) {
        self.cut(start, end);
        self.push(Part {
            start,
            end,
            ..NOTHING
        });
    }

    /// Something without bytes was left behind at a range.
    pub(super) fn add_empty(&mut self, start: u64, end: u64) {
        self.push(Part {
            start,
            end,
            empty: true,
            ..NOTHING
        });
    }

    /// What is in a range has no bytes any more.
    pub(super) fn forget(&mut self, start: u64, end: u64) {
        for i in 0..self.len {
            let part = self.at[i];
            let (from, to) = (part.start.max(start), part.end.min(end));
            if from < to && !part.empty {
                self.at[i] = Part {
                    start: from,
                    end: to,
                    empty: true,
                    ..part
                };
                self.push(Part { end: from, ..part });
                self.push(Part { start: to, ..part });
            }
        }
    }

    /// The first part in a range.
    pub(super) fn first(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let inside = |p: &Part| (p.start.max(start), p.end.min(end));
        self.iter().map(inside).filter(|(s, e)| s < e).min()
    }

    /// Empties a range.
    pub(super) fn cut(&mut self, start: u64, end: u64) {
        let mut i = 0;
        while i < self.len && start < end {
            let part = self.at[i];
            if part.start >= end || part.end <= start {
                i += 1;
                continue;
            }
            self.len -= 1;
            self.at[i] = self.at[self.len];
            self.push(Part { end: start, ..part });
            self.push(Part { start: end, ..part });
        }
    }

    /// Moves what is in a range; false if it was not all there, or had not come there as one.
    pub(super) fn shift(&mut self, from: u64, to: u64, len: u64, came: usize) -> bool {
        let (end, by) = (from + len, to.wrapping_sub(from));
        let (mut covered, mut moved_by, mut mixed) = (0, None, false);
        self.cut(to, to + len);
        for i in 0..self.len {
            let p = self.at[i];
            let (s, e) = (p.start.max(from), p.end.min(end));
            if s < e {
                covered += e - s;
                mixed |= *moved_by.get_or_insert(p.by) != p.by;
                self.push(Part {
                    start: s.wrapping_add(by),
                    end: e.wrapping_add(by),
                    by: p.by.wrapping_add(by),
                    came: Some(came),
                    empty: p.empty,
                });
            }
        }
        self.cut(from, end);
        covered == len && !mixed
    }

    fn push(&mut self, part: Part) {
        if part.start >= part.end {
            return;
        }
        if self.len == PARTS_MAX {
            self.overflow = true;
            return;
        }
        self.at[self.len] = part;
        self.len += 1;
    }
}
