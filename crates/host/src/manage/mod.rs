//! Manages one target: pages out the cold pages of some processes.
//!
//! Invariant: the engine ([`engine::Machine`]) decides which pages are paged out, and how many.
//! This module decides when the engine runs (for scans, for the policy, for limits), and reports to
//! the engine which pages are in the host's memory. Nothing of a process is changed except its
//! accessed bits and where its pages are stored. The kernel manages both, so the process runs on
//! even if this manager dies.
//!
//! The modules in order of dependence, in groups separated by semicolons; a module uses only
//! modules of earlier groups: `actions`, `options`, `ids`, `members`, `advise`, `flags`,
//! `affinity`, `noreuse`, `wakeup`, `spent`, `stall`; `unevictable`, `tenant_map`,
//! `swapped_out_ages`, `outside`, `messages`, `second_chance`, `reclaim_totals`, `files_in_use`,
//! `ahead_of_limit`, `unseen`, `waits`, `why`, `workers`, `writing_back`; `engine_sync` (updates
//! the engine from a scan), `host_memory` (pages out what the engine chose), `activation` (which
//! pages the kernel is to keep), `headroom` (limits and measured usage); `record` (scans into a
//! file); `driver` (all parts of one engine); `policy_runner` (runs a policy), `writeback`
//! (writeback to a disk); `ordered` (a policy's order, in slices); `act`, `report`; this file
//! decides when each of them runs.

mod act;
mod actions;
mod activation;
mod advise;
mod affinity;
mod ahead_of_limit;
mod driver;
mod engine_sync;
mod files_in_use;
mod flags;
mod headroom;
mod host_memory;
mod ids;
mod members;
mod messages;
mod noreuse;
mod options;
mod ordered;
mod outside;
mod policy_runner;
mod reclaim_totals;
mod record;
mod report;
mod second_chance;
mod spent;
mod stall;
mod swapped_out_ages;
mod tenant_map;
pub mod tenants;
mod unevictable;
mod unseen;
mod waits;
mod wakeup;
mod why;
mod workers;
mod writeback;
mod writing_back;

use std::time::{Duration, Instant};

use engine::machine::{HOST_BATCH, HOST_SCANS_APART};
use engine::memcg::{MemcgId, MemcgLimits};
use engine::vmscan::Headroom;
use engine::{Aging, FolioType, Limit, Machine, MachineConfig, Millis, Pages, Policy};

use crate::hard_limit::{HardLimit, PendingLimits};
use crate::watch::{self, Watch, WatchError};
use driver::Driver;
use engine_sync::ScanFindings;
use files_in_use::FilesInUse;
use messages::Messages;
pub use options::{Ask, Kept, Limits, ManagerSettings, Reclaimed, WritebackSettings};
use ordered::RunningOrder;
use outside::MembersOutside;
pub use policy_runner::PolicyRequest;
use policy_runner::PolicyRunner;
use reclaim_totals::ReclaimTotals;
pub use record::Recording;
use unseen::UnseenSwap;
use waits::Waits;
use writeback::Writeback;
use writing_back::WritingBack;

/// Scans ahead of the interval, for reclaim that needs fresh ages, may take 1 / `SCANS_SHARE` of a
/// processor.
const SCANS_SHARE: u32 = 20;
/// All other scans, the policy and writeback may each take 1 / `WORK_SHARE` of a processor, even if
/// shorter intervals are configured.
const WORK_SHARE: u32 = 10;
/// Minimum time between two updates of the process list by measurements of usage, which run up to
/// 500 times a second. If the kernel sends no process events, an update reads all of /proc.
const FOLLOW_APART: Duration = Duration::from_millis(250);
/// Minimum time between two scans of a target that has just executed another program
/// ([`Manager::note_exec`]).
const YOUNG: Duration = Duration::from_secs(1);
/// Minimum time between two scans when reclaim needs fresh ages before the interval is over.
const SCANS_APART: Duration = Duration::from_millis(HOST_SCANS_APART.0);

/// Time until the next work if there is no limit, no policy and no writeback. It stands for
/// "never", which a clock cannot represent.
const IDLE_MAX: Duration = Duration::from_secs(3600);

