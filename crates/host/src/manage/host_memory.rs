//! The host as the engine's [`Memory`]: the kernel pages out what the engine has chosen.
//!
//! Invariant: a page counts as paged out only if its entry was read afterwards and is not present,
//! and its frame is not in the page cache. MADV_PAGEOUT ignores accessed bits, so they are read
//! once more immediately before it, and accessed pages are not paged out.
//!
//! At most [`STEP`] pages of one process are read and then paged out at a time, so that the bits
//! are only some milliseconds old when the kernel acts.

use std::collections::BTreeMap;
use std::ops::Range;

use engine::memcg::MemcgId;
use engine::units::{PAGE_LEN, PAGE_SIZE};
use engine::{FolioId, Lruvec, Memory, PageOut};
use pagetables::access::Access;
use pagetables::{Advice, Entry, Grain, Kind as EntryKind, Piece, Whole};

use super::advise::Advised;
use super::affinity::{self, CpuAffinity};
use super::flags::Flags;
use super::ids::joined;
use super::members::Members;
use super::moment::Moment;
use super::reclaim_totals::ReclaimTotals;
use super::second_chance::InUse;
use super::stopwatch::Stopwatch;
use super::swapped_out_ages::SwappedOutAges;
use super::tenant_map::TenantMap;
use super::unevictable::Unevictable;
use super::wakeup::Pause;
use super::why::Why;
use super::workers;
use crate::age_table::Owner;
use crate::ages::Ages;
use crate::system::Proc;

/// Maximum number of address ranges for one read of page tables.
const RANGES: usize = 4096;
/// Maximum number of pages that are read and then paged out at a time.
const STEP: usize = 512;
/// Number of busy pages above which not all of them can wait in a processor's lru_add batch, which
/// has 31 pages.
const BATCHES: usize = 64;

/// The host's memory, for one call of the engine.
pub(super) struct HostMemory<'a> {
    pub(super) tenant_map: &'a TenantMap,
    pub(super) members: &'a mut Members,
    pub(super) ages: &'a mut Ages,
    pub(super) proc: &'a Proc,
    pub(super) flags: &'a Flags,
    /// Number of processors that we may use.
    pub(super) processors: usize,
    /// Pages accessed after this time (milliseconds of the age table) are not paged out. `None`:
    /// age does not matter.
    pub(super) idle_since: Option<u64>,
    /// Dry run: no page is paged out.
    pub(super) dry_run: bool,
    /// Also pages out pages with a set accessed bit in processes whose bits scans do not clear,
    /// where a set bit does not show recent use. Without it such pages are not paged out.
    pub(super) all: bool,
    /// Walks clear the accessed bits of processes where scans do not (a [second
    /// chance](super::second_chance)). Used only without a hard limit: at a hard limit, the kernel
    /// clears the bits.
    pub(super) clears: bool,
    /// The index of the only NUMA node whose pages are paged out; `None` for all nodes.
    pub(super) node: Option<usize>,
    /// When the slice began.
    pub(super) now: Moment,
    /// Receives unevictable pages, which then leave the engine's lists. `None`: they are put back
    /// on the lists.
    pub(super) unevictable: Option<&'a mut Unevictable>,
    /// For each tenant: receives the number of pages paged out since the last scan.
    pub(super) gone: &'a mut BTreeMap<MemcgId, u64>,
    /// Receives the ages of swapped-out pages, if a policy or writeback needs them.
    pub(super) out: Option<&'a mut SwappedOutAges>,
    /// Ends the time slice: the engine then stops early.
    pub(super) pause: &'a Pause,
    /// Receives the results.
    pub(super) totals: ReclaimTotals,
}

/// What the accessed bits of an address space mean.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bits {
    /// Accesses may leave the bit clear (secondary MMU), or a foreign clearer clears bits. Every
    /// page counts as in use.
    Hidden,
    /// A page is in use if its bit is set.
    Tell,
    /// No page counts as in use: a set bit may be as old as the process, or the access does not
    /// make further accesses likely.
    Unknown,
}

