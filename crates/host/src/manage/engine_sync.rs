//! Updates the engine from a scan: which pages are new, were accessed, were taken by kernel
//! reclaim, or are gone.
//!
//! Invariant: after [`Listener::end`] the engine has exactly those pages of the address space that
//! the walk found present and owned by it. The engine's shadow entries are the pages that were
//! paged out and that the program has not unmapped since. A frame counts as one page of one owner;
//! other processes that map the frame do not count.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use engine::memcg::MemcgId;
use engine::policy::AgeHistogram;
use engine::units::{PAGE_LEN, PAGE_SIZE};
use engine::word::State;
use engine::{FaultKind, FolioId, FolioType, Machine, Millis, NodeId, Pages};
use pagetables::{Entry, Kind as EntryKind, Piece};

use super::ids::{self, Ids, Known, STRETCH, STRETCH_PAGES, stretch_of};
use super::members::Members;
use super::swapped_out_ages::SwappedOutAges;
use super::tenant_map::TenantMap;
use crate::age_table::Owner;
use crate::ages::{Listener, PieceContext};
use crate::system::{Identity, Kind, Mapping, Maps};

/// Page movements that scans found and that pagetide did not cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ScanFindings {
    /// Number of refaults: pages that had been paged out and are in memory again.
    pub(super) came_back: u64,
    /// The part of `came_back` that is anonymous memory.
    pub(super) anon_back: u64,
    /// Number of pages that kernel reclaim paged out.
    pub(super) left: u64,
}

impl ScanFindings {
    pub(super) fn add(&mut self, other: ScanFindings) {
        self.came_back += other.came_back;
        self.anon_back += other.anon_back;
        self.left += other.left;
    }
}

/// State of one page, as a walk finds it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Page {
    /// In memory: its type, and what is known about accesses.
    In(FolioType, Seen),
    /// In swap. A page of a file or of shared memory without page-table entry counts as swapped
    /// out, too, as it may have been paged out.
    SwappedOut,
    /// Not mapped, or owned by another address space.
    Gone,
    /// Anonymous memory in a frame that has another owner in the age table. Either that owner
    /// shares the frame, or the frame belonged to it until a moment ago.
    Anothers,
}

/// What a walk knows about a page in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    /// Whether the page was accessed since the last scan, or may have been.
    pub(super) young: bool,
    /// Whether an access to the page makes further accesses likely (the kernel's
    /// `vma_has_recency`).
    pub(super) recency: bool,
    /// The NUMA node of the page.
    pub(super) node: NodeId,
}

/// The engine sync: updates one engine from the page-table pieces that a scan reports.
pub(super) struct EngineSync<'a> {
    machine: &'a mut Machine,
    tenant_map: &'a mut TenantMap,
    /// Maps a process to its tenant.
    tenant_of: &'a dyn Fn(Identity) -> MemcgId,
    /// The tenant of the current address space.
    memcg: MemcgId,
    members: &'a mut Members,
    /// Ids of the current stretch (64 pages; see [`super::ids`]), as last read from the index.
    known: Known,
    /// Physical addresses of the huge pages of files and shared memory already found in this
    /// address space. A huge page counts only where it is found first: one that is mapped 65,000
    /// times would otherwise count as 33 million pages.
    seen_huge: HashSet<u64>,
    pub(super) noticed: ScanFindings,
    /// Counts refaults by age; `None` if ages of swapped-out pages are not kept.
    returns: Option<RefaultAges<'a>>,
}

/// Counts refaults by the time for which each page had been idle.
pub(super) struct RefaultAges<'a> {
    /// Ages of swapped-out pages.
    pub(super) out: &'a mut SwappedOutAges,
    /// For each tenant with a policy: the pages used again since the policy last took them.
    pub(super) back: &'a mut BTreeMap<MemcgId, UsedAgain>,
    /// Time of the previous scan, then of this scan, in milliseconds of the age table.
    pub(super) before_ms: u64,
    pub(super) now_ms: u64,
}

/// Pages of one tenant that were used again after they had been idle.
#[derive(Debug, Default)]
pub(super) struct UsedAgain {
    /// The pages, by the time for which each had been idle at the scan before.
    pub(super) ages: AgeHistogram,
    /// Number of pages among them that had been paged out (refaults).
    pub(super) refaults: Pages,
}

