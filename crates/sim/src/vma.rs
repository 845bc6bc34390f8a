//! A model of VMAs (mappings), as far as reclaim needs them: the kind of memory, and whether
//! accesses predict later accesses (recency).
//! spec: reclaim-control.md 6.

use engine::folio::{FolioId, FolioType};
use std::collections::BTreeMap;

/// What a VMA maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VmaKind {
    /// Private anonymous memory.
    Anon,
    /// A file, through this open file description.
    File(OpenFileId),
}

/// Number of an open file description. FADV_NOREUSE belongs to it, not to a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpenFileId(pub u32);

/// The read pattern that madvise declared for a VMA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Advice {
    /// No advice.
    #[default]
    Normal,
    /// MADV_SEQUENTIAL.
    Sequential,
    /// MADV_RANDOM.
    Random,
}

/// Advice of posix_fadvise about an open file description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fadvice {
    /// Clears any other advice.
    Normal,
    /// Reads will be sequential; says nothing about reuse.
    Sequential,
    /// Reads will be random; says nothing about reuse.
    Random,
    /// The data will not be used again.
    NoReuse,
}

/// The mode flags of an open file description.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileMode {
    random: bool,
    noreuse: bool,
}

impl FileMode {
    /// Applies an advice. It holds for the whole file and for all mappings through this
    /// description; the cost does not depend on their number.
    pub const fn advise(&mut self, advice: Fadvice) {
        match advice {
            Fadvice::Normal => {
                *self = Self {
                    random: false,
                    noreuse: false,
                }
            }
            Fadvice::Sequential => self.random = false,
            Fadvice::Random => self.random = true,
            Fadvice::NoReuse => self.noreuse = true,
        }
    }

    /// Returns whether FADV_NOREUSE applies.
    #[must_use]
    pub const fn noreuse(self) -> bool {
        self.noreuse
    }
}

/// A mapping: pages `start..end` of an address space map the folios from `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vma {
    /// Number of the first page.
    pub start: u64,
    /// Number of the page after the last.
    pub end: u64,
    /// What the mapping maps.
    pub kind: VmaKind,
    /// Advice of madvise about the mapping.
    pub advice: Advice,
    /// Folio of page `start`; the following pages have the following folios.
    pub first: FolioId,
}

impl Vma {
    /// Returns whether accesses through this VMA predict later ones (the kernel's
    /// `vma_has_recency`).
    #[must_use]
    pub const fn has_recency(&self, mode: FileMode) -> bool {
        let file = matches!(self.kind, VmaKind::File(_));
        matches!(self.advice, Advice::Normal) && !(file && mode.noreuse())
    }

    /// Returns the type of the mapped folios.
    #[must_use]
    pub const fn folio_type(&self) -> FolioType {
        match self.kind {
            VmaKind::Anon => FolioType::Anon,
            VmaKind::File(_) => FolioType::File,
        }
    }

    /// Returns the folio of page `page`; `None` outside of the mapping.
    #[must_use]
    pub fn folio(&self, page: u64) -> Option<FolioId> {
        if !(self.start..self.end).contains(&page) {
            return None;
        }
        let offset = u32::try_from(page - self.start).ok()?;
        Some(FolioId(self.first.0 + offset))
    }

    /// Returns the page that maps `id`; `None` if none does.
    #[must_use]
    pub fn page(&self, id: FolioId) -> Option<u64> {
        let page = self.start + u64::from(id.0.checked_sub(self.first.0)?);
        (page < self.end).then_some(page)
    }

    /// Returns the part of the mapping in `start..end`; `None` if there is none.
    fn cut(mut self, start: u64, end: u64) -> Option<Self> {
        let (start, end) = (start.max(self.start), end.min(self.end));
        if start >= end {
            return None;
        }
        self.first = self.folio(start)?;
        (self.start, self.end) = (start, end);
        Some(self)
    }
}

/// An address space. Invariant: VMAs do not overlap; the key of a VMA is its `start`.
#[derive(Clone, Debug, Default)]
pub struct AddressSpace {
    vmas: BTreeMap<u64, Vma>,
    files: BTreeMap<OpenFileId, FileMode>,
}

impl AddressSpace {
    /// Returns the VMA with `page`; `None` if there is none.
    #[must_use]
    pub fn find(&self, page: u64) -> Option<&Vma> {
        let (_, vma) = self.vmas.range(..=page).next_back()?;
        (page < vma.end).then_some(vma)
    }

    /// Returns all VMAs in address order.
    pub fn iter(&self) -> impl Iterator<Item = &Vma> {
        self.vmas.values()
    }

    /// Maps `vma` in place of anything that was there; returns the parts of VMAs that it replaced.
    pub fn map(&mut self, vma: Vma) -> Vec<Vma> {
        let displaced = self.unmap(vma.start, vma.end);
        self.vmas.insert(vma.start, vma);
        displaced
    }

    /// Unmaps pages `start..end`; splits VMAs that overlap the ends. Returns the removed parts.
    pub fn unmap(&mut self, start: u64, end: u64) -> Vec<Vma> {
        let overlapping = |vma: &Vma| vma.start < end && start < vma.end;
        let hit: Vec<Vma> = self
            .vmas
            .range(..end)
            .rev()
            .map(|(_, v)| *v)
            .take_while(overlapping)
            .collect();
        for vma in &hit {
            self.vmas.remove(&vma.start);
            for rest in [vma.cut(0, start), vma.cut(end, u64::MAX)]
                .into_iter()
                .flatten()
            {
                self.vmas.insert(rest.start, rest);
            }
        }
        hit.iter()
            .rev()
            .filter_map(|vma| vma.cut(start, end))
            .collect()
    }

