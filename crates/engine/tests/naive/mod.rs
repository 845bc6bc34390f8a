//! A simple model of the engine's multi-gen LRU (profile P616): a struct for each page, a
//! `VecDeque` for each list, and a search for each removal. It is written from spec/lru-gen.md and
//! spec/workingset.md, and shares only the types of its inputs with the engine. Sections named
//! below are those of spec/lru-gen.md.

mod control;
mod report;

use control::Control;
use engine::{FaultKind, FolioType, PageOut};
use std::collections::{BTreeMap, VecDeque};

pub use report::naive_page_age;

/// Whether a page is in memory, and in which generation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PageState {
    Nowhere,
    /// In memory; its flags say that the page is in the generation with this seq. It may still be
    /// on the list of another generation.
    Gen(u64),
    /// Isolated, or found unevictable and taken off its list.
    Off,
    /// Evicted. The shadow entry has, in this order: the seq and the number of references in the
    /// token, and the workingset bit.
    Out(u64, u32, bool),
}

#[derive(Clone, Debug)]
pub struct Page {
    pub place: PageState,
    pub ty: FolioType,
    pub referenced: bool,
    pub field: u32,
    pub workingset: bool,
    active: bool,
    reclaim: bool,
    /// The accessed bit, which the hardware sets.
    accessed: bool,
    /// Whether a walk reported the page as young while the page was isolated.
    reported: bool,
    /// Seq of the generation from which the page was isolated.
    isolated_from: u64,
    swap_cache: bool,
    pub dirty: bool,
    pub writeback: bool,
    pub unevictable: bool,
}

impl Page {
    fn new() -> Self {
        Self {
            place: PageState::Nowhere,
            ty: FolioType::Anon,
            referenced: false,
            field: 0,
            workingset: false,
            active: false,
            reclaim: false,
            accessed: false,
            reported: false,
            isolated_from: 0,
            swap_cache: false,
            dirty: false,
            writeback: false,
            unevictable: false,
        }
    }

    fn refs(&self) -> u32 {
        if self.referenced { self.field + 1 } else { 0 }
    }

    fn tier(&self) -> usize {
        if self.workingset {
            3
        } else {
            [0, 0, 1, 2, 2][self.refs() as usize]
        }
    }

    fn lazily_promoted(&self) -> bool {
        self.refs() + u32::from(self.workingset) == 5
    }
}

#[derive(Default, Debug, PartialEq, Clone)]
pub struct Counts {
    pub refault: [u64; 2],
    pub activate: [u64; 2],
    pub restore: [u64; 2],
    pub steal: u64,
    pub scan: u64,
}

/// The naive model of one tenant's pages.
pub struct Naive {
    pub pages: Vec<Page>,
    pub lists: BTreeMap<(u64, usize), VecDeque<u32>>,
    pub max_seq: u64,
    pub min_seq: [u64; 2],
    pub births: BTreeMap<u64, u64>,
    pub counts: Counts,
    control: Control,
    pub swappiness: u64,
}

impl Naive {
    pub fn new(pages: usize, swappiness: u64) -> Self {
        Self {
            pages: vec![Page::new(); pages],
            lists: BTreeMap::new(),
            max_seq: 3,
            min_seq: [0, 0],
            births: (0..4).map(|seq| (seq, 0)).collect(),
            counts: Counts::default(),
            control: Control::default(),
            swappiness,
        }
    }

    /// Adds a page to the list of a generation: at the head, or at the tail, from which pages are
    /// evicted.
    fn push(&mut self, seq: u64, id: u32, head: bool) {
        let list = self
            .lists
            .entry((seq, self.pages[id as usize].ty as usize))
            .or_default();
        if head {
            list.push_front(id)
        } else {
            list.push_back(id)
        }
    }

    /// Removes a page from every list.
    fn unlink(&mut self, id: u32) {
        self.lists
            .values_mut()
            .for_each(|list| list.retain(|&other| other != id));
    }

    /// Inserts a page as in section 4.
    fn insert(&mut self, id: u32, rotated: bool) {
        let page = &mut self.pages[id as usize];
        let g = if page.active {
            if page.workingset { 1 } else { 2 }
        } else if rotated {
            4
        } else if (page.ty == FolioType::Anon && !page.swap_cache)
            || (page.reclaim && (page.dirty || page.writeback))
        {
            2
        } else if page.workingset {
            3
        } else {
            4
        };
        let seq = (self.max_seq + 1 - g).max(self.min_seq[page.ty as usize]);
        page.active = false;
        page.place = PageState::Gen(seq);
        self.push(seq, id, !rotated);
    }

