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
use super::ids::{self, Ids, Known, STRETCH, STRETCH_PAGES, stretch_of};
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

/// Tells a machine.
pub(super) struct Feed<'a> {
    machine: &'a mut Machine,
    homes: &'a mut Homes,
    /// Whose tenant a process is.
    home_of: &'a dyn Fn(Identity) -> MemcgId,
    /// The tenant of the address space that is being told.
    memcg: MemcgId,
    members: &'a mut Members,
    /// What ids the stretch has that is being told.
    known: Known,
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
    pub(super) fn new(
        machine: &'a mut Machine,
        (homes, home_of): (&'a mut Homes, &'a dyn Fn(Identity) -> MemcgId),
        members: &'a mut Members,
        returns: Option<Returns<'a>>,
    ) -> Feed<'a> {
        Feed {
            machine,
            homes,
            home_of,
            memcg: MemcgId::ROOT,
            members,
            known: Known::default(),
            told_whole: HashSet::new(),
            noticed: Noticed::default(),
            returns,
        }
    }

    fn ids(&self) -> &Ids {
        self.homes.ids(self.memcg)
    }

    /// The ids of this tenant, to change, and what follows their changes.
    fn ids_and_pages(&mut self) -> (&mut Ids, Followers<'_>, &mut Known) {
        let followers = Followers {
            machine: &mut *self.machine,
            out: self.returns.as_mut().map(|returns| &mut *returns.out),
            memcg: self.memcg,
        };
        (self.homes.ids_mut(self.memcg), followers, &mut self.known)
    }

    /// Pages of this owner are none of its tenant's any more.
    fn forget_all(&mut self, owner: Owner) {
        let (ids, mut followers, _) = self.ids_and_pages();
        ids.release(owner, &mut followers);
        self.shrink();
    }

    /// Memory that was for pages that have gone is given back, or each tenant would keep what the most
    /// that it ever had took.
    fn shrink(&mut self) {
        let (ids, mut followers, _) = self.ids_and_pages();
        if ids.shrink(&mut followers) {
            let ids = ids.len();
            let lruvec = followers.machine.lruvec_mut(followers.memcg);
            lruvec.shrink(ids);
        }
    }

    fn forget(&mut self, first: FolioId, pages: u32) {
        let (_, mut followers, _) = self.ids_and_pages();
        ids::Pages::forget(&mut followers, first, pages);
    }

    /// Pages `which` of the stretch at `start`; about `likely` of them are in memory.
    fn tell_stretch(
        &mut self,
        (owner, start): (Owner, u64),
        (which, likely): (Range<u32>, usize),
        page: impl Fn(u32) -> Page,
    ) {
        let (ids, _, known) = self.ids_and_pages();
        ids.look_up(owner, start, known);
        if likely == 0 && known.is_empty() {
            return;
        }
        let likely = u32::try_from(likely).unwrap_or(STRETCH_PAGES);
        // One bit a page of the block.
        let mut found = 0_u64;
        for at in which {
            let page = page(at);
            let id = match (self.known.id(at), page) {
                (None, Page::In(..)) => self.make((owner, start), (at, likely)),
                (id, _) => id,
            };
            if let Some(id) = id
                && self.tell_engine(id, page)
            {
                let (ids, _, known) = self.ids_and_pages();
                match known.block {
                    Some(first) if first.0 + at == id.0 => found |= 1 << at,
                    _ => ids.note_single(known, id),
                }
            }
        }
        let (ids, _, known) = self.ids_and_pages();
        ids.note_block(known, found);
    }

    fn make(&mut self, stretch: (Owner, u64), page: (u32, u32)) -> Option<FolioId> {
        let (ids, mut followers, known) = self.ids_and_pages();
        let id = ids.make(stretch, page, known, &mut followers);
        let ids = ids.len();
        self.machine.lruvec_mut(self.memcg).ensure(ids);
        id
    }

    /// Whether the engine has the page then, in memory or out.
    fn tell_engine(&mut self, id: FolioId, page: Page) -> bool {
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
            Page::In(ty, Seen { recency, .. }) if out => {
                self.came_back((id, ty), recency);
                true
            }
            Page::In(ty, Seen { young, recency }) => {
                if !present {
                    let kind = FaultKind::FirstTouch;
                    self.machine.fault_in(self.memcg, id, ty, kind, recency);
                } else if young && recency {
                    self.machine.lruvec_mut(self.memcg).seen_in_use(id);
                }
                true
            }
            Page::Out if present => {
                self.noticed.left += 1;
                if let Some(returns) = &mut self.returns {
                    // Its frame is another's by now: it may have been used until a moment ago.
                    returns.out.note(self.memcg, id, returns.now_ms);
                }
                self.machine.left(self.memcg, id)
            }
            Page::Out => out,
            Page::Gone | Page::Anothers => {
                // (The story: what had come back to a frame of another tenant's, which the look had not reached yet, was forgotten
                // as if it had been removed, and not counted.)
                if out && page == Page::Anothers {
                    self.came_back((id, FolioType::Anon), false);
                }
                if present || out {
                    self.forget(id, 1);
                }
                false
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
        let (mut start, mut rest) = (start, entries);
        while !rest.is_empty() {
            let stretch = stretch_of(start);
            let first = page_of(start - stretch);
            let pages = rest.len().min((STRETCH_PAGES - first) as usize);
            let (now, later) = rest.split_at(pages);
            let is_in = |entry: &&Entry| entry.is_present() && !entry.is_special();
            let likely = now.iter().filter(is_in).count();
            let which = first..first + u32::try_from(pages).unwrap_or(0);
            self.tell_stretch((told.owner, stretch), (which, likely), |at| {
                classify(told, now[(at - first) as usize], 0)
            });
            start = stretch + STRETCH;
            rest = later;
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
        let is_in = entry.is_present() && !entry.is_special();
        let stretches: Vec<u64> = if is_in {
            let from = stretch_of(whole.start);
            (from..whole.end)
                .step_by(STRETCH_PAGES as usize * 4096)
                .collect()
        } else if classify(told, entry, 0) == Page::Gone {
            // What is not told is gone.
            return;
        } else {
            self.ids().stretches(told.owner, whole)
        };
        for stretch in stretches {
            let page = |address: u64| page_of(address.clamp(stretch, stretch + STRETCH) - stretch);
            let which = page(whole.start)..page(whole.end);
            let likely = if is_in { which.len() } else { 0 };
            self.tell_stretch((told.owner, stretch), (which, likely), |at| {
                let address = stretch + u64::from(at) * 4096;
                classify(told, entry, address & (span - 1))
            });
        }
    }
}

/// What ids stand for elsewhere: pages of the engine, and times when pages left.
struct Followers<'a> {
    machine: &'a mut Machine,
    out: Option<&'a mut Out>,
    memcg: MemcgId,
}

