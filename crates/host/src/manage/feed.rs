//! What a look tells the engine: which pages came, which were accessed, which left by another's hand, which
//! are gone.
//!
//! Invariant: after [`Listener::end`] the engine's present pages of that address space are the pages that the reading
//! found present and owned by it, and its shadows are pages that left memory and that their program has not
//! removed since. A frame is one page of one owner: who else maps it tells the engine nothing.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use engine::memcg::MemcgId;
use engine::policy::AgeHistogram;
use engine::word::State;
use engine::{FaultKind, FolioId, FolioType, Machine, Millis, Pages};
use pagetables::{Entry, Kind as EntryKind, Piece};

use super::homes::Homes;
use super::ids::{CHUNK, CHUNK_PAGES, Ids, chunk_of, pages_within};
use super::members::Members;
use super::out::Out;
use crate::ages::{Listener, Told};
use crate::books::Owner;
use crate::system::{Identity, Kind, Mapping, Maps};

/// What looks found that nobody of ours did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Noticed {
    /// Pages that had left and are back.
    pub(super) came_back: u64,
    /// Those of them without a file.
    pub(super) anon_back: u64,
    /// Pages that the kernel's own reclaim took.
    pub(super) left: u64,
}

impl Noticed {
    pub(super) fn add(&mut self, other: Noticed) {
        self.came_back += other.came_back;
        self.anon_back += other.anon_back;
        self.left += other.left;
    }
}

/// One page, as a reading finds it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Page {
    /// In memory.
    In(FolioType, Seen),
    /// In swap; or, of a file or of shared memory, not in its entry, which may be the same.
    Out,
    /// Not there, or another's.
    Gone,
    /// Memory without a file in a frame that the books tell to be another's: shared with that one, or that one's until a moment ago.
    Anothers,
}

/// What a page's accesses say.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    /// It was accessed since the last look, or may have been.
    pub(super) young: bool,
    /// An access says that another is likely.
    pub(super) recency: bool,
}

/// A chunk some of whose pages were told.
struct Open {
    owner: Owner,
    start: u64,
    /// None until a page is found that needs ids.
    first: Option<FolioId>,
    /// One bit a page.
    told: [u64; 8],
}

/// Tells a machine.
pub(super) struct Feed<'a> {
    machine: &'a mut Machine,
    homes: &'a mut Homes,
    /// Whose tenant a process is.
    home_of: &'a dyn Fn(Identity) -> MemcgId,
    /// The tenant of the address space that is being told.
    memcg: MemcgId,
    members: &'a mut Members,
    /// The number of this reading.
    reading: u64,
    /// The chunk that the last page was told of.
    open: Option<Open>,
    /// Further chunks of this address space of which pages were told, by their first address. They stay open until all is told:
    /// pieces come in any order, and several mappings may lie in one chunk.
    others: BTreeMap<u64, Open>,
    /// Huge pages of files and shared memory that this address space was told to have, by where they lie in memory: each counts where it is mapped
    /// first. (The story: one that was mapped 65,000 times was 33 million pages.)
    told_whole: HashSet<u64>,
    pub(super) noticed: Noticed,
    /// Where somebody wants to know how old what is out is.
    returns: Option<Returns<'a>>,
}

/// What comes back, by how long it had been idle.
pub(super) struct Returns<'a> {
    pub(super) out: &'a mut Out,
    /// By tenant with a policy, since it was last taken.
    pub(super) back: &'a mut BTreeMap<MemcgId, Back>,
    /// The look before this one, and this one, milliseconds of the books.
    pub(super) before_ms: u64,
    pub(super) now_ms: u64,
}

/// What was used again, and what of it had left.
#[derive(Debug, Default)]
pub(super) struct Back {
    /// By how long each page had been idle at the look before.
    pub(super) ages: AgeHistogram,
    /// Pages that had left.
    pub(super) refaults: Pages,
}

impl Returns<'_> {
    fn came_back(&mut self, memcg: MemcgId, id: FolioId) {
        let last = self.out.take(memcg, id);
        let Some(back) = self.back.get_mut(&memcg) else {
            return;
        };
        back.refaults.0 += 1;
        // Of what had left before anybody kept times, nothing is known.
        if let Some(last) = last {
            let idle = Millis(self.before_ms).since(Millis(last));
            back.ages.add(idle, Pages(1));
        }
    }
}

impl<'a> Feed<'a> {
    /// `reading` is another number than that of any look before.
    pub(super) fn new(
        machine: &'a mut Machine,
        (homes, home_of): (&'a mut Homes, &'a dyn Fn(Identity) -> MemcgId),
        members: &'a mut Members,
        (reading, returns): (u64, Option<Returns<'a>>),
    ) -> Feed<'a> {
        Feed {
            machine,
            homes,
            home_of,
            memcg: MemcgId::ROOT,
            members,
            reading,
            open: None,
            others: BTreeMap::new(),
            told_whole: HashSet::new(),
            noticed: Noticed::default(),
            returns,
        }
    }