    pub fn fault(&mut self, id: u32, ty: FolioType, kind: FaultKind, recency: bool) {
        let in_fault = matches!(
            kind,
            FaultKind::FirstTouch | FaultKind::Refault | FaultKind::FaultReadahead
        );
        let old = self.pages[id as usize].clone();
        if matches!(old.place, PageState::Gen(_) | PageState::Off) {
            self.pages[id as usize].accessed = true;
            return;
        }
        let mut page = Page::new();
        page.ty = ty;
        page.active = in_fault && recency;
        if let (PageState::Out(seq, bits, workingset), true) =
            (old.place, kind != FaultKind::FirstTouch)
        {
            page.swap_cache = ty == FolioType::Anon;
            self.counts.refault[ty as usize] += 1;
            if self.max_seq.abs_diff(seq) < 4 {
                let refs = if bits > 0 { bits + 1 } else { 0 };
                let tier = if workingset {
                    3
                } else {
                    [0, 0, 1, 2, 2][refs as usize]
                };
                self.control.refaulted(ty, tier);
                self.counts.activate[ty as usize] += u64::from(in_fault && recency);
                if workingset {
                    page.workingset = true;
                    self.counts.restore[ty as usize] += 1;
                } else if refs > 0 {
                    page.field = refs - 1;
                }
            }
        }
        self.pages[id as usize] = page;
        self.insert(id, false);
    }

    /// Records that a walk found the page accessed: `update_gen` of section 3.
    pub fn young(&mut self, id: u32) {
        let page = &mut self.pages[id as usize];
        match page.place {
            PageState::Off => page.reported = true,
            PageState::Gen(_) if !page.referenced && !page.workingset => {
                page.referenced = true;
                page.field = 0;
            }
            PageState::Gen(_) => {
                page.place = PageState::Gen(self.max_seq);
                page.referenced = false;
                page.field = 0;
                page.workingset = true;
            }
            PageState::Nowhere | PageState::Out(..) => {}
        }
    }

    /// Reads and clears the accessed bits of pages whose mapping has recency.
    pub fn walk(&mut self, recency: &[bool]) {
        for (id, &recent) in (0u32..).zip(recency) {
            let page = &mut self.pages[id as usize];
            let walked = recent && matches!(page.place, PageState::Gen(_));
            if walked && std::mem::take(&mut page.accessed) {
                self.young(id);
            }
        }
    }

    /// Makes the reference check of an isolated page. Returns whether the page was accessed and is
    /// put back.
    pub fn keep_referenced(&mut self, id: u32, recent: bool) -> bool {
        let page = &mut self.pages[id as usize];
        let young = page.reported || (page.accessed && recent);
        if page.place != PageState::Off || !young {
            return false;
        }
        page.accessed &= !recent;
        self.put_back(id, PageOut::Referenced);
        true
    }

    pub fn mark_accessed(&mut self, id: u32) {
        let page = &mut self.pages[id as usize];
        if !matches!(page.place, PageState::Gen(_) | PageState::Off) || page.unevictable {
            return;
        }
        match (page.referenced, page.field) {
            (false, _) => (page.referenced, page.field) = (true, 0),
            (true, 3) => page.workingset = true,
            (true, _) => page.field += 1,
        }
    }

    pub fn unmap(&mut self, id: u32) {
        self.unlink(id);
        self.pages[id as usize] = Page::new();
    }

    pub fn rotate(&mut self, id: u32) {
        if matches!(self.pages[id as usize].place, PageState::Gen(_)) {
            self.unlink(id);
            self.pages[id as usize].reclaim = false;
            self.insert(id, true);
        }
    }

    pub fn deactivate(&mut self, id: u32) {
        let page = &mut self.pages[id as usize];
        let PageState::Gen(seq) = page.place else {
            return;
        };
        (page.referenced, page.field, page.workingset, page.accessed) = (false, 0, false, false);
        if seq > self.min_seq[page.ty as usize] {
            self.unlink(id);
            self.insert(id, false);
        }
    }