impl ids::Pages for Followers<'_> {
    fn forget(&mut self, first: FolioId, pages: u32) {
        if let Some(out) = &mut self.out {
            out.forget(self.memcg, first, pages);
        }
        self.machine.unmap_range(self.memcg, first, pages as usize);
    }

    fn rename(&mut self, from: FolioId, to: FolioId) -> bool {
        let end = (to.0 / STRETCH_PAGES + 1) * STRETCH_PAGES;
        self.machine.lruvec_mut(self.memcg).ensure(end as usize);
        let is_renamed = self.machine.rename(self.memcg, from, to);
        if let Some(out) = self.out.as_mut().filter(|_| is_renamed) {
            out.rename(self.memcg, from, to);
        }
        is_renamed
    }
}

/// So many bytes as pages.
fn page_of(bytes: u64) -> u32 {
    u32::try_from(bytes / 4096).unwrap_or(u32::MAX)
}

impl Listener for Feed<'_> {
    fn begin(&mut self, owner: Owner, identity: Identity, maps: &Maps) {
        let home = (self.home_of)(identity);
        if let Some(before) = self.homes.of(owner).filter(|before| *before != home) {
            // It was moved, with all its pages: there they are new, and the books know their ages.
            self.memcg = before;
            self.forget_all(owner);
        }
        self.told_whole.clear();
        self.homes.set_home(owner, home);
        self.homes.begin_recency(owner, maps);
        self.memcg = home;
        self.homes.ids_mut(home).begin_scan(owner);
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
            // What could not be read stays as it was.
            Piece::Unsure { start, bytes } => {
                let ids = self.homes.ids_mut(self.memcg);
                ids.keep(told.owner, &(start..start + bytes));
            }
        }
    }

    fn end(&mut self, owner: Owner, identity: Identity, whole: bool) {
        self.members.note(owner, identity);
        // Else what was not told may be there all the same.
        if whole {
            let (ids, mut followers, _) = self.ids_and_pages();
            ids.sweep(owner, &mut followers);
            self.shrink();
        }
    }

    fn gone(&mut self, owner: Owner) {
        if let Some(home) = self.homes.of(owner) {
            self.memcg = home;
            self.forget_all(owner);
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
