//! The engine's [`Memory`] on a host: the kernel pages out what the engine has chosen.
//!
//! Invariant: a page is said to have left only if its entry was read afterwards and is not present any more, nor is what it
//! held in the kernel's cache. Bits are read once more right before, as MADV_PAGEOUT does not look at them; what was accessed stays.
//!
//! Paging out is done in steps of at most [`STEP`] pages of one process, so that bits are no older than some
//! milliseconds when the kernel acts on them.

use std::ops::Range;
use std::time::Instant;

use engine::memcg::MemcgId;
use engine::{FolioId, Lruvec, Memory, PageOut};
use pagetables::access::Access;
use pagetables::{Advice, Entry, Grain, Kind as EntryKind, Piece};

use super::advise::Advised;
use super::culled::Culled;
use super::flags::Flags;
use super::homes::Homes;
use super::ids::joined;
use super::members::Members;
use super::near::{self, Near};
use super::out::Out;
use super::pause::Pause;
use super::second_chance::InUse;
use super::tally::Tally;
use super::why::Why;
use super::workers;
use crate::ages::Ages;
use crate::books::Owner;
use crate::system::Proc;

/// Address ranges that one walk asks for at once.
const RANGES: usize = 4096;
/// Pages of one step.
const STEP: usize = 512;

/// Memory as the kernel has it.
pub(super) struct HostMemory<'a> {
    pub(super) homes: &'a Homes,
    pub(super) members: &'a mut Members,
    pub(super) ages: &'a mut Ages,
    pub(super) proc: &'a Proc,
    pub(super) flags: &'a Flags,
    /// Processors that we may use.
    pub(super) processors: usize,
    /// Pages that were accessed after this time of the books (milliseconds) stay.
    pub(super) idle_since: Option<u64>,
    pub(super) dry_run: bool,
    /// Pages of which nobody knows whether they are in use leave, too; else they stay.
    pub(super) all: bool,
    /// Walks clear the bits of processes whose bits looks leave set (a [second chance](super::second_chance)): no wall is there, at
    /// which the kernel would.
    pub(super) clears: bool,
    /// Where pages go that the kernel skips, off the engine's lists; else they are put back.
    pub(super) culled: Option<&'a mut Culled>,
    /// Where a policy wants to know how old what comes back is.
    pub(super) out: Option<&'a mut Out>,
    /// When the engine is to bail out.
    pub(super) pause: &'a Pause,
    pub(super) tally: Tally,
}

/// What to make of accessed bits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bits {
    /// Accesses may leave none (a secondary MMU), or somebody else clears them: every page counts as in use.
    Hidden,
    /// A page counts as in use if its bit is set.
    Tell,
    /// No page counts as in use: a set bit may be as old as the process, or says nothing of further accesses.
    Unknown,
}

/// A page of a batch: its address, and its place in the batch.
type Asked = (u64, usize);

/// A page of a batch that may leave.
struct Leaving {
    page: Asked,
    /// Its entry was: each such page makes the kernel call all processors where its process runs.
    is_dirty: bool,
    /// When it was last used, by the books (milliseconds); none if nobody knows.
    last: Option<u64>,
    /// Where it is: what it is made of is asked where swap is short, and when its entry is gone.
    frame: u64,
}