    /// Opens a new youngest generation as in section 5.3.
    pub fn age(&mut self, now: u64) {
        for ty in FolioType::ALL {
            if self.max_seq - self.min_seq[ty as usize] + 1 < 4 {
                continue;
            }
            let oldest = self.min_seq[ty as usize];
            let mut list = self
                .lists
                .remove(&(oldest, ty as usize))
                .unwrap_or_default();
            while let Some(id) = list.pop_back() {
                let page = self.pages[id as usize].clone();
                if !page.lazily_promoted() {
                    self.control.protected(ty, page.tier());
                }
                let seq = self.up_one(id);
                self.push(seq, id, false);
            }
            self.control.carry_over(ty);
            self.min_seq[ty as usize] += 1;
        }
        self.max_seq += 1;
        self.births.insert(self.max_seq, now);
    }

    /// Moves a page of the oldest generation to the next generation, unless the page was promoted
    /// before. Returns the seq of the page's generation after that.
    fn up_one(&mut self, id: u32) -> u64 {
        let page = &mut self.pages[id as usize];
        let PageState::Gen(seq) = page.place else {
            panic!("{id} is on a list")
        };
        if seq != self.min_seq[page.ty as usize] {
            return seq;
        }
        (page.referenced, page.field) = (false, 0);
        page.place = PageState::Gen(seq + 1);
        seq + 1
    }

    /// Advances `min_seq` as in section 5.4. Returns whether it changed.
    fn advance(&mut self) -> bool {
        let old = self.min_seq;
        let mut new = old;
        for (t, seq) in new.iter_mut().enumerate() {
            let empty = |seq: u64| self.lists.get(&(seq, t)).is_none_or(VecDeque::is_empty);
            while *seq + 2 <= self.max_seq && empty(*seq) {
                *seq += 1;
            }
        }
        let s = self.max_seq - 2;
        if new[0] > s && new[1] < s {
            new[0] = s;
        } else if new[1] > s && new[0] < s {
            new[1] = s;
        }
        for ty in FolioType::ALL {
            let t = ty as usize;
            if new[t] > old[t] {
                self.min_seq[t] = new[t];
                self.control.carry_over(ty);
            }
        }
        self.min_seq != old
    }

    /// Isolates one batch of up to `nr` pages as in section 6. Returns the number of scanned pages,
    /// and the isolated pages.
    fn evict(&mut self, nr: usize) -> (usize, Vec<u32>) {
        let first = self.control.choose(self.swappiness);
        let (mut scanned, mut isolated) = (0, Vec::new());
        for ty in [first, first.other()] {
            if scanned == 0 {
                (scanned, isolated) = self.scan(ty, nr);
            }
        }
        self.counts.scan += isolated.len() as u64;
        scanned += usize::from(self.advance());
        if self.min_seq[0].min(self.min_seq[1]) + 2 > self.max_seq {
            scanned = 0;
        }
        (scanned, isolated)
    }

    fn scan(&mut self, ty: FolioType, nr: usize) -> (usize, Vec<u32>) {
        self.scan_with(ty, nr, self.control.tier_idx(ty))
    }

    /// Scans the oldest generation of `ty` as in section 6.3. Returns the same as [`Self::evict`].
    fn scan_with(&mut self, ty: FolioType, nr: usize, tier_idx: usize) -> (usize, Vec<u32>) {
        let oldest = self.min_seq[ty as usize];
        if self.max_seq - oldest + 1 == 2 {
            return (0, Vec::new());
        }
        self.scan_of(ty, oldest, (nr, &mut usize::MAX.clone()), tier_idx)
    }

    /// Scans one generation. `nr`: maximum number of pages to isolate; `entries_left`: number of
    /// entries of its list that are not scanned yet. Returns the same as [`Self::evict`].
    fn scan_of(
        &mut self,
        ty: FolioType,
        oldest: u64,
        (nr, entries_left): (usize, &mut usize),
        tier_idx: usize,
    ) -> (usize, Vec<u32>) {
        let (mut examined, mut isolated) = (0, Vec::new());
        while isolated.len() < nr && examined < 4096 && *entries_left > 0 {
            let list = self.lists.entry((oldest, ty as usize)).or_default();
            let Some(id) = list.pop_back() else {
                *entries_left = 0;
                break;
            };
            examined += 1;
            *entries_left -= 1;
            let page = self.pages[id as usize].clone();
            let PageState::Gen(seq) = page.place else {
                panic!("{id} is on a list")
            };
            if page.unevictable {
                self.pages[id as usize].place = PageState::Off;
            } else if seq != oldest {
                self.push(seq, id, true);
            } else if page.tier() > tier_idx || page.lazily_promoted() {
                if !page.lazily_promoted() {
                    self.control.protected(ty, page.tier());
                }
                let seq = self.up_one(id);
                self.push(seq, id, true);
            } else if page.writeback || (ty == FolioType::File && page.dirty) {
                let seq = self.up_one(id);
                self.pages[id as usize].reclaim = true;
                self.push(seq, id, true);
            } else {
                let page = &mut self.pages[id as usize];
                page.field = if page.referenced { page.field } else { 0 };
                page.reclaim = false;
                page.place = PageState::Off;
                page.isolated_from = oldest;
                isolated.push(id);
            }
        }
        let has_progress = !isolated.is_empty() || examined == 4096;
        (if has_progress { examined } else { 0 }, isolated)
    }