/// Returns a message for users: the swap limit could not be set on the cgroup. `why` is the
/// kernel's error.
pub fn swap_max_unkept(why: &dyn std::fmt::Display) -> String {
    format!("the kernel's own reclaim may exceed --swap-max: {why}")
}

/// Totals since the manager started.
#[derive(Clone, Debug, Default)]
struct Sums {
    /// Number of pages paged out.
    evicted: u64,
    /// Number of pages that were not paged out, by reason.
    kept: Kept,
    took: Duration,
    /// Page movements that scans found and that pagetide did not cause.
    noticed: ScanFindings,
}

/// Manages the memory of one target; see the description of this module.
pub struct Manager {
    settings: ManagerSettings,
    driver: Driver,
    hard_limit: Option<HardLimit>,
    /// Processes of the tenant that are not in the cgroup.
    outside: MembersOutside,
    /// The cgroup's swappiness before page cache was preferred; `None` while it is unchanged.
    usual_swappiness: Option<u8>,
    memcg: MemcgId,
    room: Headroom,
    /// Pending limits: set on the cgroup as soon as usage is below them.
    due: PendingLimits,
    sums: Sums,
    next_scan: Instant,
    /// When the target last executed another program; `None` if it has not.
    young_since: Option<Instant>,
    /// When usage is measured next.
    next_hold: Instant,
    /// When the process list was last updated.
    followed: Instant,
    /// Number of the last scan after which the kernel reclaimed, at our request, shared pages that
    /// MADV_PAGEOUT skips. The request is made at most once per scan.
    shared_at: u64,
    /// Number of the last scan after which hardly any page was idle long enough to be reclaimed
    /// ahead of the hard limit. The next attempt follows the next scan.
    no_idle_at: u64,
    /// Number of pages activated since the last request to the kernel to reclaim.
    activated: u64,
    /// Whether the next reclaim for a limit continues to activate pages.
    is_activating: bool,
    /// Pages that were paged out and are still charged to the cgroup, because the kernel has not
    /// yet freed them after writing.
    written: WritingBack,
    files_in_use: FilesInUse,
    policy_runner: Option<PolicyRunner>,
    /// The policy's order to reclaim that is in progress; `None` if there is none.
    ordered: Option<RunningOrder>,
    /// Writeback of swapped-out pages to a disk; then the time for which a page must be unused to
    /// be written. `None` if there is no writeback.
    demoter: Option<(Writeback, Millis)>,
    /// Measures how long tasks wait for memory; `None` if the policy does not use that.
    waits: Option<Waits>,
    /// When the engine's youngest generation was opened, in milliseconds of the watch.
    generation_ms: u64,
    /// Whether the youngest generation was opened by the last scan.
    has_opened: bool,
    actions: Vec<String>,
    /// The latest line of each kind in `actions`, for reports.
    said: Messages,
    /// Counts of pages that kernel reclaim swapped out at the hard limit, and that were swapped in
    /// again before a scan could report them to the engine.
    unseen: UnseenSwap,
}

/// Returns an engine that knows one tenant.
fn machine(settings: &ManagerSettings, watch: &Watch) -> Machine {
    let policy = match settings.classic {
        true => Policy::ActiveInactive(
            engine::active_inactive::Stage::default(),
            headroom::machine_pages(watch),
        ),
        false => Policy::default(),
    };
    let config = MachineConfig {
        policy,
        aging: Aging::ByScans,
        batch: HOST_BATCH,
        ..MachineConfig::default()
    };
    let mut machine = Machine::of_one(config, MemcgLimits::default(), Millis(0));
    machine.set_swappiness(MemcgId::FIRST, settings.swappiness);
    machine
}

/// Opens the watch of the target, with `interval` between two scans. Returns the driver that
/// connects the watch with an engine.
fn driver(settings: &ManagerSettings, interval: Duration) -> Result<Driver, WatchError> {
    let watch = Watch::open(watch::WatchSettings {
        target: settings.target.clone(),
        interval,
        max_wait: settings.max_wait,
        source: None,
        memory: None,
        own_process: true,
    })?;
    let machine = machine(settings, &watch);
    Ok(Driver::new(watch, machine))
}