impl RefaultAges<'_> {
    /// Counts the refault of a page by the time for which the page had been idle.
    fn came_back(&mut self, memcg: MemcgId, id: FolioId) {
        let last = self.out.take(memcg, id);
        let Some(back) = self.back.get_mut(&memcg) else {
            return;
        };
        back.refaults.0 += 1;
        // The age is unknown if the page was paged out before ages were kept.
        if let Some(last) = last {
            let idle = Millis(self.before_ms).since(Millis(last));
            back.ages.add(idle, Pages(1));
        }
    }
}

impl<'a> EngineSync<'a> {
    pub(super) fn new(
        machine: &'a mut Machine,
        (tenant_map, tenant_of): (&'a mut TenantMap, &'a dyn Fn(Identity) -> MemcgId),
        members: &'a mut Members,
        returns: Option<RefaultAges<'a>>,
    ) -> EngineSync<'a> {
        EngineSync {
            machine,
            tenant_map,
            tenant_of,
            memcg: MemcgId::ROOT,
            members,
            known: Known::default(),
            seen_huge: HashSet::new(),
            noticed: ScanFindings::default(),
            returns,
        }
    }

    /// Returns the ids of the current tenant.
    fn ids(&self) -> &Ids {
        self.tenant_map.ids(self.memcg)
    }

    /// Returns three things that change together: the current tenant's ids, the state that must
    /// follow changes of ids, and the ids of the current stretch (64 pages).
    fn ids_and_pages(&mut self) -> (&mut Ids, Followers<'_>, &mut Known) {
        let followers = Followers {
            machine: &mut *self.machine,
            out: self.returns.as_mut().map(|returns| &mut *returns.out),
            memcg: self.memcg,
        };
        (
            self.tenant_map.ids_mut(self.memcg),
            followers,
            &mut self.known,
        )
    }

    /// Forgets all pages that an owner has in the current tenant.
    fn forget_all(&mut self, owner: Owner) {
        let (ids, mut followers, _) = self.ids_and_pages();
        ids.release(owner, &mut followers);
        self.shrink();
    }

    /// Frees memory of ids whose pages are gone. Otherwise each tenant would keep the memory for
    /// ids that it needed at its largest size.
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

    /// Updates the pages with numbers `which` in the stretch (64 pages) at address `start`.
    /// `likely`: about how many of them are in memory. `page` returns the state of the page with a
    /// number.
    fn sync_stretch(
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
        // One bit for each page of the block: set if the walk found it.
        let mut found = 0_u64;
        for at in which {
            let page = page(at);
            let id = match (self.known.id(at), page) {
                (None, Page::In(..)) => self.make((owner, start), (at, likely)),
                (id, _) => id,
            };
            if let Some(id) = id
                && self.sync_page(id, page)
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

    /// Makes an id for a page ([`Ids::make`]), and makes the engine's table of pages large enough
    /// for it.
    fn make(&mut self, stretch: (Owner, u64), page: (u32, u32)) -> Option<FolioId> {
        let (ids, mut followers, known) = self.ids_and_pages();
        let id = ids.make(stretch, page, known, &mut followers);
        let ids = ids.len();
        self.machine.lruvec_mut(self.memcg).ensure(ids);
        id
    }

    /// Updates one page. Returns whether the engine knows the page afterwards, in memory or as a
    /// shadow entry.
    fn sync_page(&mut self, id: FolioId, page: Page) -> bool {
        let word = self.machine.lruvec(self.memcg).folios().get(id);
        let (mut present, out) = (word.is_present(), word.state() == State::Shadow);
        if let Page::In(ty, _) = page
            && present
            && word.folio_type() != ty
        {
            // The address has another page: a private copy of a file's page, written since the last
            // scan, or a page of a new mapping.
            self.forget(id, 1);
            present = false;
        }
        match page {
            Page::In(ty, Seen { recency, node, .. }) if out => {
                self.came_back((id, ty), recency);
                self.set_node(id, (NodeId::default(), node));
                true
            }
            Page::In(ty, seen) => {
                let Seen { young, recency, .. } = seen;
                let node = if present {
                    word.node()
                } else {
                    NodeId::default()
                };
                if !present {
                    let kind = FaultKind::FirstTouch;
                    self.machine.fault_in(self.memcg, id, ty, kind, recency);
                } else if young && recency {
                    self.machine.lruvec_mut(self.memcg).accessed_since_scan(id);
                }
                self.set_node(id, (node, seen.node));
                true
            }
            Page::SwappedOut if present => {
                self.noticed.left += 1;
                if let Some(returns) = &mut self.returns {
                    // The frame has another use by now, so the page's age is unknown: it may have
                    // been used until a moment ago.
                    returns.out.note(self.memcg, id, returns.now_ms);
                }
                self.machine.left(self.memcg, id)
            }
            Page::SwappedOut => out,
            Page::Gone | Page::Anothers => {
                // A refaulted page may be in a frame that the age table still has for another
                // tenant, not yet walked by this scan. Then the refault is counted before the page
                // is forgotten.
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

    /// Moves a page in the engine from one node to another, if these differ.
    fn set_node(&mut self, id: FolioId, (from, to): (NodeId, NodeId)) {
        if from != to {
            self.machine.lruvec_mut(self.memcg).set_node(id, to);
        }
    }

    /// Counts a refault: a page that had been paged out is in memory again.
    fn came_back(&mut self, (id, ty): (FolioId, FolioType), recency: bool) {
        self.noticed.came_back += 1;
        self.noticed.anon_back += u64::from(ty == FolioType::Anon);
        if let Some(returns) = &mut self.returns {
            returns.came_back(self.memcg, id);
        }
        let kind = FaultKind::Refault;
        self.machine.fault_in(self.memcg, id, ty, kind, recency);
    }

    /// Updates the pages of consecutive entries, the first of which maps address `start`.
    fn sync_pages(&mut self, reported: &PieceContext<'_>, start: u64, entries: &[Entry]) {
        let (mut start, mut rest) = (start, entries);
        while !rest.is_empty() {
            let stretch = stretch_of(start);
            let first = page_at(start - stretch);
            let pages = rest.len().min((STRETCH_PAGES - first) as usize);
            let (now, later) = rest.split_at(pages);
            let is_in = |entry: &&Entry| entry.is_present() && !entry.is_special();
            let likely = now.iter().filter(is_in).count();
            let which = first..first + u32::try_from(pages).unwrap_or(0);
            self.sync_stretch((reported.owner, stretch), (which, likely), |at| {
                classify(reported, now[(at - first) as usize], 0)
            });
            start = stretch + STRETCH;
            rest = later;
        }
    }

    /// Updates all pages in the range `whole`, which one entry describes: a part of a huge page of
    /// `span` bytes, or a hole of any size.
    fn sync_whole(
        &mut self,
        reported: &PieceContext<'_>,
        whole: &Range<u64>,
        span: u64,
        entry: Entry,
    ) {
        if entry.is_present() && reported.mapping.kind != Kind::Anon {
            let at = entry.physical(reported.mask) + (whole.start & (span - 1));
            if !self.seen_huge.insert(at) {
                return;
            }
        }
        let is_in = entry.is_present() && !entry.is_special();
        let stretches: Vec<u64> = if is_in {
            let from = stretch_of(whole.start);
            (from..whole.end)
                .step_by(STRETCH_PAGES as usize * PAGE_LEN)
                .collect()
        } else if classify(reported, entry, 0) == Page::Gone {
            // Pages that no scan reports count as gone.
            return;
        } else {
            self.ids().stretches(reported.owner, whole)
        };
        for stretch in stretches {
            let page = |address: u64| page_at(address.clamp(stretch, stretch + STRETCH) - stretch);
            let which = page(whole.start)..page(whole.end);
            let likely = if is_in { which.len() } else { 0 };
            self.sync_stretch((reported.owner, stretch), (which, likely), |at| {
                let address = stretch + u64::from(at) * PAGE_SIZE;
                classify(reported, entry, address & (span - 1))
            });
        }
    }
}

/// State that must follow changes of ids: the engine's pages, and the ages of swapped-out pages.
struct Followers<'a> {
    machine: &'a mut Machine,
    out: Option<&'a mut SwappedOutAges>,
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

/// Converts an offset in bytes to a number of pages.
fn page_at(bytes: u64) -> u32 {
    u32::try_from(bytes / PAGE_SIZE).unwrap_or(u32::MAX)
}

impl Listener for EngineSync<'_> {
    fn begin(&mut self, owner: Owner, identity: Identity, maps: &Maps) {
        let home = (self.tenant_of)(identity);
        if let Some(before) = self.tenant_map.of(owner).filter(|before| *before != home) {
            // The process was moved to another tenant with all its pages. There the pages are new,
            // and the age table has their ages.
            self.memcg = before;
            self.forget_all(owner);
        }
        self.seen_huge.clear();
        self.tenant_map.set_tenant(owner, home);
        self.tenant_map.begin_recency(owner, maps);
        self.memcg = home;
        self.tenant_map.ids_mut(home).begin_scan(owner);
    }

    fn hear(&mut self, reported: PieceContext<'_>, piece: Piece<'_>) {
        if matches!(reported.mapping.kind, Kind::Device | Kind::Hugetlb) {
            return;
        }
        let reported = PieceContext {
            has_recency: reported.has_recency
                && self
                    .tenant_map
                    .has_recency(reported.owner, reported.mapping.start),
            ..reported
        };
        if !reported.has_recency {
            let Mapping { start, end, .. } = *reported.mapping;
            self.tenant_map.note_unrecent(reported.owner, start..end);
        }
        match piece {
            Piece::Pages { start, entries } => self.sync_pages(&reported, start, entries),
            Piece::Whole(whole) => {
                self.sync_whole(&reported, &whole.range(), whole.span, whole.entry);
            }
            // Pages that could not be read stay as they were.
            Piece::Unsure { start, bytes } => {
                let ids = self.tenant_map.ids_mut(self.memcg);
                ids.keep(reported.owner, &(start..start + bytes));
            }
        }
    }

    fn end(&mut self, owner: Owner, identity: Identity, whole: bool) {
        self.members.note(owner, identity);
        // After an incomplete walk, pages that were not reported may still be there.
        if whole {
            let (ids, mut followers, _) = self.ids_and_pages();
            ids.sweep(owner, &mut followers);
            self.shrink();
        }
    }

    fn gone(&mut self, owner: Owner) {
        if let Some(home) = self.tenant_map.of(owner) {
            self.memcg = home;
            self.forget_all(owner);
            self.tenant_map.forget(owner);
        }
        self.members.forget(owner);
    }
}

/// Returns the state of the page that `entry` maps. If `entry` maps a huge page, it is the page at
/// `offset` bytes in it.
pub(super) fn classify(reported: &PieceContext<'_>, entry: Entry, offset: u64) -> Page {
    let mapping = reported.mapping;
    match entry.kind() {
        EntryKind::Swapped => return Page::SwappedOut,
        // In a mapping of a file, an entry is empty before the first access, and again after the
        // page was paged out.
        EntryKind::Empty if mapping.kind != Kind::Anon => return Page::SwappedOut,
        EntryKind::Empty | EntryKind::Other => return Page::Gone,
        EntryKind::Present if entry.is_special() => return Page::Gone,
        EntryKind::Present => {}
    }
    let is_own = entry.is_dirty() || entry.is_writable();
    let frame = (entry.physical(reported.mask) + offset) >> 12;
    let backed = match mapping.kind {
        Kind::Anon => false,
        Kind::File => mapping.is_shared || !is_own,
        _ => true,
    };
    if backed || !entry.is_writable() {
        let owner = reported.age_table.look_up(frame).map(|(owner, _)| owner);
        match owner {
            Some(owner) if owner == reported.owner => {}
            Some(_) if !backed => return Page::Anothers,
            _ => return Page::Gone,
        }
    }
    let ty = match mapping.kind {
        Kind::File if backed => FolioType::File,
        _ => FolioType::Anon,
    };
    let seen = Seen {
        young: reported.is_young(entry),
        recency: reported.has_recency,
        node: NodeId::of_index(reported.nodes.index_of(frame)),
    };
    Page::In(ty, seen)
}

#[cfg(test)]
mod tests;
