//! Simulated address spaces: VMAs, page tables of two levels with present and accessed bits, and the
//! way back from a folio to its page.
//!
//! This is the engine's view of hardware, kept apart from the engine: the walk goes through VMAs and
//! page tables (`walk.rs`), and page-out through the reverse map, as in the kernel.
//!
//! Invariants: a page is present here exactly if its folio is in memory; only present pages have an
//! accessed bit; a table with an accessed bit that a walk may take has its own accessed bit set; page
//! numbers of a space start at 0 and leave no gaps.

mod walk;

pub use walk::{WalkCounts, WalkKind};

use engine::lru_gen::BloomFilters;
use engine::{FolioId, PageOut};
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
    /// Page of each folio.
    pages: Vec<u64>,
    filters: BloomFilters,
    /// Its program has run since the last walk.
    has_run: bool,
    /// Found by looking around, and not told yet.
    beside: Beside,
    counts: WalkCounts,
}

fn entry(page: u64) -> (usize, usize) {
    let page = usize::try_from(page).unwrap_or(usize::MAX);
    (page / ENTRIES, page % ENTRIES)
}

impl Space {
    /// Maps `vma`; its folios are the next ones.
    pub fn map(&mut self, vma: Vma) {
        self.pages.extend(vma.start..vma.end);
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
        self.has_run = true;
        if bits & PRESENT != 0 {
            self.set(page, bits | ACCESSED);
            self.leaf(entry(page).0).accessed = true;
        }
        bits & PRESENT != 0
    }

    /// A fault was answered.
    pub fn install(&mut self, page: u64) {
        self.set(page, PRESENT);
    }

    /// The page of a folio.
    #[must_use]
    pub fn page(&self, id: FolioId) -> Option<u64> {
        self.pages.get(id.index()).copied()
    }

    /// True when a folio's page is present.
    #[must_use]
    pub fn is_present(&self, id: FolioId) -> bool {
        self.page(id)
            .is_some_and(|page| self.bits(page) & PRESENT != 0)
    }

    /// Number of folios.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.pages.len()
    }

    /// True when nothing was ever mapped.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// The VMA of `page`, if accesses through it mean anything.
    fn recent_vma(&self, page: u64) -> Option<Vma> {
        let vma = self.map.find(page)?;
        self.map.has_recency(vma).then_some(*vma)
    }

    /// Unmaps one folio's page unless it was accessed.
    pub(super) fn unmap(&mut self, id: FolioId) -> PageOut {
        let Some(page) = self.page(id) else {
            return PageOut::Gone;
        };
        match self.bits(page) {
            0 => PageOut::Gone,
            bits if bits & ACCESSED != 0 && self.recent_vma(page).is_some() => {
                self.set(page, bits & !ACCESSED);
                PageOut::Referenced
            }
            _ => {
                self.set(page, 0);
                PageOut::Stored
            }
        }
    }
}
