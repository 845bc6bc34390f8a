//! Reclaims memory of the target: by age, for a limit, or on request. On request, also reads
//! swapped-out pages back.
//!
//! Invariant: the engine chooses each page that we page out, in one call in which the host is its
//! memory. The result of a call is counted once ([`Manager::add`]) and reported with its reason.
//! When the kernel reclaims at our request (page cache, pages that several processes map), the
//! kernel chooses the pages, and they are not counted as paged out by us.

use std::io;
use std::ops::Range;
use std::time::Duration;

use engine::machine::{Ongoing, ReclaimRequest};
use engine::units::{PAGE_LEN, PAGE_SIZE};
use engine::vmscan::{Headroom, PAGES_PER_MEASUREMENT, Wanted};
use engine::{Bytes, Limit, Millis, Pages, ScanReason};
use pagetables::{Advice, Kind as EntryKind, Piece};

use super::advise::Advised;
use super::ahead_of_limit::{Ahead, LimitOrder, cache_to_drop, idle_age};
use super::driver::{Driver, PageOutOptions};
use super::host_memory::page_ranges;
use super::moment::Moment;
use super::options::{Ask, Limits, Reclaimed};
use super::ordered::RunningOrder;
use super::policy_runner::{PolicyInput, PolicyRunner};
use super::reclaim_totals::ReclaimTotals;
use super::stopwatch::Stopwatch;
use super::waits::Waits;
use super::wakeup::{Pause, Wakeup};
use super::{Manager, headroom, workers};
use crate::hard_limit::HardLimit;
use crate::system::family::Target;
use crate::system::{Groups, Identity, Kind, own_cpu};
use crate::watch::WatchError;

/// Maximum number of page-cache pages that the kernel drops between two measurements of usage. It
/// drops them in one call, which takes some milliseconds and cannot be interrupted.
const CACHE_AT_ONCE: u64 = 4096;
/// Maximum time of one call of [`Manager::hold_limits`]; afterwards scans and requests can run.
const HOLD_MAX: Duration = Duration::from_millis(50);
/// Maximum time for which pages in use are activated before a scan or request can run.
const ACTIVATION_SLICE: Duration = Duration::from_millis(20);

/// Maximum time between two measurements of usage while unmapped page cache is preferred.
const PREFERRED_PAUSE: Duration = Duration::from_millis(20);

/// Measuring the usage may take at most 1 / `DEAR` of the time.
const DEAR: u32 = 50;

/// Which pages one reclaim by the engine may page out.
enum ReclaimAmount {
    /// At most this many pages. The engine chooses its kind of reclaim by the reason.
    Pages(Pages, ScanReason),
    /// Pages not accessed for at least this time. The engine offers all pages except those of its
    /// two youngest generations; the age table then decides by each page's age. Generations alone
    /// are less exact: an age is known only to within the time between two scans that opened
    /// generations. At most this many pages.
    Idle(Duration, Pages),
    /// All pages that are not in use.
    All,
}

impl Manager {
    /// Continues the policy's order in progress; if there is none, runs the policy if its time has
    /// come. `has_scanned`: a scan was made just now.
    pub(super) fn run_policy(&mut self, has_scanned: bool) -> Result<(), WatchError> {
        if self.ordered.is_some() {
            self.go_on();
            return Ok(());
        }
        let now = self.driver.now();
        let is_due = |policy_runner: &PolicyRunner| policy_runner.is_due(now, has_scanned);
        if !self.policy_runner.as_ref().is_some_and(is_due) {
            return Ok(());
        }
        if self.driver.scan_age(now) * 2 > self.driver.watch.interval() {
            self.scan()?;
        }
        let (worked, now) = (own_cpu(), self.driver.now());
        let measured = self.measured(now);
        let memcg = self.memcg;
        let Some(policy_runner) = &mut self.policy_runner else {
            return Ok(());
        };
        let Some(order) = policy_runner.decide(&mut self.driver, memcg, measured, now) else {
            return Ok(());
        };
        let how = policy_runner.how(&order);
        let order = self.driver.unprotected(memcg, order);
        let step = Ongoing::own_by_age(memcg, order.most, now.millis());
        let took = own_cpu().saturating_sub(worked);
        self.ordered = Some(RunningOrder::new(order, how, step, took));
        self.go_on();
        Ok(())
    }