impl Manager {
    /// Starts a manager with a first scan of the processes. `hard_limit` is our cgroup that
    /// contains the processes; `None` if there is none.
    ///
    /// # Errors
    /// The target does not exist, we may not read it, or no source reports ages of its pages.
    pub fn start(
        settings: ManagerSettings,
        hard_limit: Option<HardLimit>,
    ) -> Result<Manager, WatchError> {
        let requested = settings.policy.map(|policy| PolicyRequest {
            settings: policy,
            dry_run: settings.dry_run,
        });
        let policy_runner = requested.map(|requested| PolicyRunner::new(requested, Millis(0)));
        let max_scan_interval = settings.policy.map(|policy| policy.max_scan_interval().0);
        let max_scan_interval = max_scan_interval.map_or(settings.interval, Duration::from_millis);
        let interval = settings.interval.min(max_scan_interval);
        let now = Instant::now();
        let memcg = MemcgId::FIRST;
        let mut driver = driver(&settings, interval)?;
        let requested = settings.write_back.clone();
        let demoter = requested.map(|(requested, age)| (Writeback::new(requested, Millis(0)), age));
        // Otherwise shared pages of forked workers, which the kernel skips, would be tried again at
        // each wakeup. That took half of our processor time, and delayed the program.
        driver.track_unevictable();
        if policy_runner.is_some() {
            driver.track_refaults(memcg);
        }
        if demoter.is_some() {
            driver.track_out();
        }
        let mut manager = Manager {
            settings,
            driver,
            policy_runner,
            demoter,
            ordered: None,
            waits: None,
            hard_limit,
            outside: MembersOutside::default(),
            usual_swappiness: None,
            memcg,
            room: Headroom::default(),
            due: PendingLimits::default(),
            sums: Sums::default(),
            next_scan: now,
            young_since: None,
            next_hold: now,
            followed: now,
            shared_at: 0,
            no_idle_at: 0,
            activated: 0,
            is_activating: false,
            written: WritingBack::default(),
            files_in_use: FilesInUse::default(),
            generation_ms: 0,
            has_opened: false,
            actions: Vec::new(),
            said: Messages::default(),
            unseen: UnseenSwap::default(),
        };
        manager.begin_waits();
        if manager.hard_limit.is_some() {
            // At the hard limit kernel reclaim relies on the accessed bits, so bits of files are
            // kept.
            manager.driver.watch.ages_and_proc().0.keep_file_bits();
        }
        manager.set_kernel_swappiness();
        manager.apply_limits();
        manager.scan()?;
        Ok(manager)
    }

    /// Does the pending work. Returns the time until the next work; zero if a policy's order is in
    /// progress.
    ///
    /// # Errors
    /// The target cannot be read any more.
    pub fn work(&mut self) -> Result<Duration, WatchError> {
        let begin = Instant::now();
        let is_due = begin >= self.next_scan;
        if is_due {
            self.scan()?;
            self.followed = begin;
        } else if begin < self.next_hold || self.followed.elapsed() >= FOLLOW_APART {
            self.driver.watch.follow_if_cheap()?;
            self.followed = begin;
        }
        self.run_policy(is_due)?;
        self.demote(is_due);
        // If a limit could not be met, it is not tried again before `next_hold`, even after a
        // wakeup.
        if Instant::now() >= self.next_hold {
            let pause = self.hold_limits()?;
            self.next_hold = Instant::now() + pause.min(IDLE_MAX);
        }
        if self.ordered.is_some() {
            return Ok(Duration::ZERO);
        }
        let now = Instant::now();
        let pause = self.next_hold.saturating_duration_since(now);
        let policy_runner = self.policy_runner.as_ref();
        let next = policy_runner.and_then(|policy_runner| policy_runner.due_in(self.now()));
        let pause = pause.min(next.unwrap_or(IDLE_MAX));
        let demoter = self.demoter.as_ref();
        let next = demoter.and_then(|(demoter, _)| demoter.due_in());
        let pause = pause.min(next.unwrap_or(IDLE_MAX));
        Ok(pause.min(self.next_scan.saturating_duration_since(now)))
    }