    /// Isolates batches until `nr` pages are isolated or a batch is empty; returns these pages.
    pub fn isolate(&mut self, nr: usize) -> Vec<u32> {
        let mut isolated = Vec::new();
        while isolated.len() < nr {
            let (scanned, batch) = self.evict((nr - isolated.len()).min(64));
            isolated.extend(batch);
            if scanned == 0 {
                break;
            }
        }
        isolated
    }

    /// Isolates up to `nr` pages of all generations except the two youngest; returns them.
    pub fn isolate_by_age(&mut self, nr: usize) -> Vec<u32> {
        let mut isolated = Vec::new();
        self.advance();
        let first = self.control.choose(self.swappiness);
        for ty in [first, first.other()] {
            for seq in self.min_seq[ty as usize]..self.max_seq - 1 {
                let list = self.lists.get(&(seq, ty as usize));
                let mut entries_left = list.map_or(0, VecDeque::len);
                while entries_left > 0 {
                    let (max_pages, tier_idx) =
                        ((nr - isolated.len()).min(64), self.control.tier_idx(ty));
                    let (_, batch) =
                        self.scan_of(ty, seq, (max_pages, &mut entries_left), tier_idx);
                    self.counts.scan += batch.len() as u64;
                    isolated.extend(batch);
                    if isolated.len() == nr {
                        return isolated;
                    }
                }
            }
        }
        isolated
    }

    /// Ends the isolation of a page by its outcome, as in section 6.4. An evicted page gets its
    /// shadow entry.
    pub fn finish_page(&mut self, id: u32, outcome: PageOut) {
        let page = self.pages[id as usize].clone();
        if page.place != PageState::Off {
            return;
        }
        match outcome {
            PageOut::Stored | PageOut::Taken => {
                let seq = self.min_seq[page.ty as usize];
                self.control.evicted(page.ty, page.tier());
                self.counts.steal += u64::from(outcome == PageOut::Stored);
                let out = PageState::Out(seq, page.refs().saturating_sub(1), page.workingset);
                self.pages[id as usize] = Page {
                    place: out,
                    ty: page.ty,
                    ..Page::new()
                };
            }
            PageOut::Gone => self.unmap(id),
            PageOut::TooYoung => self.put_back_too_young(id),
            _ => self.put_back(id, outcome),
        }
    }

    /// Puts an isolated page back into its generation, if no walk reported the page as young and a
    /// generation uses the same slot (seq modulo 4; possibly a newer generation).
    fn put_back_too_young(&mut self, id: u32) {
        let page = &self.pages[id as usize];
        let mut all = self.min_seq[page.ty as usize]..=self.max_seq;
        match all.find(|seq| seq % 4 == page.isolated_from % 4) {
            Some(seq) if !page.reported => {
                self.pages[id as usize].place = PageState::Gen(seq);
                self.push(seq, id, true);
            }
            _ => self.put_back(id, PageOut::TooYoung),
        }
    }

    fn put_back(&mut self, id: u32, outcome: PageOut) {
        let page = &mut self.pages[id as usize];
        if outcome == PageOut::Referenced || std::mem::take(&mut page.reported) {
            page.reported = false;
            page.active = page.referenced || page.workingset;
            (page.referenced, page.field) = (!page.active, 0);
            page.workingset |= page.active;
        }
        // A page that would be in the oldest generation is inserted again as an active page.
        let before = page.clone();
        self.insert(id, false);
        let oldest = self.min_seq[before.ty as usize];
        if self.pages[id as usize].place == PageState::Gen(oldest) {
            self.unlink(id);
            let page = &mut self.pages[id as usize];
            *page = before;
            (page.active, page.referenced, page.field) = (true, false, 0);
            self.insert(id, false);
        }
    }

    pub fn resident(&self) -> u64 {
        let present = |page: &&Page| matches!(page.place, PageState::Gen(_) | PageState::Off);
        self.pages.iter().filter(present).count() as u64
    }
}
