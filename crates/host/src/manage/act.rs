//! Pages leave: by age, for a limit, because somebody asks; and come back, because somebody asks.
//!
//! Invariant: which pages leave by our hand the engine says, in one call with the host as its memory, and what that came to is
//! counted once ([`Manager::add`]) and said with its reason. What the kernel takes because we ask for it (page cache, pages that
//! several processes map) is its own choice, and is not counted as ours.

use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use engine::machine::{Ongoing, ReclaimRequest};
use engine::{Limit, Millis, Pages, ScanReason};
use pagetables::{Advice, Kind as EntryKind, Piece};

use super::advise::Advised;
use super::driver::{Driver, How};
use super::host_memory::page_ranges;
use super::minder::{Measured, Minder};
use super::options::{Ask, Limits, Reclaimed};
use super::ordered::Ordered;
use super::tally::Tally;
use super::waits::Waits;
use super::{Manager, room, workers};
use crate::system::cgroup::Version;
use crate::system::family::Target;
use crate::system::{Groups, Identity, Kind, own_cpu};
use crate::wall::Wall;
use crate::watch::WatchError;

/// Most page cache that one measurement has the kernel drop, pages: some milliseconds, in one call that nothing
/// interrupts.
const CACHE_AT_ONCE: u64 = 4096;
/// Holding limits gives way to looks and questions after so long.
const HOLD_MAX: Duration = Duration::from_millis(50);

/// Page cache that nobody maps is preferred where it is at least one in so many pages of the usage. Of less, most is the text
/// of the program itself, read in a moment ago: it was thrown out and read again, and sqlite in half its memory took a
/// sixth longer.
const PREFERRED: u64 = 16;
/// While it is preferred, it is asked this often whether there is any.
const PREFERRED_PAUSE: Duration = Duration::from_millis(20);

/// Asking for the usage may take this part of the time.
const DEAR: u32 = 50;

/// What one call of the engine may take.
enum Take {
    /// So many pages.
    Pages(Pages, ScanReason),
    /// Pages that were idle for so long. The engine offers every page but those of its youngest two generations, and the
    /// books know its age: generations cannot tell to the look.
    Idle(Duration),
    /// All that is not in use.
    All,
}

impl Manager {
    /// Shows the policy what there is, if it is time and what it ordered before is done; `has_looked`: a look was due just now.
    pub(super) fn mind(&mut self, has_looked: bool) -> Result<(), WatchError> {
        if self.ordered.is_some() {
            self.go_on();
            return Ok(());
        }
        let is_due = |minder: &Minder| minder.is_due(self.now(), has_looked);
        if !self.minder.as_ref().is_some_and(is_due) {
            return Ok(());
        }
        if self.driver.look_age() * 2 > self.driver.watch.interval() {
            self.look()?;
        }
        let worked = own_cpu();
        let measured = self.measured();
        let memcg = self.memcg;
        let Some(minder) = &mut self.minder else {
            return Ok(());
        };
        let Some(order) = minder.decide(&mut self.driver, memcg, measured) else {
            return Ok(());
        };
        let now = Millis(self.driver.watch.elapsed_ms());
        let how = minder.how(&order);
        let order = self.driver.unprotected(memcg, order);
        let step = Ongoing::own_by_age(memcg, order.most, now);
        let took = own_cpu().saturating_sub(worked);
        self.ordered = Some(Ordered::new(order, how, step, took));
        self.go_on();
        Ok(())
    }

    /// What the policy is shown that is not in the books.
    fn measured(&mut self) -> Measured {
        if !self.minder.as_ref().is_some_and(Minder::goes_by_size) {
            return Measured::default();
        }
        let usage = self.usage();
        let usage = usage.less(self.spare(usage));
        let (_, faults) = self.driver.watch.ages().swapped_pages();
        let came_back = self.sums.noticed.came_back;
        let (waits, proc) = (self.waits.as_mut(), self.driver.watch.proc());
        Measured {
            usage,
            stalled_us: waits.and_then(|waits| waits.total_us(proc, came_back, faults)),
            ..Measured::default()
        }
    }