    /// Updates the list of processes at once, after the first process has ended.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn follow(&mut self) -> Result<(), WatchError> {
        self.driver.watch.follow()
    }

    /// Whether all processes of the target have ended.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.driver.watch.finished()
    }

    /// Updates the process list, and returns whether the process is managed.
    ///
    /// # Errors
    /// The target cannot be read any more.
    pub fn manages(&mut self, pid: u32) -> Result<bool, WatchError> {
        self.driver.watch.has(pid)
    }

    /// Returns one line for each action since the last call, with its reason, and forgets the
    /// lines. In a dry run the lines say what would have been done.
    pub fn actions(&mut self) -> Vec<String> {
        std::mem::take(&mut self.actions)
    }

    /// Replaces the limits, and enforces them at the next call of [`Manager::work`].
    pub fn set_limits(&mut self, limits: Limits) {
        self.settings.limits = limits;
        self.next_hold = Instant::now();
        self.apply_limits();
    }

    /// Begins to record all scans.
    pub fn record(&mut self, recording: Recording) {
        self.driver.record(recording);
    }

    /// Ends all work: counts what the policy's order in progress has done, and completes the
    /// recording.
    pub fn end_work(&mut self) {
        self.end_ordered();
        if let Some(recorder) = self.driver.recorder() {
            recorder.finish();
        }
    }

    /// Ends the manager and returns its cgroup. The cgroup's limits stay until the caller lifts
    /// them.
    #[must_use]
    pub fn end(self) -> Option<HardLimit> {
        self.hard_limit
    }

    /// Reports the limits to the engine, and sets them on the cgroup as far as the kernel accepts
    /// them now.
    fn apply_limits(&mut self) {
        let limits = self.settings.limits;
        self.driver.machine.set_limits(self.memcg, limits.into());
        let Some(hard_limit) = self.hard_limit.clone() else {
            return;
        };
        // In a dry run no limit is set on the cgroup.
        let of = |limit: Limit| match self.settings.dry_run {
            true => Some(Limit::Max),
            false => Some(limit),
        };
        self.due = PendingLimits {
            // Version 1 has no memory.high: there only proactive reclaim enforces `high`.
            high: of(limits.high),
            max: of(limits.max),
            swap_max: of(limits.swap_max),
        };
        self.set_pending_limits(&hard_limit);
    }

    /// Sets those pending limits on the cgroup that it accepts now. The others stay pending.
    fn set_pending_limits(&mut self, hard_limit: &HardLimit) {
        let refused = self.due.put(hard_limit);
        if let Some(error) = refused.max {
            self.act(format!(
                "the limit is enforced only at each scan: the kernel refused it for {}: {error}",
                hard_limit.group().path.display()
            ));
        }
        if let Some(error) = refused.swap_max {
            self.act(swap_max_unkept(&error));
        }
    }

    /// Returns the time of the watch, in milliseconds since its start.
    fn now(&self) -> Millis {
        Millis(self.driver.watch.elapsed_ms())
    }

    /// Scans all page tables now, updates the engine, and opens a generation if it is time for one.
    ///
    /// # Errors
    /// The target cannot be read any more.
    pub fn scan(&mut self) -> Result<(), WatchError> {
        let begin = Instant::now();
        self.scan_without_generation()?;
        let policy_runner = self.policy_runner.as_ref();
        let interval = policy_runner.map_or(0, |policy_runner| policy_runner.generations_apart().0);
        let now = self.driver.watch.elapsed_ms();
        if now - self.generation_ms + 50 >= interval {
            self.open_generation();
            self.plan_scan(begin);
        }
        Ok(())
    }

    /// Scans all page tables and updates the engine: accessed pages join the youngest generation.
    fn scan_without_generation(&mut self) -> Result<(), WatchError> {
        let begin = Instant::now();
        self.has_opened = false;
        let memcg = self.memcg;
        let noticed = self.driver.scan(&|_| memcg)?;
        self.driver.watch.note_curve(noticed.anon_back);
        self.sums.noticed.add(noticed);
        if let Some(hard_limit) = &self.hard_limit {
            let reported = self.outside.check(&self.driver.watch, hard_limit);
            reported.into_iter().for_each(|reported| self.act(reported));
            // The two counts are comparable only right after a scan: later the engine also counts
            // what we page out, but the count of pages in swap stays that of the scan.
            let known = self.driver.machine.lruvec(memcg).out(FolioType::Anon);
            let in_swap = self.driver.watch.swapped_pages();
            self.unseen.note(in_swap.0, known.0);
        }
        self.plan_scan(begin);
        Ok(())
    }

    /// Sets when the next scan begins. `begin` is when the last scan began; its processor time
    /// delays the next one.
    fn plan_scan(&mut self, begin: Instant) {
        let pause = self.driver.scan_took() * WORK_SHARE;
        let until_next_scan = match self.young_since {
            // At most the time since the exec, and at least `YOUNG`. A report in the target's first
            // seconds must not show the state at the exec.
            Some(since) => self
                .driver
                .watch
                .until_next_scan()
                .min(since.elapsed().max(YOUNG)),
            None => self.driver.watch.until_next_scan(),
        };
        self.next_scan = begin + until_next_scan.max(pause);
    }

    /// Returns the current memory usage of the target.
    fn usage(&self) -> Pages {
        headroom::usage(&self.driver.watch, self.hard_limit.as_ref(), &self.outside)
    }

    /// Records that the target has just executed another program. Scans the target at once; until
    /// its program is older than the interval, scans are more frequent. Otherwise reports would
    /// show pagetide itself, which the process was until the exec.
    pub fn note_exec(&mut self) {
        let now = Instant::now();
        (self.young_since, self.next_scan) = (Some(now), now);
        self.driver.watch.forget_peaks();
    }

    /// Opens a new youngest generation in the engine, if the last scan did not open one.
    fn open_generation(&mut self) {
        if !self.has_opened {
            self.has_opened = true;
            self.generation_ms = self.driver.watch.elapsed_ms();
            self.driver.age(self.memcg, Millis(self.generation_ms));
        }
    }

    /// Scans before the interval is over, unless scans would then take too much processor time.
    /// Opens no generation: reclaim opens one when the oldest is used up. With five scans a second,
    /// and a generation for each, all four generations together would span only 0.8 s.
    fn scan_if_worth_it(&mut self) -> Result<(), WatchError> {
        let interval = (self.driver.scan_took() * SCANS_SHARE).max(SCANS_APART);
        if self.driver.scan_age() < interval {
            return Ok(());
        }
        self.scan_without_generation()
    }

    /// Scans once more, before the last report, if there was only one scan: a single scan finds no
    /// ages.
    pub fn scan_once_more(&mut self) {
        if self.driver.scans() == 1 && !self.finished() {
            // If the scan fails, the report shows the target as of the scan before.
            let _ = self.scan_if_worth_it();
        }
    }

    /// Starts writeback of swapped-out pages that are old enough, if it is time for the next pass.
    fn demote(&mut self, has_scanned: bool) {
        let Some((demoter, age)) = &mut self.demoter else {
            return;
        };
        if demoter.is_due(has_scanned) {
            demoter.begin();
            let reported = demoter.demote(&mut self.driver, (self.memcg, *age), "");
            reported.into_iter().for_each(|reported| self.act(reported));
        }
    }

    /// Adds the results of one reclaim to the sums.
    fn add(&mut self, totals: &ReclaimTotals) {
        self.sums.evicted += totals.evicted;
        self.sums.noticed.left += totals.left;
        self.sums.kept.add(totals.kept());
        self.sums.took += totals.took;
        if let Some(refused) = &totals.refused {
            self.act(format!("the kernel refused to page out: {refused}"));
        }
    }

    /// Records a line about an action, for the caller and for reports.
    fn act(&mut self, what: String) {
        /// Maximum number of actions kept if no caller takes them; the oldest are dropped.
        const MOST: usize = 1000;
        self.said.note(&what);
        if self.actions.len() == MOST {
            self.actions.remove(0);
        }
        self.actions.push(what);
    }
}
