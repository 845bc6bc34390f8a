//! Manages one target: pages out the cold pages of some processes.
//!
//! Invariant: the engine ([`engine::Machine`]) decides which pages are paged out, and how many.
//! This module decides when the engine runs (for scans, for the policy, for limits), and reports to
//! the engine which pages are in the host's memory. Nothing of a process is changed except its
//! accessed bits and where its pages are stored. The kernel manages both, so the process runs on
//! even if this manager dies.
//!
//! The modules in order of dependence, in groups separated by semicolons; a module uses only
//! modules of earlier groups: `moment`, `stopwatch`; `actions`, `options`, `ids`, `members`,
//! `advise`, `flags`, `affinity`, `noreuse`, `wakeup`, `spent`, `stall`, `scan_budget`,
//! `work_share` (how much time scans and other work may take), `activation_rules`; `unevictable`,
//! `tenant_map`, `swapped_out_ages`, `outside`, `messages`, `second_chance`, `reclaim_totals`,
//! `files_in_use`, `ahead_of_limit`, `unseen`, `waits`, `why`, `workers`, `writing_back`;
//! `engine_sync` (updates the engine from a scan), `host_memory` (pages out what the engine chose),
//! `activation` (which pages the kernel is to keep), `headroom` (limits and measured usage);
//! `record` (scans into a file); `driver` (all parts of one engine); `policy_runner` (runs a
//! policy), `writeback` (writeback to a disk); `ordered` (a policy's order, in slices); `act`,
//! `report`; this file decides when each of them runs.
//!
//! Time is an argument: the code that decides gets a `Moment`. A manager reads the clock
//! (`Driver::now`) when a step begins, and again after work that may have taken long. A stopwatch
//! measures the elapsed time of calls, as a cost. `xtask/src/tidy/clock.rs` lists the files that
//! may read the clock, and the files with rules, which use nothing of the host.

mod moment;
mod stopwatch;

mod actions;
mod activation_rules;
mod advise;
mod affinity;
mod ahead_of_limit;
mod files_in_use;
mod flags;
mod ids;
mod members;
mod messages;
mod noreuse;
mod options;
mod outside;
mod scan_budget;
mod spent;
mod stall;
mod swapped_out_ages;
mod unevictable;
mod unseen;
mod wakeup;
mod work_share;
mod writing_back;

mod headroom;
mod reclaim_totals;
mod second_chance;
mod tenant_map;
mod waits;
mod why;
mod workers;

mod activation;
mod engine_sync;
mod host_memory;

mod record;

mod driver;

mod policy_runner;
mod writeback;

pub mod tenants;

// These modules use each other.
mod act;
mod ordered;

mod report;

use std::time::Duration;

use engine::machine::HOST_BATCH;
use engine::memcg::{MemcgId, MemcgLimits};
use engine::vmscan::Headroom;
use engine::{Aging, FolioType, Limit, Machine, MachineConfig, Millis, Pages, Policy};

use crate::hard_limit::{HardLimit, PendingLimits};
use crate::watch::{self, Watch, WatchError};
use driver::Driver;
use engine_sync::ScanFindings;
use files_in_use::FilesInUse;
use messages::{ActionLines, Messages};
use moment::Moment;
pub use options::{Ask, Kept, Limits, ManagerSettings, Reclaimed, WritebackSettings};
use ordered::RunningOrder;
use outside::MembersOutside;
pub use policy_runner::PolicyRequest;
use policy_runner::PolicyRunner;
use reclaim_totals::ReclaimTotals;
pub use record::Recording;
use scan_budget::{ScanBudget, while_young};
use unseen::UnseenSwap;
use waits::Waits;
use writeback::{Writeback, WrittenTenant};
use writing_back::WritingBack;