impl HostMemory<'_> {
    /// Pages of one process, by ascending address.
    fn step(&mut self, (memcg, owner): (MemcgId, Owner), pages: &[Asked], outcome: &mut [PageOut]) {
        // Nothing tells which pages these are: there the kernel's own reclaim chooses, at the wall. (The story: pages were told as gone that
        // were in, and as evicted that never were, each time anew.)
        if !self.knows_pages() {
            pages
                .iter()
                .for_each(|(_, place)| outcome[*place] = PageOut::Referenced);
            return;
        }
        let addresses: Vec<u64> = pages.iter().map(|(address, _)| *address).collect();
        // Known to be locked, it is not waited for below. This comes first: between the question about a page and its paging out
        // no time is to pass.
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
                None => leaving.push(Leaving {
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
            // By age a batch of which none leaves is the last: a dry run told of 8 MiB of 32 that were old enough.
            let stays = match self.idle_since {
                Some(_) => PageOut::TooYoung,
                None => PageOut::Busy,
            };
            for Leaving { page, .. } in leaving {
                outcome[page.1] = stays;
                if let Some(id) = self.homes.ids(memcg).id_of(owner, page.0) {
                    self.tally.note_would(memcg, id);
                }
            }
            return;
        }
        self.leave((memcg, owner), leaving, outcome);
    }

    /// Lets pages of one process leave, from the processor where that costs least.
    fn leave(
        &mut self,
        (memcg, owner): (MemcgId, Owner),
        mut leaving: Vec<Leaving>,
        outcome: &mut [PageOut],
    ) {
        let pid = self.members.pid(owner).unwrap_or(0);
        let dirty = leaving.iter().filter(|one| one.is_dirty).count();
        let addresses = addresses_of(&leaving);
        let ranges = page_ranges(&addresses);
        let pays = near::pays(leaving.len(), ranges.len(), dirty);
        let near = pays.then(|| Near::to(self.proc, pid)).flatten();
        let is_near = near.is_some();
        // Bound to a processor, a second thread of ours would wait for the first.
        let workers = if is_near {
            1
        } else {
            workers::free(self.proc, self.processors, leaving.len())
        };
        self.advise(owner, &ranges, workers);
        drop(near);
        self.verify((memcg, owner), &leaving, &addresses, outcome);
        self.note_out((memcg, owner), &leaving, outcome);
        // A page that waits in a processor's lru_add batch is not isolated by MADV_PAGEOUT, but a call on that
        // processor drains the batch. So we try from the processor where the process ran last, then from ours, whose
        // batch has what the first try put back. (The story: twenty pages that had come in for a process that then
        // slept stayed for as long.)
        for is_last in [true, false] {
            leaving.retain(|one| outcome[one.page.1] == PageOut::Busy);
            if leaving.is_empty() || is_near {
                return;
            }
            let near = is_last.then(|| Near::to_last(self.proc, pid)).flatten();
            let addresses = addresses_of(&leaving);
            self.advise(owner, &page_ranges(&addresses), 1);
            drop(near);
            self.verify((memcg, owner), &leaving, &addresses, outcome);
            self.note_out((memcg, owner), &leaving, outcome);
        }
    }

    /// What has left is as old as it was.
    fn note_out(
        &mut self,
        (memcg, owner): (MemcgId, Owner),
        leaving: &[Leaving],
        outcome: &[PageOut],
    ) {
        let Some(out) = self.out.as_mut() else {
            return;
        };
        let now_ms = self.ages.books().last_round_ms();
        for one in leaving {
            let id = self.homes.ids(memcg).id_of(owner, one.page.0);
            if let (PageOut::Stored, Some(id)) = (outcome[one.page.1], id) {
                out.note(memcg, id, one.last.unwrap_or(now_ms));
            }
        }
    }

    /// When the books last saw a page used; none if it is not in memory, or nobody knows.
    fn last_used(&self, entry: Entry) -> Option<u64> {
        let is_asked = self.idle_since.is_some() || self.out.is_some();
        if !is_asked || entry.kind() != EntryKind::Present {
            return None;
        }
        let frame = entry.physical(self.ages.source().frame_mask()) >> 12;
        self.ages.books().look_up(frame)?.1
    }

    /// What an entry says before anything is done: none if the page may leave.
    fn judge(&mut self, bits: Bits, entry: Entry, last: Option<u64>) -> Option<PageOut> {
        match entry.kind() {
            EntryKind::Empty => return Some(PageOut::Gone),
            EntryKind::Swapped => {
                self.tally.left += 1;
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
        // The kernel would free it with its bytes, and they may be in use here: after a fork it is enough that one
        // of the two gave them back (docs/known-gaps.md).
        let is_given_back = !entry.is_dirty() && self.flags.is_given_back(frame);
        is_given_back.then_some(PageOut::LazyFree)
    }

    /// Whether the source tells single pages, where they are.
    fn knows_pages(&self) -> bool {
        self.ages.source().grain() == Grain::Page
    }

    /// What accessed bits of an address space say now.
    fn bits_of(&self, owner: Owner) -> Bits {
        let identity = self.members.identity(owner);
        match identity.and_then(|identity| self.ages.space(identity)) {
            None => Bits::Hidden,
            Some(space) if space.is_hidden() => Bits::Hidden,
            // Where everything is asked for, a bit that was never cleared keeps nothing.
            Some(space) if self.all && !space.is_trusted() => Bits::Unknown,
            Some(_) => Bits::Tell,
        }
    }

    /// The same of one page: what is read in order or at random is not in use because it was accessed.
    fn bits_at(&self, bits: Bits, owner: Owner, address: u64) -> Bits {
        match bits {
            Bits::Tell if !self.homes.has_recency(owner, address) => Bits::Unknown,
            bits => bits,
        }
    }

    /// Whether looks leave the bits of an address space set, and nobody else clears them.
    fn has_second_chance(&self, owner: Owner) -> bool {
        let identity = self.members.identity(owner);
        let space = identity.and_then(|identity| self.ages.space(identity));
        let is_left = space.is_some_and(|space| !space.is_trusted() && !space.is_hidden());
        self.clears && !self.dry_run && is_left
    }

    /// Clears the bits of what a walk found in use.
    fn give_second_chance(&mut self, owner: Owner, in_use: InUse) {
        let begin = Instant::now();
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
                self.tally.refused.get_or_insert(error.to_string());
            }
        }
        self.tally.took += begin.elapsed();
    }

    /// Drops from `leaving` the pages that need swap beyond what is free: the kernel makes a page that finds no swap
    /// active. Pages that need none stay in `leaving`. (The story: without swap no page of a file left either.)
    fn bound_by_swap(&mut self, leaving: &mut Vec<Leaving>, outcome: &mut [PageOut]) {
        let free = self.proc.swap_free_pages().unwrap_or(0);
        let mut free = usize::try_from(free).unwrap_or(usize::MAX);
        if leaving.len() <= free {
            return;
        }
        let (flags, tally) = (self.flags, &mut self.tally);
        leaving.retain(|one| {
            if !flags.needs_swap(one.frame) {
                return true;
            }
            if let Some(less) = free.checked_sub(1) {
                free = less;
                return true;
            }
            outcome[one.page.1] = PageOut::NoSwap;
            tally.no_swap = true;
            false
        });
    }

    /// Advises pages of one process to leave, by up to so many threads.
    fn advise(&mut self, owner: Owner, ranges: &[Range<u64>], workers: usize) {
        let begin = Instant::now();
        let pid = self.members.pid(owner);
        let ages = &mut *self.ages;
        if let Some(process) = self.members.pidfd(owner, self.proc) {
            let edges = || mapping_starts(ages, pid);
            let work = workers::advise(process, (ranges, Advice::PageOut), workers, edges);
            self.tally.by_others += work.others;
            if let Advised::Refused(error) = work.advised {
                self.tally.refused.get_or_insert(error.to_string());
            }
        }
        self.tally.took += begin.elapsed();
    }

    /// Reads the entries again: a page without one has left; of the others the kernel is asked why they stay. A dirty
    /// page of a file, or of shared memory, may be unmapped and stay in the page cache: the engine forgets it
    /// ([`PageOut::Gone`]), and people are told that it is busy. (The stories: 32 MiB of a file that a program had
    /// written by its mapping were told as out, and all of it was in memory; told to the engine as busy, they ended its
    /// reclaim by age.)
    fn verify(
        &mut self,
        (memcg, owner): (MemcgId, Owner),
        leaving: &[Leaving],
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
            if let (true, Some(id)) = (is_unmapped, self.homes.ids(memcg).id_of(owner, page.0)) {
                self.tally.note_unmapped(memcg, id);
            }
            let told = entry.map_or(Some(PageOut::Gone), outcome_of);
            let what = match (told, entry) {
                _ if is_unmapped => PageOut::Gone,
                (Some(what), _) => what,
                (None, entry) => {
                    let entry = entry.unwrap_or_default();
                    let pid = self.members.pid(owner).unwrap_or(0);
                    let frame = entry.physical(self.ages.source().frame_mask()) >> 12;
                    let why = why.get_or_insert_with(|| Why::open(pid, self.flags));
                    let what = why.ask(page.0, frame);
                    self.tally.shared +=
                        u64::from(what == PageOut::Shared && self.flags.is_stored(frame));
                    what
                }
            };
            outcome[page.1] = what;
        }
    }

    /// The entries of these pages, which ascend; none if the process is gone. Pieces are told in any order: holes and
    /// huge pages before the tables beside them.
    fn entries(&mut self, owner: Owner, addresses: &[u64]) -> Option<Vec<Entry>> {
        let pid = self.members.pid(owner)?;
        let mut entries: Vec<Option<Entry>> = vec![None; addresses.len()];
        let mut put = |start: u64, some: &mut dyn Iterator<Item = Entry>| {
            // Pieces begin and end within the ranges that were asked for.
            let first = addresses.partition_point(|address| *address < start);
            for (place, entry) in entries[first..].iter_mut().zip(some) {
                *place = Some(entry);
            }
        };
        let told = self
            .ages
            .peek(pid, &page_ranges(addresses), &mut |_, piece| match piece {
                Piece::Pages { start, entries } => put(start, &mut entries.iter().copied()),
                Piece::Whole {
                    start,
                    bytes,
                    span,
                    entry,
                } => {
                    let part = |page: u64| entry.part_at((start + page * 4096) & (span - 1));
                    put(start, &mut (0..bytes / 4096).map(part));
                }
                // Changing all the time: in use.
                Piece::Unsure { start, bytes } => {
                    put(start, &mut (0..bytes / 4096).map(|_| Entry::IN_USE));
                }
            });
        told.ok()?;
        entries.into_iter().collect()
    }
}