    /// Returns the policy's input besides the age table; default values if the policy uses only
    /// ages.
    fn measured(&mut self, now: Moment) -> PolicyInput {
        if !self
            .policy_runner
            .as_ref()
            .is_some_and(PolicyRunner::goes_by_size)
        {
            return PolicyInput::default();
        }
        let usage = self.usage();
        let usage = usage.less(self.freeable(usage));
        let (_, faults) = self.driver.watch.ages().swapped_pages();
        let came_back = self.sums.noticed.came_back;
        let (waits, proc) = (self.waits.as_mut(), self.driver.watch.proc());
        PolicyInput {
            usage,
            stalled_us: waits.and_then(|waits| waits.total_us(proc, (came_back, faults), now)),
            ..PolicyInput::default()
        }
    }

    /// Begins to measure how long tasks wait for memory, if the policy uses that.
    pub(super) fn begin_waits(&mut self) {
        if self
            .policy_runner
            .as_ref()
            .is_some_and(PolicyRunner::asks_for_stalls)
        {
            let groups = Groups::find(self.driver.watch.proc()).ok();
            let group = match (&groups, &self.settings.target) {
                (Some(groups), Target::Group(group)) => Some((groups, group)),
                _ => None,
            };
            let now = self.driver.now();
            self.waits = Some(Waits::new(self.hard_limit.as_ref(), group, now));
        }
    }

    /// Restores the cgroup's swappiness, as no limit is set. Returns the time until usage must be
    /// measured again, the maximum.
    fn unlimited(&mut self) -> Duration {
        self.prefer_cache(false);
        Duration::MAX
    }

    /// Reclaims until the tenant is below its limits. Returns the time until usage must be measured
    /// again.
    pub(super) fn hold_limits(&mut self) -> Result<Duration, WatchError> {
        if self.settings.limits == Limits::default() {
            return Ok(self.unlimited());
        }
        let slice = Pause::after(&Wakeup::default(), HOLD_MAX);
        loop {
            let watch = Stopwatch::start();
            self.drop_written();
            let usage = self.usage();
            let usage = usage.less(self.written.pages());
            // Without our cgroup, this reads the memory size of each process, and there may be
            // thousands.
            let dear = watch.took() * DEAR;
            self.driver.machine.set_measured(self.memcg, usage);
            if let Some(hard_limit) = self.hard_limit.clone() {
                self.set_pending_limits(&hard_limit);
            }
            let Some(wanted) = Headroom::wanted(self.settings.limits.by_usage(), usage) else {
                return Ok(self.unlimited());
            };
            // In a dry run the cgroup has no limit, and the engine says what it would reclaim.
            if self.is_hard_limited() && !self.settings.dry_run {
                return Ok(self.keep_below_memory_max(usage, wanted).max(dear));
            }
            self.prefer_cache(false);
            let cache = self.cache_to_drop(wanted.pages, usage);
            let pages = match LimitOrder::of(wanted.pages, cache, false) {
                LimitOrder::Reclaim(pages) => pages,
                LimitOrder::DropFirst if !self.drop_cache(wanted.pages) => wanted.pages,
                LimitOrder::DropFirst | LimitOrder::Wait => Pages(0),
            };
            if pages == Pages(0) || slice.is_due() {
                return Ok(self.room.pause(usage, wanted.left).max(dear));
            }
            self.scan_if_worth_it()?;
            if self.reclaim_for_limit(pages) == Pages(0) {
                let pause = match self.is_activating {
                    true => Duration::ZERO,
                    false => self.room.pause(usage, wanted.left),
                };
                return Ok(pause.max(dear));
            }
        }
    }