/// Minimum time between two updates of the process list by measurements of usage, which run up to
/// 500 times a second. If the kernel sends no process events, an update reads all of /proc.
const FOLLOW_APART: Duration = Duration::from_millis(250);

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
    next_scan: Moment,
    /// When the target last executed another program; `None` if it has not.
    young_since: Option<Moment>,
    /// When usage is measured next.
    next_hold: Moment,
    /// When the process list was last updated.
    followed: Moment,
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
    writeback: Option<(Writeback, Millis)>,
    /// Measures how long tasks wait for memory; `None` if the policy does not use that.
    waits: Option<Waits>,
    /// When the engine's youngest generation was opened, in milliseconds of the watch.
    generation_ms: u64,
    /// Whether the youngest generation was opened by the last scan.
    has_opened: bool,
    actions: ActionLines,
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
        let policy_runner = requested.map(|requested| PolicyRunner::new(requested, Moment::BEGIN));
        let max_scan_interval = settings.policy.map(|policy| policy.max_scan_interval().0);
        let max_scan_interval = max_scan_interval.map_or(settings.interval, Duration::from_millis);
        let interval = settings.interval.min(max_scan_interval);
        let memcg = MemcgId::FIRST;
        let mut driver = driver(&settings, interval)?;
        let requested = settings.write_back.clone();
        let writeback =
            requested.map(|(requested, age)| (Writeback::new(requested, Moment::BEGIN), age));
        // Otherwise shared pages of forked workers, which the kernel skips, would be tried again at
        // each wakeup. That took half of our processor time, and delayed the program.
        driver.track_unevictable();
        if policy_runner.is_some() {
            driver.track_refaults(memcg);
        }
        if writeback.is_some() {
            driver.track_out();
        }
        let mut manager = Manager {
            settings,
            driver,
            policy_runner,
            writeback,
            ordered: None,
            waits: None,
            hard_limit,
            outside: MembersOutside::default(),
            usual_swappiness: None,
            memcg,
            room: Headroom::default(),
            due: PendingLimits::default(),
            sums: Sums::default(),
            next_scan: Moment::BEGIN,
            young_since: None,
            next_hold: Moment::BEGIN,
            followed: Moment::BEGIN,
            shared_at: 0,
            no_idle_at: 0,
            activated: 0,
            is_activating: false,
            written: WritingBack::default(),
            files_in_use: FilesInUse::default(),
            generation_ms: 0,
            has_opened: false,
            actions: ActionLines::default(),
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
        let now = self.driver.now();
        let is_due = now >= self.next_scan;
        if is_due {
            self.scan()?;
            self.followed = now;
        } else if now < self.next_hold || now.since(self.followed) >= FOLLOW_APART {
            self.driver.watch.follow_if_cheap()?;
            self.followed = now;
        }
        self.run_policy(is_due)?;
        self.write_back(is_due);
        // If a limit could not be met, it is not tried again before `next_hold`, even after a
        // wakeup.
        if self.driver.now() >= self.next_hold {
            let pause = self.hold_limits()?;
            self.next_hold = self.driver.now().after(pause.min(IDLE_MAX));
        }
        match self.ordered {
            Some(_) => Ok(Duration::ZERO),
            None => Ok(self.until_work(self.driver.now())),
        }
    }

    /// Returns the time until the next work, if no order of a policy is in progress.
    fn until_work(&self, now: Moment) -> Duration {
        let policy = self.policy_runner.as_ref().and_then(|one| one.due_in(now));
        let writeback = self.writeback.as_ref();
        let writeback = writeback.and_then(|(one, _)| one.due_in(now));
        let deadlines = [self.next_hold, self.next_scan].map(|at| at.since(now));
        let pauses = deadlines.into_iter().chain(policy).chain(writeback);
        pauses.fold(IDLE_MAX, Duration::min)
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
        self.actions.take()
    }

    /// Replaces the limits, and enforces them at the next call of [`Manager::work`].
    pub fn set_limits(&mut self, limits: Limits) {
        self.settings.limits = limits;
        self.next_hold = Moment::BEGIN;
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

    /// Scans all page tables now, updates the engine, and opens a generation if it is time for one.
    ///
    /// # Errors
    /// The target cannot be read any more.
    pub fn scan(&mut self) -> Result<(), WatchError> {
        let begin = self.driver.now();
        self.scan_without_generation()?;
        let policy_runner = self.policy_runner.as_ref();
        let interval = policy_runner.map_or(0, |policy_runner| policy_runner.generations_apart().0);
        let now = self.driver.now();
        if now.millis().0 - self.generation_ms + 50 >= interval {
            self.open_generation(now);
            self.plan_scan(begin);
        }
        Ok(())
    }

    /// Scans all page tables and updates the engine: accessed pages join the youngest generation.
    fn scan_without_generation(&mut self) -> Result<(), WatchError> {
        let begin = self.driver.now();
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
    fn plan_scan(&mut self, begin: Moment) {
        let mut wanted = self.driver.watch.until_next_scan();
        if let Some(since) = self.young_since {
            wanted = while_young(wanted, self.driver.now().since(since));
        }
        self.next_scan = ScanBudget::default().next_scan(begin, wanted, self.driver.scan_took());
    }

    /// Returns the current memory usage of the target.
    fn usage(&self) -> Pages {
        headroom::usage(&self.driver.watch, self.hard_limit.as_ref(), &self.outside)
    }

    /// Records that the target has just executed another program. Scans the target at once; until
    /// its program is older than the interval, scans are more frequent. Otherwise reports would
    /// show pagetide itself, which the process was until the exec.
    pub fn note_exec(&mut self) {
        let now = self.driver.now();
        (self.young_since, self.next_scan) = (Some(now), now);
        self.driver.watch.forget_peaks();
    }

    /// Opens a new youngest generation in the engine, if the last scan did not open one.
    fn open_generation(&mut self, now: Moment) {
        if !self.has_opened {
            self.has_opened = true;
            self.generation_ms = now.millis().0;
            self.driver.age(self.memcg, now.millis());
        }
    }

    /// Scans before the interval is over, unless scans would then take too much processor time.
    /// Opens no generation: reclaim opens one when the oldest is used up. With five scans a second,
    /// and a generation for each, all four generations together would span only 0.8 s.
    fn scan_if_worth_it(&mut self) -> Result<(), WatchError> {
        let now = self.driver.now();
        let wait = self.driver.until_extra_scan(ScanBudget::default(), now);
        match wait.is_zero() {
            true => self.scan_without_generation(),
            false => Ok(()),
        }
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
    fn write_back(&mut self, has_scanned: bool) {
        let Some((writeback, age)) = &mut self.writeback else {
            return;
        };
        let target = WrittenTenant {
            memcg: self.memcg,
            older_than: *age,
            of: String::new(),
        };
        let reported = writeback.run(&mut self.driver, has_scanned, |_| vec![target]);
        reported.into_iter().for_each(|reported| self.act(reported));
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
        self.said.note(&what);
        self.actions.add(what);
    }
}