    /// Where the policy goes by how long tasks wait, they are watched from now on.
    pub(super) fn begin_waits(&mut self) {
        if self.minder.as_ref().is_some_and(Minder::asks_for_stalls) {
            let groups = Groups::find(self.driver.watch.proc()).ok();
            let group = match (&groups, &self.settings.target) {
                (Some(groups), Target::Group(group)) => Some((groups, group)),
                _ => None,
            };
            self.waits = Some(Waits::new(self.wall.as_ref(), group));
        }
    }

    /// Nothing is to be held: page cache is as dear to the kernel as it was. (The story, of a reading: of who was given no limits any more it went first
    /// until the manager ended.)
    fn unlimited(&mut self) -> Duration {
        self.prefer_cache(false);
        Duration::MAX
    }

    /// Brings the tenant under its limits; how long usage need not be measured.
    pub(super) fn hold_limits(&mut self) -> Result<Duration, WatchError> {
        if self.settings.limits == Limits::default() {
            return Ok(self.unlimited());
        }
        let begin = Instant::now();
        loop {
            let asked = Instant::now();
            self.drop_written();
            let usage = self.usage();
            let usage = usage.less(self.written.pages());
            // Without a wall every process is asked, and there may be thousands.
            let dear = asked.elapsed() * DEAR;
            self.driver.machine.set_measured(self.memcg, usage);
            if let Some(wall) = self.wall.clone() {
                self.put_due(&wall);
            }
            let Some(wanted) = room::Room::wanted(&self.settings.limits, usage) else {
                return Ok(self.unlimited());
            };
            if let Some(left) = self.thrash.left(asked).filter(|_| self.is_walled()) {
                self.prefer_cache(false);
                return Ok(left);
            }
            let is_preferred = self.usual_swappiness.is_some();
            let cache = self.unmapped_cache(if is_preferred { usage } else { wanted.pages });
            let is_much = cache.0 * PREFERRED >= usage.0;
            // Page cache that nobody maps goes first, and the kernel drops it by itself at the wall. A little it does not: it takes
            // anonymous memory there. (The story: what is wanted is half a percent of the limit at most, every program has read as much
            // of its own text, and so nothing was ever reclaimed ahead: one met its wall 18,393 times, and 18,232 times alone.)
            let spare = if is_much { cache } else { Pages(0) };
            let mut pages = wanted.pages.less(spare);
            if wanted.pages > Pages(0) || !is_much {
                self.prefer_cache(pages == Pages(0) && is_much);
            }
            if pages == Pages(0) && wanted.pages > Pages(0) && !self.drop_cache(wanted.pages) {
                pages = wanted.pages;
            }
            if pages == Pages(0) || begin.elapsed() > HOLD_MAX {
                let pause = self.room.pause(usage, wanted.left).max(dear);
                // Cache that has gone is not preferred any longer.
                let most = match self.usual_swappiness {
                    Some(_) => PREFERRED_PAUSE,
                    None => Duration::MAX,
                };
                return Ok(pause.min(most));
            }
            if let Some(left) = self.left_to_wall() {
                return Ok(left);
            }
            self.look_if_worth_it()?;
            let most = Pages(pages.0.min(room::PAGES_PER_MEASUREMENT));
            let tally = self.reclaim_with(Take::Pages(most, ScanReason::Direct));
            self.say(
                &tally,
                "over --memory-high, or too near to --memory-max; the oldest first",
            );
            if self.wall.is_some() {
                let (reading, proc) = (self.driver.looks(), self.driver.watch.proc());
                self.written.note(Pages(tally.evicted), reading, proc);
            }
            let mut got = Pages(tally.evicted + self.reclaim_shared(most, &tally));
            if let (false, Some(wall)) = (room::Room::is_worth_it(got, most), &self.wall) {
                got.0 += self.due.press(wall) / 4096;
            }
            self.room.note(got, most);
            if got == Pages(0) {
                return Ok(self.room.pause(usage, wanted.left).max(dear));
            }
        }
    }