    /// Does what is done ahead of a limit that the kernel enforces ([`Ahead`]). Returns the time
    /// until usage must be measured again.
    fn keep_below_memory_max(&mut self, usage: Pages, wanted: Wanted) -> Duration {
        let is_preferred = self.usual_swappiness.is_some();
        let cache = self.cache_to_drop(if is_preferred { usage } else { wanted.pages }, usage);
        let ahead = Ahead::of(wanted.pages, cache);
        if let Some(prefers) = ahead.prefers_cache {
            self.prefer_cache(prefers);
        }
        if ahead.idle > Pages(0) && self.no_idle_at != self.driver.scans() {
            self.reclaim_idle(ahead.idle);
        }
        // Measured again soon, because cache must not stay preferred after it is gone.
        let most = match self.usual_swappiness {
            Some(_) => PREFERRED_PAUSE,
            None => Duration::MAX,
        };
        self.room.pause(usage, wanted.left).min(most)
    }

    /// Reclaims up to `most` pages that are idle long enough to leave ahead of a limit.
    fn reclaim_idle(&mut self, most: Pages) {
        let age = idle_age(self.driver.watch.interval());
        let totals = self.reclaim_with(ReclaimAmount::Idle(age, most));
        self.say(
            &totals,
            "close to --memory-max, and idle for three scans; the oldest first",
        );
        self.note_written(&totals);
        if !Headroom::is_worth_it(Pages(totals.evicted), most) {
            self.no_idle_at = self.driver.scans();
        }
    }

    /// Returns the unmapped page cache that the kernel drops before it takes other memory, in
    /// pages ([`cache_to_drop`]); 0 if `wanted` is 0.
    fn cache_to_drop(&mut self, wanted: Pages, usage: Pages) -> Pages {
        let cache = self.unmapped_cache(wanted);
        cache_to_drop(cache, usage, || self.files_in_use_are_dropped())
    }

    /// Reclaims up to `pages` pages for a limit; at most [`PAGES_PER_MEASUREMENT`], as
    /// usage is then measured again. Returns the number of pages reclaimed.
    fn reclaim_for_limit(&mut self, pages: Pages) -> Pages {
        let most = Pages(pages.0.min(PAGES_PER_MEASUREMENT));
        self.is_activating = false;
        let totals = self.reclaim_with(ReclaimAmount::Pages(most, ScanReason::Direct));
        self.say(
            &totals,
            "over --memory-high, or too close to --memory-max; the oldest first",
        );
        self.note_written(&totals);
        let mut got = Pages(totals.evicted + self.reclaim_shared(most, &totals));
        if !Headroom::is_worth_it(got, most) {
            got.0 += self.reclaim_above_high();
        }
        if !self.is_activating {
            self.room.note(got, most);
        }
        got
    }

    /// Notes that the pages paged out are charged to the cgroup until the kernel has written them.
    fn note_written(&mut self, totals: &ReclaimTotals) {
        if self.hard_limit.is_some() {
            let (reading, proc) = (self.driver.scans(), self.driver.watch.proc());
            let is_slow = || proc.has_slow_swap();
            self.written.note(Pages(totals.evicted), reading, is_slow);
        }
    }

    /// Makes the kernel reclaim for a pending memory.high (version 2). Returns the number of pages.
    fn reclaim_above_high(&mut self) -> u64 {
        let Some(hard_limit) = self.hard_limit.clone() else {
            return 0;
        };
        let slice = Pause::after(&Wakeup::default(), ACTIVATION_SLICE);
        let limits = (&mut self.due, &hard_limit);
        let got = self
            .driver
            .reclaim_above_high(&[self.memcg], limits, &slice);
        self.is_activating |= got.is_none();
        got.map_or(0, |got| got.0)
    }

    /// Whether the kernel drops mapped files in use ([`Driver::drops_files_in_use`]).
    fn files_in_use_are_dropped(&mut self) -> bool {
        let (driver, files) = (&self.driver, &mut self.files_in_use);
        let hard_limit = self.hard_limit.as_ref();
        let now = driver.now();
        hard_limit.is_some_and(|one| driver.drops_files_in_use(self.memcg, (files, one), now))
    }

    /// Requests that the kernel free the pages that it has written to a disk since the last scan.
    fn drop_written(&mut self) {
        let due = self.written.take(self.driver.scans());
        if let (Some(pages), Some(hard_limit)) = (due, self.hard_limit.clone()) {
            // Pages that cannot be freed yet count as usage again, so they are reclaimed again.
            let _ = hard_limit.reclaim(pages.bytes().0, None);
        }
    }