    /// Applies madvise to pages `start..end`: splits VMAs where necessary.
    pub fn madvise(&mut self, start: u64, end: u64, advice: Advice) {
        for vma in self.unmap(start, end) {
            self.vmas.insert(vma.start, Vma { advice, ..vma });
        }
    }

    /// Applies posix_fadvise to an open file description.
    pub fn fadvise(&mut self, file: OpenFileId, advice: Fadvice) {
        self.files.entry(file).or_default().advise(advice);
    }

    /// Returns the mappings of a folio, each with the page that maps it (the reverse map). Searches
    /// all VMAs.
    pub fn mappings(&self, id: FolioId) -> impl Iterator<Item = (u64, &Vma)> {
        self.iter()
            .filter_map(move |vma| Some((vma.page(id)?, vma)))
    }

    /// Returns whether a mapping of the folio has recency; true for a folio without mappings.
    #[must_use]
    pub fn is_recent(&self, id: FolioId) -> bool {
        let mut mappings = self.mappings(id).peekable();
        mappings.peek().is_none() || mappings.any(|(_, vma)| self.has_recency(vma))
    }

    /// Returns whether every mapping has recency; then callers need not check each folio.
    #[must_use]
    pub fn is_all_recent(&self) -> bool {
        self.iter().all(|vma| self.has_recency(vma))
    }

    /// Returns `vma_has_recency` for a VMA of this address space.
    #[must_use]
    pub fn has_recency(&self, vma: &Vma) -> bool {
        let mode = match vma.kind {
            VmaKind::Anon => FileMode::default(),
            VmaKind::File(file) => self.files.get(&file).copied().unwrap_or_default(),
        };
        vma.has_recency(mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vma(start: u64, end: u64, kind: VmaKind) -> Vma {
        let first = FolioId(u32::try_from(start).expect("small"));
        Vma {
            start,
            end,
            kind,
            advice: Advice::Normal,
            first,
        }
    }

    #[test]
    fn unmapping_the_middle_leaves_both_ends() {
        let mut mm = AddressSpace::default();
        mm.map(vma(10, 20, VmaKind::Anon));
        mm.map(vma(20, 30, VmaKind::Anon));
        let gone = mm.unmap(15, 25);
        assert_eq!(
            gone.iter().map(|v| (v.start, v.end)).collect::<Vec<_>>(),
            [(15, 20), (20, 25)]
        );
        let left: Vec<_> = mm.iter().map(|v| (v.start, v.end, v.first.0)).collect();
        assert_eq!(left, [(10, 15, 10), (25, 30, 25)]);
        assert!(mm.find(15).is_none() && mm.find(25).is_some());
        assert_eq!(mm.find(26).and_then(|v| v.folio(26)), Some(FolioId(26)));
    }

    /// reclaim-control.md 11, first half of test 11: madvise removes and restores recency.
    #[test]
    fn madvise_removes_and_restores_recency() {
        let mut mm = AddressSpace::default();
        mm.map(vma(0, 100, VmaKind::Anon));
        mm.madvise(10, 20, Advice::Random);
        let recent = |mm: &AddressSpace, page| mm.find(page).is_some_and(|v| mm.has_recency(v));
        assert!(recent(&mm, 9) && !recent(&mm, 10) && !recent(&mm, 19) && recent(&mm, 20));
        mm.madvise(0, 100, Advice::Normal);
        assert!(recent(&mm, 15));
        mm.madvise(0, 100, Advice::Sequential);
        assert!(!recent(&mm, 50));
    }

    /// Regression: if two VMAs mapped a folio, only one of them was found.
    #[test]
    fn a_folio_may_be_mapped_twice() {
        let mut mm = AddressSpace::default();
        mm.map(vma(10, 20, VmaKind::File(OpenFileId(1))));
        let again = Vma {
            first: FolioId(15),
            ..vma(50, 60, VmaKind::File(OpenFileId(2)))
        };
        mm.map(again);
        let pages = |mm: &AddressSpace, id| {
            let mappings = mm.mappings(FolioId(id));
            mappings.map(|(page, _)| page).collect::<Vec<_>>()
        };
        assert_eq!(pages(&mm, 14), [14]);
        assert_eq!(pages(&mm, 15), [15, 50]);
        assert_eq!(pages(&mm, 24), [59]);
        assert!(pages(&mm, 25).is_empty());
        mm.fadvise(OpenFileId(1), Fadvice::NoReuse);
        let recent = [14, 15, 24, 25].map(|id| mm.is_recent(FolioId(id)));
        assert_eq!(recent, [false, true, true, true]);
        assert!(!mm.is_all_recent());
    }

    /// reclaim-control.md 11, test 12: POSIX_FADV_NOREUSE belongs to the open file description.
    #[test]
    fn noreuse_belongs_to_the_open_description() {
        let mut mm = AddressSpace::default();
        mm.map(vma(0, 10, VmaKind::File(OpenFileId(1))));
        mm.map(vma(10, 20, VmaKind::File(OpenFileId(1))));
        mm.map(vma(20, 30, VmaKind::File(OpenFileId(2))));
        let recent = |mm: &AddressSpace| mm.iter().map(|v| mm.has_recency(v)).collect::<Vec<_>>();
        mm.fadvise(OpenFileId(1), Fadvice::NoReuse);
        assert_eq!(recent(&mm), [false, false, true]);
        mm.fadvise(OpenFileId(1), Fadvice::Sequential);
        mm.fadvise(OpenFileId(1), Fadvice::Random);
        assert_eq!(recent(&mm), [false, false, true], "these do not clear it");
        mm.fadvise(OpenFileId(1), Fadvice::Normal);
        assert_eq!(recent(&mm), [true; 3]);
    }
}