/// The engine learns which pages of this piece were accessed.
fn note_young(
    (homes, memcg, owner): (&Homes, MemcgId, Owner),
    piece: Piece<'_>,
    mut in_use: Option<&mut InUse>,
    lruvec: &mut Lruvec,
) {
    let ids = homes.ids(memcg);
    let is_young = |entry: &Entry| entry.is_present() && entry.is_accessed();
    let mut tell = |range: Range<u64>, is_young: &dyn Fn(u64) -> bool| {
        for (address, id) in ids.pages(owner, range) {
            if is_young(address) && homes.has_recency_of(memcg, id) {
                lruvec.young(id);
            }
        }
    };
    match piece {
        Piece::Pages { start, entries } => {
            let entry = |address: u64| &entries[((address - start) / 4096) as usize];
            let end = start + entries.len() as u64 * 4096;
            if let Some(in_use) = &mut in_use {
                let addresses = (start..end).step_by(4096);
                let young = addresses.filter(|address| is_young(entry(*address)));
                young.for_each(|address| in_use.note(address));
            }
            if entries.iter().any(is_young) {
                tell(start..end, &|address| is_young(entry(address)));
            }
        }
        Piece::Whole { entry, .. } if !is_young(&entry) => {}
        Piece::Whole { start, bytes, .. } | Piece::Unsure { start, bytes } => {
            tell(start..start + bytes, &|_| true);
        }
    }
}

