//! From entries to the books: what kind of memory a page is, and what counts.
//!
//! Invariant: what the kernel's Rss counts is told, and nothing else: no zero pages, no memory of
//! devices; pages of the hugetlb pool are counted apart.

use std::ops::Range;

use pagetables::{Entry, Kind as EntryKind, Part, Piece};

use super::found::ReadingSums;
use super::listener::Told;
use super::space::Before;
use crate::books::{Books, Class, Observation};
use crate::system::{Kind, Mapping, Nodes};

/// What a page is, for reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum MemoryKind {
    /// Private anonymous memory, and what a program wrote into its private mapping of a file.
    Anon,
    /// A page of a file.
    File,
    /// Shared memory without a file: memfd, tmpfs, System V.
    Shmem,
}

/// Kinds of memory.
const KINDS: u8 = 3;
/// Nodes that are told apart; what is in later ones counts to the last of these.
const NODES: u8 = 5;

impl MemoryKind {
    const ALL: [MemoryKind; KINDS as usize] =
        [MemoryKind::Anon, MemoryKind::File, MemoryKind::Shmem];

    /// The books' class of this kind on the node with this place in the list of nodes.
    pub(crate) fn class(self, node: usize) -> Class {
        let node = u8::try_from(node).unwrap_or(NODES).min(NODES - 1);
        let number = self as u8 + KINDS * node;
        Class::new(number)
            .unwrap_or_else(|| unreachable!("three kinds on five nodes are 15 classes"))
    }

    /// Kind and place of the node of a class.
    #[must_use]
    pub fn of(class: Class) -> (MemoryKind, usize) {
        let kind = MemoryKind::ALL[usize::from(class.number() % KINDS)];
        (kind, usize::from(class.number() / KINDS))
    }

    /// All classes that are in use.
    pub fn classes() -> impl Iterator<Item = Class> {
        (0..KINDS * NODES).filter_map(Class::new)
    }
}

/// Whether none of the ranges is this mapping. (They are read without a lock: one that is no mapping's says nothing.)
fn has_recency(advised: &[Range<u64>], mapping: &Mapping) -> bool {
    let at = advised.binary_search_by_key(&mapping.start, |range| range.start);
    at.map_or(true, |at| advised[at].end != mapping.end)
}

/// The mappings as ranges, one each; those that are not read are empty.
pub(super) fn ranges(mappings: &[Mapping]) -> Vec<Range<u64>> {
    let range = |mapping: &Mapping| match mapping.kind {
        Kind::Device => mapping.start..mapping.start,
        _ => mapping.start..mapping.end,
    };
    mappings.iter().map(range).collect()
}

/// Tells the books what a reading of one process tells.
pub(super) struct Teller<'a> {
    books: &'a mut Books,
    before: Before,
    mappings: &'a [Mapping],
    /// What its program reads in order or at random.
    advised: &'a [Range<u64>],
    mask: u64,
    nodes: &'a Nodes,
    /// The sums until now.
    pub(super) found: ReadingSums,
}