/// A page of a batch: first its address, then its index in the batch.
type BatchPage = (u64, usize);

/// A page of a batch that may be paged out: no check before the kernel call has excluded it.
struct PageOutCandidate {
    page: BatchPage,
    /// Whether the page-table entry was dirty. For each dirty page the kernel interrupts all
    /// processors on which the process runs.
    is_dirty: bool,
    /// Time when the page was last used, in milliseconds of the age table; `None` if unknown.
    last: Option<u64>,
    /// Frame number of the page. The frame's flags are read if free swap is short, and again after
    /// the page has been unmapped.
    frame: u64,
}

impl HostMemory<'_> {
    /// Reads the entries of these pages of one process, in ascending order of address, and pages
    /// out those not in use. Writes the result for each page to `outcome`.
    fn step(
        &mut self,
        (memcg, owner): (MemcgId, Owner),
        pages: &[BatchPage],
        outcome: &mut [PageOut],
    ) {
        // The source of ages does not report single pages, so we could not verify that they were
        // paged out. Only kernel reclaim at the limit takes pages then.
        if !self.knows_pages() {
            pages
                .iter()
                .for_each(|(_, place)| outcome[*place] = PageOut::Referenced);
            return;
        }
        let addresses: Vec<u64> = pages.iter().map(|(address, _)| *address).collect();
        // If the process's memory lock is known to be taken, the reads below do not wait for it.
        // This is checked first, so that no time passes between reading the entries and paging out.
        let pid = self.members.pid(owner).unwrap_or(0);
        self.ages.is_locked(pid, Access::Read);
        let Some(before) = self.entries(owner, &addresses) else {
            pages
                .iter()
                .for_each(|(_, place)| outcome[*place] = PageOut::Gone);
            return;
        };
        let bits = self.bits_of(owner);
        let mut leaving = Vec::with_capacity(pages.len());
        for (page, entry) in pages.iter().zip(before) {
            let bits = self.bits_at(bits, owner, page.0);
            let last = self.last_used(entry);
            match self.judge(bits, entry, last) {
                Some(what) => outcome[page.1] = what,
                None => leaving.push(PageOutCandidate {
                    page: *page,
                    is_dirty: entry.is_dirty(),
                    last,
                    frame: entry.physical(self.ages.source().frame_mask()) >> 12,
                }),
            }
        }
        self.bound_by_swap(&mut leaving, outcome);
        if leaving.is_empty() {
            return;
        }
        if self.dry_run {
            // Reclaim by age ends at a batch of which no page is paged out, unless all were too
            // young. A dry run must not end there.
            let stays = match self.idle_since {
                Some(_) => PageOut::TooYoung,
                None => PageOut::Busy,
            };
            for PageOutCandidate { page, .. } in leaving {
                outcome[page.1] = stays;
                if let Some(id) = self.tenant_map.ids(memcg).id_of(owner, page.0) {
                    self.totals.note_would(memcg, id);
                }
            }
            return;
        }
        self.leave((memcg, owner), leaving, outcome);
    }

    /// Pages out the pages `leaving` of one process, on the processor where that costs least.
    fn leave(
        &mut self,
        (memcg, owner): (MemcgId, Owner),
        mut leaving: Vec<PageOutCandidate>,
        outcome: &mut [PageOut],
    ) {
        let pid = self.members.pid(owner).unwrap_or(0);
        let dirty = leaving.iter().filter(|one| one.is_dirty).count();
        let addresses = addresses_of(&leaving);
        let ranges = page_ranges(&addresses);
        let pays = affinity::pays(leaving.len(), ranges.len(), dirty);
        let affinity = pays.then(|| CpuAffinity::to(self.proc, pid)).flatten();
        let is_near = affinity.is_some();
        // Further threads would share the one processor to which this thread is now bound.
        let workers = if is_near {
            1
        } else {
            workers::free(self.proc, self.processors, leaving.len())
        };
        self.advise(owner, &ranges, workers);
        drop(affinity);
        self.verify((memcg, owner), &leaving, &addresses, outcome);
        self.note_out((memcg, owner), &leaving, outcome);
        // A page that waits in a processor's lru_add batch is not isolated by MADV_PAGEOUT, but a
        // call on that processor drains the batch. So such pages are tried twice more: on the
        // processor where the process last ran, then on ours, as the try before may have put pages
        // in our batch. Otherwise the pages of an idle process would stay in the batch for as long
        // as the process is idle.
        for is_last in [true, false] {
            leaving.retain(|one| outcome[one.page.1] == PageOut::Busy);
            let waits_in_vain = leaving.len() > BATCHES && self.has_pinned(pid, leaving.len());
            if leaving.is_empty() || is_near || waits_in_vain {
                break;
            }
            let affinity = is_last
                .then(|| CpuAffinity::to_last(self.proc, pid))
                .flatten();
            let addresses = addresses_of(&leaving);
            self.advise(owner, &page_ranges(&addresses), 1);
            drop(affinity);
            self.verify((memcg, owner), &leaving, &addresses, outcome);
            self.note_out((memcg, owner), &leaving, outcome);
        }
        leaving.retain(|one| outcome[one.page.1] == PageOut::Busy);
        if !leaving.is_empty() && self.has_pinned(pid, leaving.len()) {
            let ids = self.tenant_map.ids(memcg);
            let ids = leaving
                .iter()
                .filter_map(|one| ids.id_of(owner, one.page.0));
            ids.for_each(|id| self.totals.note_pinned(memcg, id));
        }
    }

    /// Whether a driver has pinned at least this many pages of a process. The kernel does not
    /// report which, but pages that stay busy are probably among them.
    fn has_pinned(&self, pid: u32, pages: usize) -> bool {
        let status = self.proc.status(pid).ok().flatten();
        status.is_some_and(|status| status.pinned / PAGE_SIZE >= pages as u64)
    }

    /// Stores when each page that was paged out was last used, if such ages are kept.
    fn note_out(
        &mut self,
        (memcg, owner): (MemcgId, Owner),
        leaving: &[PageOutCandidate],
        outcome: &[PageOut],
    ) {
        let Some(out) = self.out.as_mut() else {
            return;
        };
        let now_ms = self.ages.age_table().last_scan_ms();
        for one in leaving {
            let id = self.tenant_map.ids(memcg).id_of(owner, one.page.0);
            if let (PageOut::Stored, Some(id)) = (outcome[one.page.1], id) {
                out.note(memcg, id, one.last.unwrap_or(now_ms));
            }
        }
    }

    /// Returns when a page was last used, in milliseconds of the age table. `None` if the page is
    /// not in memory, if the time is unknown, or if neither reclaim by age nor the ages of
    /// swapped-out pages need it.
    fn last_used(&self, entry: Entry) -> Option<u64> {
        let is_requested = self.idle_since.is_some() || self.out.is_some();
        if !is_requested || entry.kind() != EntryKind::Present {
            return None;
        }
        let frame = entry.physical(self.ages.source().frame_mask()) >> 12;
        self.ages.age_table().look_up(frame)?.1
    }

    /// Returns the reason not to page out a page, as far as it is known before the kernel call;
    /// `None` if there is none.
    fn judge(&mut self, bits: Bits, entry: Entry, last: Option<u64>) -> Option<PageOut> {
        match entry.kind() {
            EntryKind::Empty => return Some(PageOut::Gone),
            EntryKind::Swapped => {
                self.totals.left += 1;
                return Some(PageOut::Taken);
            }
            EntryKind::Other => return Some(PageOut::Busy),
            EntryKind::Present => {}
        }
        let in_use = match bits {
            Bits::Hidden => true,
            Bits::Tell => entry.is_accessed(),
            Bits::Unknown => false,
        };
        if in_use {
            return Some(PageOut::Referenced);
        }
        let is_idle = |since| last.is_some_and(|last| last <= since);
        if self.idle_since.is_some_and(|since| !is_idle(since)) {
            return Some(PageOut::TooYoung);
        }
        let frame = entry.physical(self.ages.source().frame_mask()) >> 12;
        // The kernel moved the page to another node after the last scan, and the engine does not
        // know that yet.
        let is_elsewhere = |node| self.ages.nodes().index_of(frame) != node;
        if self.node.is_some_and(is_elsewhere) {
            return Some(PageOut::Busy);
        }
        // The page is lazyfree: the kernel would free it with its content, which this process may
        // still use. After a fork it is enough that one of the two processes called MADV_FREE
        // (docs/known-gaps.md).
        let is_lazyfree = !entry.is_dirty() && self.flags.is_lazyfree(frame);
        is_lazyfree.then_some(PageOut::LazyFree)
    }

    /// Whether the source of ages reports single pages at their addresses.
    fn knows_pages(&self) -> bool {
        self.ages.source().grain() == Grain::Page
    }

    /// Returns what the accessed bits of an address space mean now.
    fn bits_of(&self, owner: Owner) -> Bits {
        let identity = self.members.identity(owner);
        match identity.and_then(|identity| self.ages.space(identity)) {
            None => Bits::Hidden,
            Some(space) if space.is_hidden() => Bits::Hidden,
            // A set bit of this address space may never have been cleared. If all pages are
            // requested, such a bit does not keep its page in memory.
            Some(space) if self.all && !space.is_trusted() => Bits::Unknown,
            Some(_) => Bits::Tell,
        }
    }

    /// Returns what the accessed bit of the page at `address` means; `bits` is the meaning for its
    /// address space. An access to a file that is read in sequence, or declared as read at random,
    /// does not show that the page is in use.
    fn bits_at(&self, bits: Bits, owner: Owner, address: u64) -> Bits {
        match bits {
            Bits::Tell if !self.tenant_map.has_recency(owner, address) => Bits::Unknown,
            bits => bits,
        }
    }

    /// Whether walks clear the accessed bits of this address space. They do if `clears` is set,
    /// scans do not clear the bits, and no foreign clearer does.
    fn has_second_chance(&self, owner: Owner) -> bool {
        let identity = self.members.identity(owner);
        let space = identity.and_then(|identity| self.ages.space(identity));
        let is_left = space.is_some_and(|space| !space.is_trusted() && !space.is_hidden());
        self.clears && !self.dry_run && is_left
    }

    /// Clears the accessed bits of the pages that a walk found in use (a [second
    /// chance](super::second_chance)).
    fn give_second_chance(&mut self, owner: Owner, in_use: InUse) {
        let watch = Stopwatch::start();
        let pid = self.members.pid(owner);
        let mappings = pid.map(|pid| self.ages.mappings(pid)).unwrap_or_default();
        let identity = self.members.identity(owner);
        let from = identity.and_then(|one| Some(self.ages.space(one)?.take_from()));
        if let (Some(identity), Some(process)) = (identity, self.members.pidfd(owner, self.proc)) {
            let pause = &self.pause;
            let turn = (from.unwrap_or(0), &mut || pause.is_due());
            let (advised, next) = in_use.clear(process, &mappings, turn);
            self.ages.take_bits(identity, next);
            if let Advised::Refused(error) = advised {
                self.totals.refused.get_or_insert(error.to_string());
            }
        }
        self.totals.took += watch.took();
    }

    /// Removes pages from `leaving` for which swap has no space, and reports them as
    /// [`PageOut::NoSwap`], because the kernel would activate them. File pages stay in `leaving`:
    /// they need no swap.
    fn bound_by_swap(&mut self, leaving: &mut Vec<PageOutCandidate>, outcome: &mut [PageOut]) {
        let free = self.proc.swap_free_pages().unwrap_or(0);
        let mut free = usize::try_from(free).unwrap_or(usize::MAX);
        if leaving.len() <= free {
            return;
        }
        let (flags, totals) = (self.flags, &mut self.totals);
        leaving.retain(|one| {
            if !flags.needs_swap(one.frame) {
                return true;
            }
            if let Some(less) = free.checked_sub(1) {
                free = less;
                return true;
            }
            outcome[one.page.1] = PageOut::NoSwap;
            totals.no_swap = true;
            false
        });
    }

    /// Calls MADV_PAGEOUT on these address ranges of one process, with up to `workers` threads.
    fn advise(&mut self, owner: Owner, ranges: &[Range<u64>], workers: usize) {
        let watch = Stopwatch::start();
        let pid = self.members.pid(owner);
        let ages = &mut *self.ages;
        if let Some(process) = self.members.pidfd(owner, self.proc) {
            let edges = || mapping_starts(ages, pid);
            let work = workers::advise(process, (ranges, Advice::PageOut), workers, edges);
            self.totals.by_others += work.others;
            if let Advised::Refused(error) = work.advised {
                self.totals.refused.get_or_insert(error.to_string());
            }
        }
        self.totals.took += watch.took();
    }

    /// Reads the entries of the pages again, and writes to `outcome` which pages were paged out,
    /// and why others were not. A missing entry means that its page was paged out.
    ///
    /// A dirty page of a file, or of shared memory, may be unmapped and stay in the page cache. The
    /// engine must forget such a page ([`PageOut::Gone`]); [`PageOut::Busy`] would end its reclaim
    /// by age. Reports count the page as busy, as it is still in memory.
    fn verify(
        &mut self,
        (memcg, owner): (MemcgId, Owner),
        leaving: &[PageOutCandidate],
        addresses: &[u64],
        outcome: &mut [PageOut],
    ) {
        let after = self.entries(owner, addresses);
        let mut why = None;
        for (at, one) in leaving.iter().enumerate() {
            let page = one.page;
            let entry = after.as_ref().and_then(|after| after.get(at).copied());
            let is_empty = entry.is_some_and(|entry| entry.kind() == EntryKind::Empty);
            let is_unmapped = is_empty && self.flags.is_cached(one.frame);
            if let (true, Some(id)) = (is_unmapped, self.tenant_map.ids(memcg).id_of(owner, page.0))
            {
                self.totals.note_unmapped(memcg, id);
            }
            let reported = entry.map_or(Some(PageOut::Gone), outcome_of);
            let what = match (reported, entry) {
                _ if is_unmapped => PageOut::Gone,
                (Some(what), _) => what,
                (None, entry) => {
                    let entry = entry.unwrap_or_default();
                    let pid = self.members.pid(owner).unwrap_or(0);
                    let frame = entry.physical(self.ages.source().frame_mask()) >> 12;
                    let why = why.get_or_insert_with(|| Why::open(pid, self.flags));
                    let what = why.ask(page.0, frame);
                    if let Some(unevictable) = &mut self.unevictable
                        && what == PageOut::Shared
                        && self.flags.is_stored(frame)
                    {
                        unevictable.note_shared(memcg);
                    }
                    what
                }
            };
            outcome[page.1] = what;
        }
    }

    /// Returns the entries of the pages at these addresses, which are in ascending order; `None` if
    /// the process is gone. Page tables are reported in any order: holes and huge pages come first.
    fn entries(&mut self, owner: Owner, addresses: &[u64]) -> Option<Vec<Entry>> {
        let pid = self.members.pid(owner)?;
        let mut entries: Vec<Option<Entry>> = vec![None; addresses.len()];
        let mut put = |start: u64, some: &mut dyn Iterator<Item = Entry>| {
            // Every piece lies within one of the requested ranges.
            let first = addresses.partition_point(|address| *address < start);
            for (place, entry) in entries[first..].iter_mut().zip(some) {
                *place = Some(entry);
            }
        };
        let reported = self
            .ages
            .peek(pid, &page_ranges(addresses), &mut |_, piece| match piece {
                Piece::Pages { start, entries } => put(start, &mut entries.iter().copied()),
                Piece::Whole(whole) => {
                    let part = |address: u64| whole.entry.part_at(address & (whole.span - 1));
                    put(whole.start, &mut whole.range().step_by(PAGE_LEN).map(part));
                }
                // The page table of the piece changes all the time, so the pages count as in use.
                Piece::Unsure { start, bytes } => {
                    put(start, &mut (0..bytes / PAGE_SIZE).map(|_| Entry::IN_USE));
                }
            });
        reported.ok()?;
        entries.into_iter().collect()
    }
}