    /// Requests that the kernel drop unmapped page cache while no limit of the cgroup makes it do
    /// so: a lowered limit is not set until usage is below it, and version 1 has no memory.high.
    ///
    /// Returns false if hardly any cache was dropped: the caller then reclaims all of `wanted` with
    /// the engine. Returns true if enough was dropped for now, if there is no cgroup, if the kernel
    /// enforces the limits, or in a dry run.
    fn drop_cache(&mut self, wanted: Pages) -> bool {
        let may = !self.is_hard_limited() && !self.settings.dry_run;
        let Some(hard_limit) = self.hard_limit.clone().filter(|_| may) else {
            return true;
        };
        let most = Pages(wanted.0.min(CACHE_AT_ONCE));
        let got = hard_limit.reclaim_taken(most.bytes().0, Some(headroom::CACHE_FIRST_SWAPPINESS));
        let got = Bytes(got.unwrap_or(0)).pages();
        let is_worth_it = Headroom::is_worth_it(got, most);
        if is_worth_it {
            self.room.note(got, most);
            self.set_pending_limits(&hard_limit);
        }
        is_worth_it
    }

    /// If `prefer` is set, makes kernel reclaim at the hard limit take page cache and hardly any
    /// anonymous memory; otherwise restores the cgroup's swappiness. With the usual swappiness the
    /// kernel swapped out 12 of 200 MiB that were used once a second, in order to keep a file that
    /// was read. Swappiness is never set to 0: the kernel would then kill rather than swap.
    fn prefer_cache(&mut self, prefer: bool) {
        let hard_limit = self.hard_limit.clone().filter(|_| !self.settings.dry_run);
        match (hard_limit, self.usual_swappiness) {
            // On version 2 a cgroup has no swappiness: this fails, and nothing is changed.
            (Some(hard_limit), None) if prefer => {
                self.usual_swappiness = hard_limit
                    .set_swappiness(headroom::CACHE_FIRST_SWAPPINESS)
                    .ok()
            }
            (Some(hard_limit), Some(usual)) if !prefer => {
                let _ = hard_limit.set_swappiness(usual);
                self.usual_swappiness = None;
            }
            _ => {}
        }
    }

    /// Makes kernel reclaim at the hard limit follow the option `--swappiness`, where a cgroup has
    /// such a setting (version 1). With 0 the kernel would kill rather than swap, so it gets at
    /// least 1.
    pub(super) fn set_kernel_swappiness(&self) {
        let hard_limit = self.hard_limit.as_ref();
        if let Some(hard_limit) = hard_limit.filter(|_| !self.settings.dry_run) {
            let swappiness = self
                .settings
                .swappiness
                .get()
                .max(headroom::CACHE_FIRST_SWAPPINESS);
            let _ = hard_limit.set_swappiness(swappiness);
        }
    }

    /// Requests that the kernel reclaim shared pages from the cgroup: several processes map them,
    /// so MADV_PAGEOUT skips them. The kernel chooses the pages, at most as many as were skipped.
    /// Returns the number of pages reclaimed.
    ///
    /// Skipped file pages do not count: they may be charged to another cgroup, as the C library
    /// often is. If swap is limited nothing is done, because on version 1 this reclaim would ignore
    /// the swap limit.
    fn reclaim_shared(&mut self, most: Pages, totals: &ReclaimTotals) -> u64 {
        // At most once a scan: the cgroup's limit is lowered for a moment, and a process that
        // charges memory meanwhile meets it.
        if self.shared_at == self.driver.scans() {
            return 0;
        }
        let skipped = self.driver.shared(&[self.memcg]);
        let short = most.less(Pages(totals.evicted)).0.min(skipped);
        let may = !self.settings.dry_run && self.settings.limits.swap_max == Limit::Max;
        let hard_limit = self.hard_limit.clone().filter(|_| may);
        let (Some(hard_limit), true, false) = (hard_limit, short > 0, totals.no_swap) else {
            return 0;
        };
        let Some(activated) = self.activate(Pages(short)) else {
            return 0;
        };
        self.shared_at = self.driver.scans();
        let watch = Stopwatch::start();
        let got = hard_limit.reclaim(Pages(short).bytes().0, None);
        self.sums.took += watch.took();
        match got {
            Ok(got) => {
                let got = Bytes(got).pages().0;
                self.driver.note_reclaimed(&[self.memcg], got);
                self.act(format!(
                    "the kernel reclaimed {got} pages of the group: {skipped} were skipped as shared; {activated} in use were activated first"
                ));
                got
            }
            Err(error) => {
                self.act(format!(
                    "shared pages stay in memory: the kernel cannot reclaim from the group: {error}"
                ));
                0
            }
        }
    }

