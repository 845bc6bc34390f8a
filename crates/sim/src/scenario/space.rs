//! Simulated address spaces: VMAs, page tables of two levels with present and accessed bits, and the
//! way back from a folio to its page.
//!
//! This is the engine's view of hardware, kept apart from the engine: the walk goes through VMAs and
//! page tables, and page-out through the reverse map, as in the kernel.
//!
//! Invariants: a page is present here exactly if its folio is in memory; only present pages have an
//! accessed bit; page numbers of a space start at 0 and leave no gaps.

use engine::machine::Memories;
use engine::memcg::MemcgId;
use engine::vma::{AddressSpace, Vma};
use engine::{FolioId, Lruvec, PageOut};

const PRESENT: u8 = 1;
const ACCESSED: u8 = 2;
const ENTRIES: usize = 512;

type Leaf = Box<[u8; ENTRIES]>;

/// One address space.
#[derive(Debug, Default)]
pub struct Space {
    /// What is mapped.
    pub map: AddressSpace,
    directory: Vec<Option<Leaf>>,
    /// Page of each folio.
    pages: Vec<u64>,
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
        leaf.map_or(0, |leaf| leaf[at])
    }

    fn set(&mut self, page: u64, bits: u8) {
        let (leaf, at) = entry(page);
        if self.directory.len() <= leaf {
            self.directory.resize_with(leaf + 1, || None);
        }
        let leaf = self.directory[leaf].get_or_insert_with(|| Box::new([0; ENTRIES]));
        leaf[at] = bits;
    }

    /// A touch: false when it faults.
    pub fn touch(&mut self, page: u64) -> bool {
        let bits = self.bits(page);
        if bits & PRESENT != 0 {
            self.set(page, bits | ACCESSED);
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

    fn walk(&mut self, lruvec: &mut Lruvec) {
        let recent = self.map.iter().filter(|vma| self.map.has_recency(vma));
        let recent: Vec<Vma> = recent.copied().collect();
        for vma in recent {
            for page in vma.start..vma.end {
                let bits = self.bits(page);
                if bits & ACCESSED != 0 {
                    self.set(page, bits & !ACCESSED);
                    vma.folio(page).into_iter().for_each(|id| lruvec.young(id));
                }
            }
        }
    }

    /// Unmaps one folio's page unless it was accessed.
    fn unmap(&mut self, id: FolioId) -> PageOut {
        let Some(page) = self.page(id) else {
            return PageOut::Gone;
        };
        let bits = self.bits(page);
        let recency = self
            .map
            .find(page)
            .is_some_and(|vma| self.map.has_recency(vma));
        match bits {
            0 => PageOut::Gone,
            bits if bits & ACCESSED != 0 && recency => {
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

/// The address spaces of all tenants, by memcg.
#[derive(Debug, Default)]
pub struct Spaces {
    spaces: Vec<Space>,
    /// Whether accessed bits are looked for in here, or in the engine's own table.
    pub in_engine: bool,
    /// A fault planted by a test: page-out forgets to unmap.
    #[cfg(test)]
    pub(super) forgets_to_unmap: bool,
}

impl Spaces {
    /// None yet; `in_engine` says where accessed bits are looked for.
    #[must_use]
    pub fn new(in_engine: bool) -> Self {
        Self {
            in_engine,
            ..Self::default()
        }
    }

    /// The space of `id`; made empty when there is none.
    pub fn of(&mut self, id: MemcgId) -> &mut Space {
        if self.spaces.len() <= id.index() {
            self.spaces.resize_with(id.index() + 1, Space::default);
        }
        &mut self.spaces[id.index()]
    }

    /// The space of `id`, to look at.
    #[must_use]
    pub fn get(&self, id: MemcgId) -> Option<&Space> {
        self.spaces.get(id.index())
    }
}

impl Memories for Spaces {
    fn walk(&mut self, memcg: MemcgId, lruvec: &mut Lruvec) {
        if self.in_engine {
            lruvec.walk_accessed();
        } else {
            self.of(memcg).walk(lruvec);
        }
    }

    fn page_out(&mut self, memcg: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>) {
        #[cfg(test)]
        if self.forgets_to_unmap {
            outcome.extend(batch.iter().map(|_| PageOut::Stored));
            return;
        }
        if self.in_engine {
            outcome.extend(batch.iter().map(|_| PageOut::Stored));
            return;
        }
        let space = self.of(memcg);
        outcome.extend(batch.iter().map(|&id| space.unmap(id)));
    }
}