/// Reports to the engine, and to `in_use`, which pages of this piece of a page table were accessed.
fn note_young(
    (tenant_map, memcg, owner): (&TenantMap, MemcgId, Owner),
    piece: Piece<'_>,
    mut in_use: Option<&mut InUse>,
    lruvec: &mut Lruvec,
) {
    let ids = tenant_map.ids(memcg);
    let is_young = |entry: &Entry| entry.is_present() && entry.is_accessed();
    let mut tell = |range: Range<u64>, is_young: &dyn Fn(u64) -> bool| {
        for (address, id) in ids.pages(owner, range) {
            if is_young(address) && tenant_map.has_recency_of(memcg, id) {
                lruvec.young(id);
            }
        }
    };
    match piece {
        Piece::Pages { start, entries } => {
            let entry = |address: u64| &entries[((address - start) / PAGE_SIZE) as usize];
            let end = start + entries.len() as u64 * PAGE_SIZE;
            if let Some(in_use) = &mut in_use {
                let addresses = (start..end).step_by(PAGE_LEN);
                let young = addresses.filter(|address| is_young(entry(*address)));
                young.for_each(|address| in_use.note(address));
            }
            if entries.iter().any(is_young) {
                tell(start..end, &|address| is_young(entry(address)));
            }
        }
        Piece::Whole(whole) if !is_young(&whole.entry) => {}
        Piece::Whole(Whole { start, bytes, .. }) | Piece::Unsure { start, bytes } => {
            tell(start..start + bytes, &|_| true);
        }
    }
}