    /// Activates the pages in use for one slice, so that the kernel takes `requested` older pages.
    /// Returns their number; `None` if the next call must continue before the kernel is asked.
    fn activate(&mut self, requested: Pages) -> Option<u64> {
        let slice = Pause::after(&Wakeup::default(), ACTIVATION_SLICE);
        let done = self.driver.activate(&[self.memcg], requested, &slice);
        self.activated += done.pages;
        self.is_activating = done.rest.is_some();
        (!self.is_activating).then(|| std::mem::take(&mut self.activated))
    }

    /// Returns the unmapped page cache that is part of the usage, in pages; 0 if `wanted` is 0.
    fn unmapped_cache(&self, wanted: Pages) -> Pages {
        self.of_charge(wanted, HardLimit::cache_unmapped)
    }

    /// Returns the part of `usage` that the kernel frees on its own as soon as memory is needed, in
    /// pages.
    fn freeable(&self, usage: Pages) -> Pages {
        let proc = self.driver.watch.proc();
        self.of_charge(usage, |hard_limit| {
            hard_limit.free_at_will(proc.has_slow_swap())
        })
    }

    /// Returns the part of the cgroup's charge that the function `reported` reads, in pages
    /// (`reported` returns bytes). Returns 0 if usage is not the charge ([`headroom::is_charged`])
    /// or `wanted` is 0.
    fn of_charge(
        &self,
        wanted: Pages,
        reported: impl FnOnce(&HardLimit) -> io::Result<u64>,
    ) -> Pages {
        let hard_limit = self.hard_limit.as_ref().filter(|_| wanted > Pages(0));
        let hard_limit = hard_limit.filter(|hard_limit| {
            headroom::is_charged(&self.driver.watch, hard_limit, &self.outside)
        });
        let bytes = hard_limit.and_then(|hard_limit| reported(hard_limit).ok());
        Bytes(bytes.unwrap_or(0)).pages()
    }

    /// Scans, and reclaims what a client requests.
    ///
    /// # Errors
    /// The target cannot be read any more.
    pub fn reclaim(&mut self, ask: Ask) -> Result<Reclaimed, WatchError> {
        self.scan()?;
        let resident = self.driver.machine.lruvec(self.memcg).resident();
        let (take, requested) = match ask {
            Ask::Bytes(bytes) => {
                let pages = Pages(bytes.div_ceil(PAGE_SIZE));
                (ReclaimAmount::Pages(pages, ScanReason::Proactive), pages)
            }
            Ask::OlderThan(age) => {
                self.open_generation(self.driver.now());
                (ReclaimAmount::Idle(age, Pages(u64::MAX)), resident)
            }
            Ask::All => (ReclaimAmount::All, resident),
        };
        let totals = self.reclaim_with(take);
        self.say(&totals, "requested by `pagetide reclaim`");
        let members = self.driver.watch.members().iter().copied();
        let unknown = self.driver.unknown(members, ask);
        Ok(totals.into_result(requested.0, 0, unknown))
    }

    /// Whether the kernel enforces all limits, of all processes of the tenant.
    fn is_hard_limited(&self) -> bool {
        let (limits, hard_limit) = (&self.settings.limits, self.hard_limit.as_ref());
        let are_enforced = |one: &HardLimit| limits.are_enforced(&self.due, one.version());
        hard_limit.is_some_and(are_enforced) && self.outside.is_empty()
    }