impl<'a> Teller<'a> {
    pub(super) fn new(
        (books, nodes): (&'a mut Books, &'a Nodes),
        before: Before,
        (mappings, advised): (&'a [Mapping], &'a [Range<u64>]),
        mask: u64,
    ) -> Teller<'a> {
        Teller {
            books,
            before,
            mappings,
            advised,
            mask,
            nodes,
            found: ReadingSums::default(),
        }
    }

    /// One piece of the mapping with this number.
    pub(super) fn tell(&mut self, number: usize, piece: Piece<'_>) {
        let mapping = &self.mappings[number];
        match piece {
            Piece::Pages { entries, .. } => {
                self.found.tables[part_of(mapping.kind) as usize] += 1;
                self.tell_pages(mapping.kind, mapping.shared, entries);
            }
            Piece::Whole {
                start,
                bytes,
                span,
                entry,
            } => {
                self.tell_whole(mapping, &(start..start + bytes), span, entry);
            }
            Piece::Unsure { bytes, .. } => self.found.unsure += bytes / 4096,
        }
    }

    /// What a listener must know of a piece of the mapping with this number.
    pub(super) fn told(&self, number: usize) -> Told<'_> {
        let mapping = &self.mappings[number];
        Told {
            owner: self.before.owner,
            mapping,
            trusted: self.before.trusted[part_of(mapping.kind) as usize],
            slept: self.before.slept,
            spared: self.before.spared && part_of(mapping.kind) == Part::File,
            hidden: self.before.hidden,
            has_recency: has_recency(self.advised, mapping),
            mask: self.mask,
            books: self.books,
        }
    }

    fn tell_pages(&mut self, kind: Kind, shared: bool, entries: &[Entry]) {
        // Only a private mapping of a file has pages of two kinds.
        let (clean, dirty) = kinds(kind, shared);
        let part = part_of(kind) as usize;
        for entry in entries {
            if !entry.is_present() {
                self.count_absent(*entry, 1);
                continue;
            }
            if entry.is_special() {
                continue;
            }
            if kind == Kind::Hugetlb {
                self.found.hugetlb += 1;
                continue;
            }
            let accessed = entry.is_accessed();
            self.found.present += 1;
            self.found.entries[part] += 1;
            self.found.accessed[part] += u64::from(accessed);
            self.found.vague += u64::from(entry.is_vague());
            let is_own = entry.is_dirty() || entry.is_writable();
            let kind = if is_own { dirty } else { clean };
            let look = self.observation(*entry, part);
            let frame = entry.physical(self.mask) >> 12;
            let class = self.class(kind, frame);
            self.books.see(self.before.owner, class, frame, 1, look);
        }
    }

    fn tell_whole(&mut self, mapping: &Mapping, whole: &Range<u64>, span: u64, entry: Entry) {
        let pages = (whole.end - whole.start) / 4096;
        if !entry.is_present() {
            self.count_absent(entry, pages);
            return;
        }
        if entry.is_special() {
            return;
        }
        if mapping.kind == Kind::Hugetlb {
            self.found.hugetlb += pages;
            return;
        }
        let part = part_of(mapping.kind) as usize;
        let accessed = entry.is_accessed();
        self.found.present += pages;
        self.found.entries[part] += 1;
        self.found.accessed[part] += u64::from(accessed);
        let (clean, dirty) = kinds(mapping.kind, mapping.shared);
        let is_own = entry.is_dirty() || entry.is_writable();
        let look = self.observation(entry, part);
        // The frame in a huge entry is its first; low bits hold flags (PAT).
        let first = (entry.physical(self.mask) & !(span - 1)) >> 12;
        let frame = first + ((whole.start & (span - 1)) >> 12);
        let class = self.class(if is_own { dirty } else { clean }, frame);
        let pages = u32::try_from(pages).unwrap_or(u32::MAX);
        if pages == 512 || pages == 1 {
            self.books.see(self.before.owner, class, frame, pages, look);
            return;
        }
        // A part of a huge page: the mapping ends within it.
        for page in 0..u64::from(pages) {
            self.books
                .see(self.before.owner, class, frame + page, 1, look);
        }
    }

    /// What an entry says of its page's accesses.
    fn observation(&self, entry: Entry, part: usize) -> Observation {
        Observation {
            accessed: entry.is_accessed(),
            hidden: self.before.hidden || self.before.taken || entry.is_vague(),
            trusted: self.before.trusted[part],
            slept: self.before.slept,
            spared: self.before.spared && part == Part::File as usize,
        }
    }

    fn class(&self, kind: MemoryKind, frame: u64) -> Class {
        let all = self.nodes.all();
        if all.len() < 2 {
            return kind.class(0);
        }
        let node = self.nodes.node_of(frame);
        kind.class(all.iter().position(|one| *one == node).unwrap_or(0))
    }

    fn count_absent(&mut self, entry: Entry, pages: u64) {
        match entry.kind() {
            EntryKind::Swapped => self.found.swapped += pages,
            EntryKind::Other => self.found.other += pages,
            EntryKind::Empty | EntryKind::Present => {}
        }
    }
}

/// With which part a mapping is cleared.
pub(super) fn part_of(kind: Kind) -> Part {
    match kind {
        Kind::Anon | Kind::Device => Part::Anon,
        Kind::File | Kind::Shmem | Kind::Hugetlb => Part::File,
    }
}

/// What a page is that the program has not written, and one that it has.
fn kinds(kind: Kind, shared: bool) -> (MemoryKind, MemoryKind) {
    let kind = match kind {
        Kind::Anon | Kind::Device | Kind::Hugetlb => return (MemoryKind::Anon, MemoryKind::Anon),
        Kind::File => MemoryKind::File,
        Kind::Shmem => MemoryKind::Shmem,
    };
    (kind, if shared { kind } else { MemoryKind::Anon })
}

#[cfg(test)]
mod tests;
