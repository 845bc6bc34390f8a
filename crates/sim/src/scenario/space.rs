//! Simulated address spaces: VMAs, page tables of two levels with present and accessed bits, and
//! the reverse map from a folio to its pages.
//!
//! This module simulates the hardware, separately from the engine. As in the kernel, walks go
//! through VMAs and page tables (`walk.rs`), and page-out through the reverse map.
//!
//! Invariants: a mapped folio is present in at least one of its mappings exactly if it is in
//! memory. Each mapping has an accessed bit of its own, which only present pages have. If a table
//! has an accessed bit that a walk may find, the accessed bit of the entry above the table is set.
//! The folios of a space are numbered from 0, without gaps.

mod walk;

pub use walk::{WalkCounts, WalkKind};

use crate::vma::{AddressSpace, Vma};
use engine::lru_gen::BloomFilters;
use engine::{FolioId, FolioType, Lruvec, PageOut};

const PRESENT: u8 = 1;
const ACCESSED: u8 = 2;
/// Look-around has found the page accessed, and has not reported it yet. If the page is in the
/// current batch of eviction, it is kept.
const BESIDE: u8 = 4;
const ENTRIES: usize = 512;

/// A page table of the lower level.
#[derive(Debug)]
struct Leaf {
    bits: [u8; ENTRIES],
    /// The accessed bit of the entry that points to this table.
    accessed: bool,
}

/// The findings of look-around since its last report.
#[derive(Debug, Default)]
struct AroundFindings {
    young: Vec<FolioId>,
    /// Tables with many accessed pages.
    dense: Vec<u64>,
}

/// An address space.
#[derive(Debug, Default)]
pub struct Space {
    /// The mappings.
    pub map: AddressSpace,
    directory: Vec<Option<Box<Leaf>>>,
    /// Number of folios.
    folios: usize,
    filters: BloomFilters,
    /// Whether the program has run since the last walk.
    has_run: bool,
    /// Number of walks so far.
    walks: u64,
    /// Numbers of the walks before which the program has not run ([`Self::set_idle_walks`]).
    /// `None`: a program has run if it touched a page.
    idle_walks: Option<Vec<u64>>,
    /// The findings of look-around that were not reported yet.
    around: AroundFindings,
    counts: WalkCounts,
}

fn entry(page: u64) -> (usize, usize) {
    let page = usize::try_from(page).unwrap_or(usize::MAX);
    (page / ENTRIES, page % ENTRIES)
}

impl Space {
    /// Maps `vma`, to folios that were mapped before or to the next new ones.
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

    /// Touches a page. Returns true if it is present; then both levels get their accessed bits, as
    /// by hardware. Returns false if the touch faults.
    pub fn touch(&mut self, page: u64) -> bool {
        let bits = self.bits(page);
        self.has_run |= self.idle_walks.is_none();
        if bits & PRESENT != 0 {
            self.set(page, bits | ACCESSED);
            self.leaf(entry(page).0).accessed = true;
        }
        bits & PRESENT != 0
    }

    /// Sets the numbers (from 1) of the walks before which the program has not run, unless
    /// [`Self::switch_to`] was called since the previous walk. Before all other walks it has run.
    pub fn set_idle_walks(&mut self, walks: Vec<u64>) {
        self.idle_walks = Some(walks);
    }

    /// Records that the program got the processor, as at a context switch of the kernel.
    pub const fn switch_to(&mut self) {
        self.has_run = true;
    }

    /// Counts a walk; returns whether the program has run since the previous walk.
    fn take_run(&mut self) -> bool {
        self.walks += 1;
        let idle_walks = self.idle_walks.as_ref();
        let was_seen =
            idle_walks.is_some_and(|idle_walks| idle_walks.binary_search(&self.walks).is_err());
        std::mem::take(&mut self.has_run) || was_seen
    }

    /// Makes a page present, after a fault.
    pub fn install(&mut self, page: u64) {
        self.set(page, PRESENT);
    }

    /// Returns whether a folio is present in some mapping.
    #[must_use]
    pub fn is_present(&self, id: FolioId) -> bool {
        let mut mappings = self.map.mappings(id);
        mappings.any(|(page, _)| self.bits(page) & PRESENT != 0)
    }

    /// Returns the number of folios.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.folios
    }

    /// Returns whether nothing was ever mapped.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.folios == 0
    }

    /// Returns the VMA of `page`; `None` if there is none, or if accesses through it do not count
    /// (it has no recency).
    fn recent_vma(&self, page: u64) -> Option<Vma> {
        let vma = self.map.find(page)?;
        self.map.has_recency(vma).then_some(*vma)
    }

    /// Unmaps a folio from all its mappings, unless it was accessed through a mapping with recency.
    /// In that case the accessed bits of these mappings are cleared instead. Accesses through other
    /// mappings do not count, and their bits stay.
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

    /// Unmaps a folio that its program frees. The caller removes an anonymous folio.
    pub(super) fn zap(&mut self, id: FolioId) {
        let pages: Vec<u64> = self.map.mappings(id).map(|(page, _)| page).collect();
        pages.into_iter().for_each(|page| self.set(page, 0));
    }

    /// Removes the mappings of pages `start..end`. File folios stay in memory, and their accesses
    /// are reported to `lruvec` if the mapping has recency now. The caller removes anonymous
    /// folios.
    /// spec: reclaim-control.md 6.1.
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
