//! Simulated address spaces: VMAs, page tables of two levels with present and accessed bits, and the
//! way back from a folio to its page.
//!
//! This is the engine's view of hardware, kept apart from the engine: the walk goes through VMAs and
//! page tables (`walk.rs`), and page-out through the reverse map, as in the kernel.
//!
//! Invariants: a folio that is mapped is present in one of its mappings exactly if it is in memory; each
//! mapping has a bit of its own, and only present pages have one; a table with an accessed bit that a walk
//! may take has its own accessed bit set; folios of a space start at 0 and leave no gaps.

mod walk;

pub use walk::{WalkCounts, WalkKind};

use engine::lru_gen::BloomFilters;
use engine::{FolioId, FolioType, Lruvec, PageOut};
use models::vma::{AddressSpace, Vma};

const PRESENT: u8 = 1;
const ACCESSED: u8 = 2;
/// Found accessed by looking around, and not told yet: a page of the same batch that is met later stays.
const BESIDE: u8 = 4;
const ENTRIES: usize = 512;

/// A table of the lower level.
#[derive(Debug)]
struct Leaf {
    bits: [u8; ENTRIES],
    /// The accessed bit of the entry that leads here.
    accessed: bool,
}

/// What looking around has found since it was told last.
#[derive(Debug, Default)]
struct Beside {
    young: Vec<FolioId>,
    /// Tables that turned out dense.
    dense: Vec<u64>,
}

/// One address space.
#[derive(Debug, Default)]
pub struct Space {
    /// What is mapped.
    pub map: AddressSpace,
    directory: Vec<Option<Box<Leaf>>>,
    /// Number of folios.
    folios: usize,
    filters: BloomFilters,
    /// Its program has run since the last walk.
    has_run: bool,
    /// Walks so far, and which of them find that it has not run, unless it was switched to since the one before. Without such a
    /// list it has run when it touches a page.
    walks: u64,
    idle_walks: Option<Vec<u64>>,
    /// Found by looking around, and not told yet.
    beside: Beside,
    counts: WalkCounts,
}

fn entry(page: u64) -> (usize, usize) {
    let page = usize::try_from(page).unwrap_or(usize::MAX);
    (page / ENTRIES, page % ENTRIES)
}

impl Space {
    /// Maps `vma`: folios that were mapped before, or the next ones.
    pub fn map(&mut self, vma: Vma) {
        let pages = usize::try_from(vma.end - vma.start).unwrap_or(usize::MAX);
        self.folios = self.folios.max(vma.first.index() + pages);
        self.map.map(vma);
    }

    fn bits(&self, page: u64) -> u8 {
        let (leaf, at) = entry(page);
        let leaf = self.directory.get(leaf).and_then(Option::as_ref);
        leaf.map_or(0, |leaf| leaf.bits[at])
    }

    fn leaf(&mut self, leaf: usize) -> &mut Leaf {
        if self.directory.len() <= leaf {
            self.directory.resize_with(leaf + 1, || None);
        }
        self.directory[leaf].get_or_insert_with(|| {
            Box::new(Leaf {
                bits: [0; ENTRIES],
                accessed: false,
            })
        })
    }

    fn set(&mut self, page: u64, bits: u8) {
        let (leaf, at) = entry(page);
        self.leaf(leaf).bits[at] = bits;
    }

    /// A touch: false when it faults. The hardware sets the accessed bits of both levels.
    pub fn touch(&mut self, page: u64) -> bool {
        let bits = self.bits(page);
        self.has_run |= self.idle_walks.is_none();
        if bits & PRESENT != 0 {
            self.set(page, bits | ACCESSED);
            self.leaf(entry(page).0).accessed = true;
        }
        bits & PRESENT != 0
    }

    /// From now on [`Self::switch_to`] alone says that the program has run, as a kernel's context switch does. Others are not
    /// known of, but for these walks, the first of which is 1: there was none before them.
    pub fn set_idle_walks(&mut self, walks: Vec<u64>) {
        self.idle_walks = Some(walks);
    }

    /// The processor was given to its program.
    pub const fn switch_to(&mut self) {
        self.has_run = true;
    }

    /// A walk is due: whether the program has run since the one before.
    fn take_run(&mut self) -> bool {
        self.walks += 1;
        let idle_walks = self.idle_walks.as_ref();
        let was_seen =
            idle_walks.is_some_and(|idle_walks| idle_walks.binary_search(&self.walks).is_err());
        std::mem::take(&mut self.has_run) || was_seen
    }

    /// A fault was answered.
    pub fn install(&mut self, page: u64) {
        self.set(page, PRESENT);
    }

    /// True when a folio is present in some mapping.
    #[must_use]
    pub fn is_present(&self, id: FolioId) -> bool {
        let mut mappings = self.map.mappings(id);
        mappings.any(|(page, _)| self.bits(page) & PRESENT != 0)
    }

    /// Number of folios.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.folios
    }

    /// True when nothing was ever mapped.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.folios == 0
    }

    /// The VMA of `page`, if accesses through it mean anything.
    fn recent_vma(&self, page: u64) -> Option<Vma> {
        let vma = self.map.find(page)?;
        self.map.has_recency(vma).then_some(*vma)
    }

    /// Unmaps one folio everywhere, unless it was accessed through a mapping with recency: the bits of these
    /// are taken then, and those of others are neither counted nor cleared.
    pub(super) fn unmap(&mut self, id: FolioId) -> PageOut {
        let mappings = self.map.mappings(id);
        let mapped: Vec<(u64, u8)> = mappings
            .map(|(page, vma)| match self.bits(page) {
                bits if self.map.has_recency(vma) => (page, bits),
                bits => (page, bits & PRESENT),
            })
            .filter(|(_, bits)| *bits != 0)
            .collect();
        if mapped.is_empty() {
            return PageOut::Gone;
        }
        let accessed = |&&(_, bits): &&(u64, u8)| bits & ACCESSED != 0;
        if mapped.iter().any(|entry| accessed(&entry)) {
            for (page, _) in mapped.iter().filter(accessed) {
                self.set(*page, PRESENT);
            }
            return PageOut::Referenced;
        }
        mapped.iter().for_each(|(page, _)| self.set(*page, 0));
        PageOut::Stored
    }

    /// Its program gives a folio back: nothing of it is mapped any more. An anon folio is the caller's to remove.
    pub(super) fn zap(&mut self, id: FolioId) {
        let pages: Vec<u64> = self.map.mappings(id).map(|(page, _)| page).collect();
        pages.into_iter().for_each(|page| self.set(page, 0));
    }

    /// Removes mappings. What was accessed through them of files, which stay in memory, is told to `lruvec`
    /// if the mapping has recency now; anon folios are the caller's to remove. spec: reclaim-control.md 6.1.
    pub fn munmap(&mut self, start: u64, end: u64, lruvec: &mut Lruvec) {
        for vma in self.map.unmap(start, end) {
            let counts = self.map.has_recency(&vma) && vma.folio_type() == FolioType::File;
            for page in vma.start..vma.end {
                let accessed = self.bits(page) & ACCESSED != 0;
                self.set(page, 0);
                if let Some(id) = vma.folio(page).filter(|_| counts && accessed) {
                    lruvec.mark_accessed(id);
                }
            }
        }
    }
}