    /// How long the wall holds alone who takes memory faster than we could make it leave.
    fn left_to_wall(&mut self) -> Option<Duration> {
        let wall = self.wall.clone().filter(|_| self.is_walled())?;
        self.outrun.left(Instant::now(), || wall.times_met().ok())
    }

    /// Has the kernel let go of what it has written to a disk since the last look.
    fn drop_written(&mut self) {
        let due = self.written.take(self.driver.looks());
        if let (Some(pages), Some(wall)) = (due, self.wall.clone()) {
            // What cannot be freed yet is asked for once more, as it counts again.
            let _ = wall.reclaim(pages.0 * 4096, None);
        }
    }

    /// Asks the kernel to drop page cache that nobody maps, if no limit on the wall makes it do so (a lowered limit
    /// waits until usage is below it; version 1 has no memory.high). True if the wall does so, if there is nobody to
    /// ask, or if enough went for now; false if hardly any went: then the engine takes all that is wanted.
    fn drop_cache(&mut self, wanted: Pages) -> bool {
        let may = !self.is_walled() && !self.settings.dry_run;
        let Some(wall) = self.wall.clone().filter(|_| may) else {
            return true;
        };
        let most = Pages(wanted.0.min(CACHE_AT_ONCE));
        let got = wall.reclaim_taken(most.bytes().0, Some(room::CACHE_FIRST_SWAPPINESS));
        let got = Pages(got.unwrap_or(0) / 4096);
        let is_worth_it = room::Room::is_worth_it(got, most);
        if is_worth_it {
            self.room.note(got, most);
            self.put_due(&wall);
        }
        is_worth_it
    }

    /// While there is page cache that nobody maps, what meets the wall takes that, and hardly any anonymous
    /// memory: 12 MiB of 200 that were used once a second had left for a file that was read. With 0 the
    /// kernel would rather kill than swap.
    fn prefer_cache(&mut self, prefer: bool) {
        let wall = self.wall.clone().filter(|_| !self.settings.dry_run);
        match (wall, self.usual_swappiness) {
            // On version 2 there is no such setting, and nothing is changed.
            (Some(wall), None) if prefer => {
                self.usual_swappiness = wall.set_swappiness(room::CACHE_FIRST_SWAPPINESS).ok()
            }
            (Some(wall), Some(usual)) if !prefer => {
                let _ = wall.set_swappiness(usual);
                self.usual_swappiness = None;
            }
            _ => {}
        }
    }

    /// Pages that several processes map are skipped by MADV_PAGEOUT: the kernel reclaims from the group instead,
    /// no more than were skipped, and chooses itself. Not of files, which may be charged elsewhere (the C library
    /// is); nor where swap is limited, as it takes no notice on version 1. How many pages that got.
    fn reclaim_shared(&mut self, most: Pages, tally: &Tally) -> u64 {
        // To lower the limit makes whoever charges meanwhile meet it: once a look.
        if self.shared_at == self.driver.looks() {
            return 0;
        }
        let skipped = self.driver.shared();
        let short = most.less(Pages(tally.evicted)).0.min(skipped);
        let may = !self.settings.dry_run && self.settings.limits.swap_max == Limit::Max;
        let wall = self.wall.clone().filter(|_| may);
        let (Some(wall), true, false) = (wall, short > 0, tally.no_swap) else {
            return 0;
        };
        self.shared_at = self.driver.looks();
        let begin = Instant::now();
        let got = wall.reclaim(short * 4096, None);
        self.sums.took += begin.elapsed();
        match got {
            Ok(got) => {
                self.driver.note_reclaimed(got / 4096);
                self.act(format!(
                    "the kernel reclaimed {} pages of the group: {skipped} were skipped as shared",
                    got / 4096
                ));
                got / 4096
            }
            Err(error) => {
                self.act(format!(
                    "shared pages stay: the group cannot be reclaimed: {error}"
                ));
                0
            }
        }
    }

