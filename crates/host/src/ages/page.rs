//! Records page table entries in the age table: decides which pages count, and what kind of memory
//! each page is.
//!
//! Invariant: exactly the pages that the kernel's Rss counts are recorded: no zero pages, no device
//! memory. Pages of the hugetlb pool are counted separately.

use std::ops::Range;

use engine::units::PAGE_SIZE;
use pagetables::{Entry, Kind as EntryKind, Part, Piece, Whole};

use super::found::WalkSums;
use super::listener::PieceContext;
use super::space::WalkContext;
use crate::age_table::{AgeTable, Class, Observation};
use crate::system::{Kind, Mapping, Nodes};

/// Kind of memory of a page, as shown in reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum MemoryKind {
    /// Private anonymous memory, and pages that a program has written in its private mapping of a
    /// file.
    Anon,
    /// A page of a file.
    File,
    /// Shared memory without a file: memfd, tmpfs, System V.
    Shmem,
}

/// Number of values of [`MemoryKind`].
const KINDS: u8 = 3;
/// Number of NUMA nodes that are distinguished. Pages on further nodes count as pages of the last
/// of these.
const NODES: u8 = 5;

impl MemoryKind {
    const ALL: [MemoryKind; KINDS as usize] =
        [MemoryKind::Anon, MemoryKind::File, MemoryKind::Shmem];

    /// Returns the age table's class for this kind of memory on a NUMA node. `node` is an index in
    /// [`super::Ages::nodes`].
    pub(crate) fn class(self, node: usize) -> Class {
        let node = u8::try_from(node).unwrap_or(NODES).min(NODES - 1);
        let number = self as u8 + KINDS * node;
        Class::new(number)
            .unwrap_or_else(|| unreachable!("three kinds on five nodes are 15 classes"))
    }

    /// Returns the kind of memory that a class means, and the index of its node.
    #[must_use]
    pub fn of(class: Class) -> (MemoryKind, usize) {
        let kind = MemoryKind::ALL[usize::from(class.number() % KINDS)];
        (kind, usize::from(class.number() / KINDS))
    }

    /// Returns all classes that are in use.
    pub fn classes() -> impl Iterator<Item = Class> {
        (0..KINDS * NODES).filter_map(Class::new)
    }
}

/// Returns the address range of each mapping; an empty range if the mapping is not to be read.
pub(super) fn ranges(mappings: &[Mapping]) -> Vec<Range<u64>> {
    let range = |mapping: &Mapping| match mapping.kind {
        Kind::Device => mapping.start..mapping.start,
        _ => mapping.start..mapping.end,
    };
    mappings.iter().map(range).collect()
}

/// Records the entries of one process's walk in the age table.
pub(super) struct PieceRecorder<'a> {
    age_table: &'a mut AgeTable,
    before: WalkContext,
    mappings: &'a [Mapping],
    mask: u64,
    nodes: &'a Nodes,
    /// Sums of the pieces recorded so far.
    pub(super) found: WalkSums,
}

impl<'a> PieceRecorder<'a> {
    pub(super) fn new(
        (age_table, nodes): (&'a mut AgeTable, &'a Nodes),
        before: WalkContext,
        mappings: &'a [Mapping],
        mask: u64,
    ) -> PieceRecorder<'a> {
        PieceRecorder {
            age_table,
            before,
            mappings,
            mask,
            nodes,
            found: WalkSums::default(),
        }
    }

    /// Records one piece of mapping `number`.
    pub(super) fn record(&mut self, number: usize, piece: Piece<'_>) {
        let mapping = &self.mappings[number];
        match piece {
            Piece::Pages { entries, .. } => {
                self.found.tables[part_of(mapping.kind) as usize] += 1;
                self.record_pages(mapping.kind, mapping.is_shared, entries);
            }
            Piece::Whole(whole) => self.record_whole(mapping, whole),
            Piece::Unsure { bytes, .. } => self.found.unsure += bytes / PAGE_SIZE,
        }
    }

    /// Returns the context of a piece of mapping `number`, to pass to listeners.
    pub(super) fn reported(&self, number: usize) -> PieceContext<'_> {
        let mapping = &self.mappings[number];
        PieceContext {
            owner: self.before.owner,
            mapping,
            trusted: self.before.trusted[part_of(mapping.kind) as usize],
            idle: self.before.idle,
            kept_bits: self.before.kept_bits && part_of(mapping.kind) == Part::File,
            hidden: self.before.hidden,
            has_recency: !mapping.is_advised,
            mask: self.mask,
            age_table: self.age_table,
            nodes: self.nodes,
        }
    }

    fn record_pages(&mut self, kind: Kind, shared: bool, entries: &[Entry]) {
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
            let scan = self.observation(*entry, part);
            let frame = entry.physical(self.mask) >> 12;
            let class = self.class(kind, frame);
            self.age_table.see(self.before.owner, class, frame, 1, scan);
        }
    }

    fn record_whole(&mut self, mapping: &Mapping, whole: Whole) {
        let (pages, span, entry) = (whole.bytes / PAGE_SIZE, whole.span, whole.entry);
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
        let (clean, dirty) = kinds(mapping.kind, mapping.is_shared);
        let is_own = entry.is_dirty() || entry.is_writable();
        let scan = self.observation(entry, part);
        // A huge entry contains its first frame; the low bits of the address are flags (PAT).
        let first = (entry.physical(self.mask) & !(span - 1)) >> 12;
        let frame = first + ((whole.start & (span - 1)) >> 12);
        let class = self.class(if is_own { dirty } else { clean }, frame);
        let pages = u32::try_from(pages).unwrap_or(u32::MAX);
        if pages == 512 || pages == 1 {
            self.age_table
                .see(self.before.owner, class, frame, pages, scan);
            return;
        }
        // The mapping ends within the huge page, so only a part of it is recorded.
        for page in 0..u64::from(pages) {
            self.age_table
                .see(self.before.owner, class, frame + page, 1, scan);
        }
    }

    /// Returns what an entry shows about accesses to its page. `part`: 0 for anonymous memory, 1
    /// for files.
    fn observation(&self, entry: Entry, part: usize) -> Observation {
        Observation {
            accessed: entry.is_accessed(),
            hidden: self.before.hidden || self.before.taken || entry.is_vague(),
            trusted: self.before.trusted[part],
            idle: self.before.idle,
            kept_bits: self.before.kept_bits && part == Part::File as usize,
        }
    }

    /// Returns the age table's class of a frame with this kind of memory.
    fn class(&self, kind: MemoryKind, frame: u64) -> Class {
        kind.class(self.nodes.index_of(frame))
    }

    /// Adds pages that have no frame to the sums: swapped out, being migrated, poisoned or guarded.
    fn count_absent(&mut self, entry: Entry, pages: u64) {
        match entry.kind() {
            EntryKind::Swapped => self.found.swapped += pages,
            EntryKind::Other => self.found.other += pages,
            EntryKind::Empty | EntryKind::Present => {}
        }
    }
}

/// Returns the part of memory (anonymous or file) to which a mapping belongs when bits are cleared.
pub(super) fn part_of(kind: Kind) -> Part {
    match kind {
        Kind::Anon | Kind::Device => Part::Anon,
        Kind::File | Kind::Shmem | Kind::Hugetlb => Part::File,
    }
}

/// Returns the kind of a page that the program has not written, then of a page that it has written.
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
