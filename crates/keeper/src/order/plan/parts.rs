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
    pub(super) moved: bool,
}

const NOTHING: Part = Part {
    start: 0,
    end: 0,
    by: 0,
    moved: false,
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
        self.cut(start, end, true);
        self.push(Part {
            start,
            end,
            ..NOTHING
        });
    }

    /// Whether anything is in a range.
    pub(super) fn taken(&self, start: u64, end: u64) -> bool {
        self.iter().any(|p| p.start < end && p.end > start)
    }

    /// Empties a range: of all, or only of what has not moved.
    pub(super) fn cut(&mut self, start: u64, end: u64, all: bool) {
        let mut i = 0;
        while i < self.len {
            let part = self.at[i];
            if part.start >= end || part.end <= start || part.moved && !all {
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
    pub(super) fn shift(&mut self, from: u64, to: u64, len: u64) -> bool {
        let (end, by) = (from + len, to.wrapping_sub(from));
        let (mut covered, mut moved_by, mut mixed) = (0, None, false);
        self.cut(to, to + len, true);
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
                    moved: true,
                });
            }
        }
        self.cut(from, end, true);
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