    /// Page cache that nobody maps, where it is part of what is used.
    fn unmapped_cache(&self, wanted: Pages) -> Pages {
        self.of_charge(wanted, Wall::cache_unmapped)
    }

    /// What of its usage the kernel frees by itself as soon as somebody needs memory.
    fn spare(&self, usage: Pages) -> Pages {
        let proc = self.driver.watch.proc();
        self.of_charge(usage, |wall| wall.free_at_will(proc.has_slow_swap()))
    }

    /// What the wall tells (bytes) of its charge, where that is part of what is used and there is anything to tell it for.
    fn of_charge(&self, wanted: Pages, told: impl FnOnce(&Wall) -> io::Result<u64>) -> Pages {
        let wall = self.wall.as_ref().filter(|_| wanted > Pages(0));
        let wall = wall.filter(|wall| room::is_charged(&self.driver.watch, wall, &self.outside));
        let bytes = wall.and_then(|wall| told(wall).ok());
        Pages(bytes.unwrap_or(0) / 4096)
    }

    /// Takes what somebody asks for.
    ///
    /// # Errors
    /// The target cannot be read any more.
    pub fn reclaim(&mut self, ask: Ask) -> Result<Reclaimed, WatchError> {
        self.look()?;
        let resident = self.driver.machine.lruvec(self.memcg).resident();
        let (take, asked) = match ask {
            Ask::Bytes(bytes) => {
                let pages = Pages(bytes.div_ceil(4096));
                (Take::Pages(pages, ScanReason::Proactive), pages)
            }
            Ask::OlderThan(age) => {
                self.open_generation();
                (Take::Idle(age), resident)
            }
            Ask::All => (Take::All, resident),
        };
        let tally = self.reclaim_with(take);
        self.say(&tally, "asked for by `pagetide reclaim`");
        let members = self.driver.watch.members().iter().copied();
        Ok(Reclaimed {
            asked_pages: asked.0,
            evicted_pages: tally.evicted,
            would_pages: tally.would.len() as u64,
            kept: tally.kept(),
            unknown_pages: self.driver.unknown(members, ask),
            no_swap: tally.no_swap,
            refused: tally.refused,
        })
    }

    /// Whether the kernel holds what limits ask for: they stand on the wall, it has such limits, and all members are in it.
    fn is_walled(&self) -> bool {
        let has_no_high = self.settings.limits.high == Limit::Max;
        let wall = self.wall.as_ref();
        let has_all = wall.is_some_and(|wall| has_no_high || wall.version() == Version::V2);
        has_all && self.due.stands() && self.outside.is_empty()
    }

    /// One call of the engine.
    fn reclaim_with(&mut self, take: Take) -> Tally {
        let now = self.now();
        let idle_since = match take {
            Take::Idle(age) => Some(now.since(Millis::from(age)).0),
            _ => None,
        };
        let how = How {
            idle_since,
            dry_run: self.settings.dry_run,
            all: matches!(take, Take::All),
            // At a wall the kernel takes from all, and clears bits as it does; version 1 has none for memory.high.
            clears: matches!(take, Take::Pages(_, ScanReason::Direct)) && !self.is_walled(),
        };
        let memcg = self.memcg;
        let request = |nr: Pages, reason: ScanReason| ReclaimRequest {
            reason,
            nr,
            swappiness: None,
            now,
        };
        let proactive = |nr| request(nr, ScanReason::Proactive);
        let (mut tally, ()) = self.driver.page_out(how, |machine, kernel| match take {
            Take::Pages(nr, ScanReason::Proactive) => {
                // Less than was asked for is told by the tally.
                let _ = machine.proactive_reclaim(memcg, proactive(nr), kernel);
            }
            Take::Pages(nr, reason) => {
                machine.reclaim_subtree(memcg, request(nr, reason), kernel);
            }
            Take::Idle(_) => {
                let most = machine.unprotected(memcg);
                machine.reclaim_by_age(memcg, most, now, kernel);
            }
            Take::All => {
                let nr = machine.lruvec(memcg).resident();
                let _ = machine.proactive_reclaim(memcg, proactive(nr), kernel);
            }
        });
        // A dry run is bounded by nothing that leaves. (The story, of a reading: `reclaim --older-than` said all that was cold, protected or not.)
        let most = match take {
            Take::Pages(nr, _) => nr,
            Take::Idle(_) => self.driver.machine.unprotected(memcg),
            Take::All => Pages(u64::MAX),
        };
        tally.would_at_most(most);
        self.add(&tally);
        tally
    }