impl Memory for HostMemory<'_> {
    /// Reports to the engine which pages were accessed since the last scan. Accessed bits are not
    /// cleared, because the next scan computes ages from them. Where scans clear no bits, pages in
    /// use may get a second chance.
    fn walk(&mut self, memcg: MemcgId, lruvec: &mut Lruvec) {
        if !self.knows_pages() {
            return;
        }
        let tenant_map = self.tenant_map;
        let ids = tenant_map.ids(memcg);
        for owner in ids.owners() {
            let Some(pid) = self.members.pid(owner) else {
                continue;
            };
            if self.bits_of(owner) == Bits::Unknown {
                continue;
            }
            let mut in_use = self.has_second_chance(owner).then(InUse::default);
            let mut ranges = ids.ranges(owner);
            loop {
                let some: Vec<Range<u64>> = ranges.by_ref().take(RANGES).collect();
                if some.is_empty() {
                    break;
                }
                // If the process is gone, none of its pages was accessed.
                let _ = self.ages.peek(pid, &some, &mut |_, piece| {
                    note_young((tenant_map, memcg, owner), piece, in_use.as_mut(), lruvec);
                });
            }
            if let Some(in_use) = in_use.filter(|in_use| !in_use.is_empty()) {
                self.give_second_chance(owner, in_use);
            }
        }
    }

    fn has_recency(&self, memcg: MemcgId, id: FolioId) -> bool {
        self.tenant_map.has_recency_of(memcg, id)
    }

    fn wants_pause(&mut self) -> bool {
        self.pause.is_due()
    }

    fn page_out(&mut self, memcg: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>) {
        let first = outcome.len();
        outcome.resize(first + batch.len(), PageOut::Gone);
        let outcome = &mut outcome[first..];
        let places = batch.iter().enumerate();
        let mut fresh = vec![true; batch.len()];
        let ids = self.tenant_map.ids(memcg);
        let mut requested: Vec<(Owner, BatchPage)> = places
            .filter_map(|(at, id)| {
                if let Some(what) = self.totals.known(memcg, *id) {
                    outcome[at] = what;
                    fresh[at] = false;
                    return None;
                }
                let (owner, address) = ids.place(*id)?;
                Some((owner, (address, at)))
            })
            .collect();
        requested.sort_unstable();
        for of_owner in requested.chunk_by(|one, next| one.0 == next.0) {
            let pages: Vec<BatchPage> = of_owner.iter().map(|(_, page)| *page).collect();
            for step in pages.chunks(STEP) {
                self.step((memcg, of_owner[0].0), step, outcome);
            }
        }
        let mut gone = 0;
        for ((id, what), fresh) in batch.iter().zip(outcome.iter_mut()).zip(fresh) {
            if fresh {
                self.totals.note(memcg, *id, *what);
                gone += u64::from(*what == PageOut::Stored);
            }
            let is_stuck =
                *what == PageOut::Busy && !self.dry_run && self.totals.is_stuck(memcg, *id);
            let is_pinned = is_stuck && self.totals.is_pinned(memcg, *id);
            if let Some(unevictable) = &mut self.unevictable
                && (is_pinned || matches!(what, PageOut::Shared | PageOut::Locked))
            {
                unevictable.add(memcg, *id, self.now);
                *what = PageOut::Unevictable;
            }
            // These pages are put back as the youngest: as the oldest pages they would be tried
            // again before all others.
            let is_busy = is_stuck && *what == PageOut::Busy;
            if is_busy || matches!(what, PageOut::Shared | PageOut::Locked | PageOut::LazyFree) {
                *what = PageOut::Referenced;
            }
        }
        *self.gone.entry(memcg).or_insert(0) += gone;
    }
}