    /// The chunk at `start` is the one that pages are told of.
    fn turn_to(&mut self, owner: Owner, start: u64) {
        let is_open = |open: &Open| open.owner == owner && open.start == start;
        if self.open.as_ref().is_some_and(is_open) {
            return;
        }
        if let Some(other) = self.open.take() {
            self.others.insert(other.start, other);
        }
        let known = self.others.remove(&start).filter(is_open);
        self.open = Some(known.unwrap_or_else(|| {
            Open {
                owner,
                start,
                first: self
                    .homes
                    .ids_mut(self.memcg)
                    .find(owner, start, self.reading),
                told: [0; 8],
            }
        }));
    }

    /// All chunks are told: pages of theirs that were not are not mapped any more.
    fn close(&mut self) {
        let open = self.open.take().into_iter();
        let all: Vec<Open> = open
            .chain(std::mem::take(&mut self.others).into_values())
            .collect();
        for Open { first, told, .. } in all {
            let Some(first) = first else {
                continue;
            };
            for (word, bits) in (0_u32..).zip(told) {
                for bit in (0..64).filter(|bit| bits >> bit & 1 == 0) {
                    self.forget(FolioId(first.0 + word * 64 + bit), 1);
                }
            }
        }
    }

    /// Nothing is concluded from what was not told.
    fn drop_open(&mut self) {
        self.open = None;
        self.others.clear();
    }

    fn ids(&self) -> &Ids {
        self.homes.ids(self.memcg)
    }

    /// Pages of this owner are none of its tenant's any more.
    fn forget_all(&mut self, owner: Owner, chunks: Vec<(u64, FolioId)>) {
        for (start, first) in chunks {
            self.forget(first, CHUNK_PAGES);
            self.homes.ids_mut(self.memcg).release(owner, start);
        }
    }

    fn forget(&mut self, first: FolioId, pages: u32) {
        if let Some(returns) = &mut self.returns {
            returns.out.forget(self.memcg, first, pages);
        }
        self.machine.unmap_range(self.memcg, first, pages as usize);
    }

    /// Page number `at` of the open chunk.
    fn tell(&mut self, at: u32, page: Page) {
        let Some(open) = &mut self.open else {
            return;
        };
        open.told[(at / 64) as usize] |= 1 << (at % 64);
        let first = match (open.first, page) {
            (Some(first), _) => first,
            (None, Page::In(..)) => {
                let ids = self.homes.ids_mut(self.memcg);
                let made = ids.find_or_make(open.owner, open.start, self.reading);
                let Some(first) = made else {
                    return;
                };
                open.first = Some(first);
                self.machine.lruvec_mut(self.memcg).ensure(ids.len());
                first
            }
            (None, _) => return,
        };
        self.tell_engine(FolioId(first.0 + at), page);
    }

    fn tell_engine(&mut self, id: FolioId, page: Page) {
        let word = self.machine.lruvec(self.memcg).folios().get(id);
        let (mut present, out) = (word.is_present(), word.state() == State::Shadow);
        if let Page::In(ty, _) = page
            && present
            && word.folio_type() != ty
        {
            // Another page: a copy of the file's that was written since the last look, or what is mapped there now.
            self.forget(id, 1);
            present = false;
        }
        match page {
            Page::In(ty, Seen { recency, .. }) if out => self.came_back((id, ty), recency),
            Page::In(ty, Seen { young, recency }) => {
                if !present {
                    let kind = FaultKind::FirstTouch;
                    self.machine.fault_in(self.memcg, id, ty, kind, recency);
                } else if young && recency {
                    self.machine.lruvec_mut(self.memcg).seen_in_use(id);
                }
            }
            Page::Out if present => {
                self.noticed.left += 1;
                if let Some(returns) = &mut self.returns {
                    // Its frame is another's by now: it may have been used until a moment ago.
                    returns.out.note(self.memcg, id, returns.now_ms);
                }
                self.machine.left(self.memcg, id);
            }
            Page::Out => {}
            Page::Gone | Page::Anothers => {
                // (The story: what had come back to a frame of another tenant's, which the look had not reached yet, was forgotten
                // as if it had been removed, and not counted.)
                if out && page == Page::Anothers {
                    self.came_back((id, FolioType::Anon), false);
                }
                if present || out {
                    self.forget(id, 1);
                }
            }
        }
    }

    /// What was out is in memory.
    fn came_back(&mut self, (id, ty): (FolioId, FolioType), recency: bool) {
        self.noticed.came_back += 1;
        self.noticed.anon_back += u64::from(ty == FolioType::Anon);
        if let Some(returns) = &mut self.returns {
            returns.came_back(self.memcg, id);
        }
        let kind = FaultKind::Refault;
        self.machine.fault_in(self.memcg, id, ty, kind, recency);
    }

    fn tell_pages(&mut self, told: &Told<'_>, start: u64, entries: &[Entry]) {
        let chunk = chunk_of(start);
        self.turn_to(told.owner, chunk);
        for (at, entry) in pages_within(&(start..chunk + CHUNK), chunk).zip(entries) {
            let page = classify(told, *entry, 0);
            self.tell(at, page);
        }
    }