    /// Says what was done, and why.
    pub(super) fn say(&mut self, tally: &Tally, why: &str) {
        let pages = tally.would.len();
        if pages > 0 {
            self.act(format!("would page out {pages} pages: {why}"));
        }
        if tally.evicted > 0 {
            self.act(format!("paged out {} pages: {why}", tally.evicted));
        }
        if tally.no_swap {
            self.act("stopped: no free swap (`pagetide swap status`)".to_owned());
        }
    }

    /// Reads back what is in swap; how many pages that was.
    ///
    /// # Errors
    /// The target cannot be read any more.
    pub fn bring_back(&mut self) -> Result<u64, WatchError> {
        self.look()?;
        // Whoever asks lets go: below the limit it would be taken again as it comes.
        if let Some(Err(error)) = self.wall.as_ref().map(Wall::lift) {
            self.act(format!("it is read back below its limit: {error}"));
        }
        let members: Vec<Identity> = self.driver.watch.members().to_vec();
        let mut pages = 0;
        for identity in members {
            let (ranges, known) = self.swapped(identity);
            let Some(owner) = self
                .driver
                .watch
                .ages()
                .space(identity)
                .map(|space| space.owner)
            else {
                continue;
            };
            let Driver {
                members,
                watch,
                processors,
                ..
            } = &mut self.driver;
            let Some(process) = members.pidfd(owner, watch.proc()) else {
                continue;
            };
            let pages_known = usize::try_from(known).unwrap_or(usize::MAX);
            let workers = workers::free(watch.proc(), *processors, pages_known);
            let work = workers::advise(process, (&ranges, Advice::WillNeed), workers, Vec::new);
            if let Advised::Refused(error) = work.advised {
                self.act(format!("the kernel refused to read back: {error}"));
                continue;
            }
            pages += known;
        }
        Ok(pages)
    }

    /// What of a process is in swap, or may be, as entries of shared memory do not say; and how many pages are known to be.
    fn swapped(&mut self, identity: Identity) -> (Vec<Range<u64>>, u64) {
        let mappings = self.driver.watch.mappings(identity.pid);
        let (ages, _) = self.driver.watch.ages_and_proc();
        let is_read = |kind: Kind| matches!(kind, Kind::Anon | Kind::File);
        let read = mappings.iter().filter(|mapping| is_read(mapping.kind));
        let ranges: Vec<Range<u64>> = read.map(|mapping| mapping.start..mapping.end).collect();
        let mut swapped = Vec::new();
        // Of a process that is gone nothing is read back.
        let _ = ages.peek(identity.pid, &ranges, &mut |_, piece| match piece {
            Piece::Pages { start, entries } => {
                let pages = (0_u64..).zip(entries);
                let out = pages.filter(|(_, entry)| entry.kind() == EntryKind::Swapped);
                swapped.extend(out.map(|(page, _)| start + page * 4096));
            }
            Piece::Whole {
                start,
                bytes,
                entry,
                ..
            } if entry.kind() == EntryKind::Swapped => {
                swapped.extend((0..bytes / 4096).map(|page| start + page * 4096));
            }
            _ => {}
        });
        let mut ranges = page_ranges(&swapped);
        let shared = mappings
            .iter()
            .filter(|mapping| mapping.kind == Kind::Shmem);
        ranges.extend(shared.map(|mapping| mapping.start..mapping.end));
        (ranges, swapped.len() as u64)
    }
}