/// Returns what an entry that was read after MADV_PAGEOUT says about its page. `None` if the page
/// is still in memory and the entry does not say why.
fn outcome_of(entry: Entry) -> Option<PageOut> {
    match entry.kind() {
        EntryKind::Empty | EntryKind::Swapped => Some(PageOut::Stored),
        // The page is being moved to another frame, or the entry holds a marker instead of a page:
        // no reclaim has paged it out.
        EntryKind::Other => Some(PageOut::Busy),
        EntryKind::Present => entry.is_accessed().then_some(PageOut::Referenced),
    }
}

/// Returns the addresses of these pages, in the same order.
fn addresses_of(leaving: &[PageOutCandidate]) -> Vec<u64> {
    leaving.iter().map(|one| one.page.0).collect()
}

/// Returns the starts of a process's mappings, in ascending order; none if they cannot be read.
fn mapping_starts(ages: &mut Ages, pid: Option<u32>) -> Vec<u64> {
    let mappings = pid.map(|pid| ages.mappings(pid)).unwrap_or_default();
    mappings.iter().map(|mapping| mapping.start).collect()
}

/// Returns the address ranges of the pages at these addresses, which are in ascending order.
/// Adjacent pages become one range.
pub(super) fn page_ranges(addresses: &[u64]) -> Vec<Range<u64>> {
    joined(addresses.iter().copied(), PAGE_SIZE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a page that compaction moved counted as paged out, and as a refault at the next
    /// scan. A page has left memory only if it is in swap or was dropped.
    #[test]
    fn a_page_that_is_being_moved_has_not_left() {
        let migrating = Entry(30 << 59 | 0x3e00);
        assert_eq!(outcome_of(migrating), Some(PageOut::Busy));
        assert_eq!(outcome_of(Entry(1 << 9 | 1 << 10)), Some(PageOut::Stored));
        assert_eq!(outcome_of(Entry(0)), Some(PageOut::Stored));
        assert_eq!(outcome_of(Entry::IN_USE), Some(PageOut::Referenced));
        assert_eq!(outcome_of(Entry(1)), None);
    }
}