    /// What could not be read stays as it was.
    fn leave(&mut self, owner: Owner, range: Range<u64>) {
        for (chunk, _) in self.ids().within(owner, chunk_of(range.start)..range.end) {
            self.turn_to(owner, chunk);
            let Some(open) = &mut self.open else {
                continue;
            };
            for at in pages_within(&range, chunk) {
                open.told[(at / 64) as usize] |= 1 << (at % 64);
            }
        }
    }

    /// One entry for a part of a huge page, or for a hole of any size.
    fn tell_whole(&mut self, told: &Told<'_>, whole: &Range<u64>, span: u64, entry: Entry) {
        if entry.is_present() && told.mapping.kind != Kind::Anon {
            let at = entry.physical(told.mask) + (whole.start & (span - 1));
            if !self.told_whole.insert(at) {
                return;
            }
        }
        let from = chunk_of(whole.start);
        let chunks: Vec<u64> = if entry.is_present() {
            (from / CHUNK..whole.end.div_ceil(CHUNK))
                .map(|number| number * CHUNK)
                .collect()
        } else {
            let known = self.ids().within(told.owner, from..whole.end);
            known.into_iter().map(|(start, _)| start).collect()
        };
        for chunk in chunks {
            self.turn_to(told.owner, chunk);
            for at in pages_within(whole, chunk) {
                let address = chunk + u64::from(at) * 4096;
                let page = classify(told, entry, address & (span - 1));
                self.tell(at, page);
            }
        }
    }
}

impl Listener for Feed<'_> {
    fn begin(&mut self, owner: Owner, identity: Identity, maps: &Maps) {
        let home = (self.home_of)(identity);
        if let Some(before) = self.homes.of(owner).filter(|before| *before != home) {
            // It was moved, with all its pages: there they are new, and the books know their ages.
            self.memcg = before;
            self.forget_all(owner, self.ids().within(owner, 0..u64::MAX));
        }
        self.told_whole.clear();
        self.homes.set_home(owner, home);
        self.homes.begin_recency(owner, maps);
        self.memcg = home;
    }

    fn hear(&mut self, told: Told<'_>, piece: Piece<'_>) {
        if matches!(told.mapping.kind, Kind::Device | Kind::Hugetlb) {
            return;
        }
        let told = Told {
            has_recency: told.has_recency && self.homes.has_recency(told.owner, told.mapping.start),
            ..told
        };
        if !told.has_recency {
            let Mapping { start, end, .. } = *told.mapping;
            self.homes.note_unrecent(told.owner, start..end);
        }
        match piece {
            Piece::Pages { start, entries } => self.tell_pages(&told, start, entries),
            Piece::Whole {
                start,
                bytes,
                span,
                entry,
            } => {
                self.tell_whole(&told, &(start..start + bytes), span, entry);
            }
            Piece::Unsure { start, bytes } => self.leave(told.owner, start..start + bytes),
        }
    }

    fn end(&mut self, owner: Owner, identity: Identity, whole: bool) {
        self.members.note(owner, identity);
        if !whole {
            // What was not told may be there all the same.
            self.drop_open();
            return;
        }
        self.close();
        self.forget_all(owner, self.ids().untold(owner, self.reading));
    }

    fn gone(&mut self, owner: Owner) {
        self.drop_open();
        if let Some(home) = self.homes.of(owner) {
            self.memcg = home;
            self.forget_all(owner, self.ids().within(owner, 0..u64::MAX));
            self.homes.forget(owner);
        }
        self.members.forget(owner);
    }
}

/// What an entry is, `offset` bytes into what it spans.
pub(super) fn classify(told: &Told<'_>, entry: Entry, offset: u64) -> Page {
    let mapping = told.mapping;
    match entry.kind() {
        EntryKind::Swapped => return Page::Out,
        // An entry of a file's mapping is empty before the first touch as after the page has left.
        EntryKind::Empty if mapping.kind != Kind::Anon => return Page::Out,
        EntryKind::Empty | EntryKind::Other => return Page::Gone,
        EntryKind::Present if entry.is_special() => return Page::Gone,
        EntryKind::Present => {}
    }
    let is_own = entry.is_dirty() || entry.is_writable();
    let backed = match mapping.kind {
        Kind::Anon => false,
        Kind::File => mapping.shared || !is_own,
        _ => true,
    };
    if backed || !entry.is_writable() {
        let frame = (entry.physical(told.mask) + offset) >> 12;
        let owner = told.books.look_up(frame).map(|(owner, _)| owner);
        match owner {
            Some(owner) if owner == told.owner => {}
            Some(_) if !backed => return Page::Anothers,
            _ => return Page::Gone,
        }
    }
    let ty = match mapping.kind {
        Kind::File if backed => FolioType::File,
        _ => FolioType::Anon,
    };
    let seen = Seen {
        young: told.is_young(entry),
        recency: told.has_recency,
    };
    Page::In(ty, seen)
}

#[cfg(test)]
mod tests;