impl Memory for HostMemory<'_> {
    /// Which pages were accessed since the last look. Bits stay as they are, for the next look tells ages by them; who has no
    /// ages may get a second chance.
    fn walk(&mut self, memcg: MemcgId, lruvec: &mut Lruvec) {
        if !self.knows_pages() {
            return;
        }
        let homes = self.homes;
        let ids = homes.ids(memcg);
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
                // A process that is gone has nothing young.
                let _ = self.ages.peek(pid, &some, &mut |_, piece| {
                    note_young((homes, memcg, owner), piece, in_use.as_mut(), lruvec);
                });
            }
            if let Some(in_use) = in_use.filter(|in_use| !in_use.is_empty()) {
                self.give_second_chance(owner, in_use);
            }
        }
    }

    fn has_recency(&self, memcg: MemcgId, id: FolioId) -> bool {
        self.homes.has_recency_of(memcg, id)
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
        let ids = self.homes.ids(memcg);
        let mut asked: Vec<(Owner, Asked)> = places
            .filter_map(|(at, id)| {
                if let Some(what) = self.tally.known(memcg, *id) {
                    outcome[at] = what;
                    fresh[at] = false;
                    return None;
                }
                let (owner, address) = ids.place(*id)?;
                Some((owner, (address, at)))
            })
            .collect();
        asked.sort_unstable();
        for of_owner in asked.chunk_by(|one, next| one.0 == next.0) {
            let pages: Vec<Asked> = of_owner.iter().map(|(_, page)| *page).collect();
            for step in pages.chunks(STEP) {
                self.step((memcg, of_owner[0].0), step, outcome);
            }
        }
        for ((id, what), fresh) in batch.iter().zip(outcome.iter_mut()).zip(fresh) {
            if fresh {
                self.tally.note(memcg, *id, *what);
            }
            if let Some(culled) = &mut self.culled
                && matches!(what, PageOut::Shared | PageOut::Locked)
            {
                culled.add(memcg, *id);
                *what = PageOut::Unevictable;
            }
            // Put back as the youngest: as the oldest they would be tried again before all others.
            if matches!(what, PageOut::Shared | PageOut::Locked | PageOut::LazyFree) {
                *what = PageOut::Referenced;
            }
        }
    }
}

/// What an entry says of a page that was advised to leave: none if the kernel is to be asked why it has not.
fn outcome_of(entry: Entry) -> Option<PageOut> {
    match entry.kind() {
        EntryKind::Empty | EntryKind::Swapped => Some(PageOut::Stored),
        // It is on its way to another frame, or a marker took its place: that is not our work. (The story: what compaction moved
        // meanwhile counted as evicted, and as a refault at the next look.)
        EntryKind::Other => Some(PageOut::Busy),
        EntryKind::Present => entry.is_accessed().then_some(PageOut::Referenced),
    }
}

fn addresses_of(leaving: &[Leaving]) -> Vec<u64> {
    leaving.iter().map(|one| one.page.0).collect()
}

/// Where the mappings of a process begin, ascending; nowhere if it cannot be read.
fn mapping_starts(ages: &mut Ages, pid: Option<u32>) -> Vec<u64> {
    let mappings = pid.map(|pid| ages.mappings(pid)).unwrap_or_default();
    mappings.iter().map(|mapping| mapping.start).collect()
}

/// Pages at these ascending addresses, neighbours joined.
pub(super) fn page_ranges(addresses: &[u64]) -> Vec<Range<u64>> {
    joined(addresses.iter().copied(), 4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only what is in swap, or was dropped, has left: an entry that stands for a move has not.
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