    /// Makes one reclaim call of the engine, and adds the result to the sums. Returns the result.
    fn reclaim_with(&mut self, take: ReclaimAmount) -> ReclaimTotals {
        let now = self.driver.now().millis();
        let idle_since = match take {
            ReclaimAmount::Idle(age, _) => Some(now.since(Millis::from(age)).0),
            _ => None,
        };
        let how = PageOutOptions {
            idle_since,
            dry_run: self.settings.dry_run,
            all: matches!(take, ReclaimAmount::All),
            // At a hard limit kernel reclaim clears the bits of all members. On version 1 the
            // kernel does not do so for memory.high, which it does not have.
            clears: matches!(take, ReclaimAmount::Pages(_, ScanReason::Direct))
                && !self.is_hard_limited(),
            node: None,
        };
        let memcg = self.memcg;
        let request = |nr: Pages, reason: ScanReason| ReclaimRequest {
            reason,
            nr,
            swappiness: None,
            now,
        };
        let proactive = |nr| request(nr, ScanReason::Proactive);
        let (mut totals, ()) = self.driver.page_out(how, |machine, kernel| match take {
            ReclaimAmount::Pages(nr, ScanReason::Proactive) => {
                // If fewer pages are reclaimed than requested, the totals show that; the result is
                // ignored.
                let _ = machine.proactive_reclaim(memcg, proactive(nr), kernel);
            }
            ReclaimAmount::Pages(nr, reason) => {
                machine.reclaim_subtree(memcg, request(nr, reason), kernel);
            }
            ReclaimAmount::Idle(_, most) => {
                let most = most.min(machine.unprotected(memcg));
                machine.reclaim_by_age(memcg, most, now, kernel);
            }
            ReclaimAmount::All => {
                let nr = machine.lruvec(memcg).resident();
                let _ = machine.proactive_reclaim(memcg, proactive(nr), kernel);
            }
        });
        // In a dry run no page is paged out. So the engine does not stop at the requested number,
        // nor at protected memory.
        let most = match take {
            ReclaimAmount::Pages(nr, _) => nr,
            ReclaimAmount::Idle(_, most) => most.min(self.driver.machine.unprotected(memcg)),
            ReclaimAmount::All => Pages(u64::MAX),
        };
        totals.would_at_most(most);
        self.add(&totals);
        totals
    }

    /// Records in words how many pages were paged out, or would be in a dry run, and the reason
    /// `why`.
    pub(super) fn say(&mut self, totals: &ReclaimTotals, why: &str) {
        let lines = totals.in_words("", why);
        lines.into_iter().for_each(|line| self.act(line));
        if totals.no_swap {
            self.act("stopped: no free swap (`pagetide swap status`)".to_owned());
        }
    }

    /// Reads the swapped-out pages of the tenant back into memory. Returns the number of pages.
    ///
    /// # Errors
    /// The target cannot be read any more.
    pub fn bring_back(&mut self) -> Result<u64, WatchError> {
        self.scan()?;
        // The limit is lifted first. Below the limit, pages would be reclaimed again while others
        // are read back.
        if let Some(Err(error)) = self.hard_limit.as_ref().map(HardLimit::lift) {
            self.act(format!(
                "the limit could not be lifted before reading back: {error}"
            ));
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

    /// Returns the address ranges of a process to read back, then the number of their pages that
    /// are known to be in swap. The ranges include all shared memory, whose page-table entries do
    /// not show whether a page is in swap.
    fn swapped(&mut self, identity: Identity) -> (Vec<Range<u64>>, u64) {
        let mappings = self.driver.watch.mappings(identity.pid);
        let (ages, _) = self.driver.watch.ages_and_proc();
        let is_read = |kind: Kind| matches!(kind, Kind::Anon | Kind::File);
        let read = mappings.iter().filter(|mapping| is_read(mapping.kind));
        let ranges: Vec<Range<u64>> = read.map(|mapping| mapping.start..mapping.end).collect();
        let mut swapped = Vec::new();
        // If the process is gone, nothing is read back.
        let _ = ages.peek(identity.pid, &ranges, &mut |_, piece| match piece {
            Piece::Pages { start, entries } => {
                let pages = (0_u64..).zip(entries);
                let out = pages.filter(|(_, entry)| entry.kind() == EntryKind::Swapped);
                swapped.extend(out.map(|(page, _)| start + page * PAGE_SIZE));
            }
            Piece::Whole(whole) if whole.entry.kind() == EntryKind::Swapped => {
                swapped.extend(whole.range().step_by(PAGE_LEN));
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
