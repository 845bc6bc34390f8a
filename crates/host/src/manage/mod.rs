//! One tenant under management: some processes whose cold pages leave.
//!
//! Invariant: everything that decides which page leaves, and how many, is the engine's ([`engine::Machine`]);
//! here is when it is asked (the clock of looks, of the policy and of the limits) and what a host tells it. The
//! processes are changed in nothing but accessed bits and in where their pages are, which is the kernel's doing:
//! whatever becomes of this manager, they run on.
//!
//! Floors: `actions`, `options`, `ids`, `members`, `advise`, `flags`, `near`, `noreuse`, `pause`, `spent`, `stall`; `culled`, `homes`,
//! `out`, `outrun`, `outside`, `said`, `second_chance`, `tally`, `thrash`, `unseen`, `waits`, `why`, `workers`, `written`; `feed` (a look
//! tells the engine), `host_memory` (the engine's pages leave), `room` (limits as measured); `record` (looks into a
//! file); `driver` (all of one engine); `minder` (a policy at work), `demote` (what is out goes on to a disk);
//! `ordered` (what a policy wants, in slices); `act`, `report`; here the clock.

mod act;
mod actions;
mod advise;
mod culled;
mod demote;
mod driver;
mod feed;
mod flags;
mod homes;
mod host_memory;
mod ids;
mod members;
mod minder;
mod near;
mod noreuse;
mod options;
mod ordered;
mod out;
mod outrun;
mod outside;
mod pause;
mod record;
mod report;
mod room;
mod said;
mod second_chance;
mod spent;
mod stall;
mod tally;
pub mod tenants;
mod thrash;
mod unseen;
mod waits;
mod why;
mod workers;
mod written;

use std::time::{Duration, Instant};

use engine::memcg::{MemcgId, MemcgLimits};
use engine::{FolioType, Limit, Machine, MachineConfig, Millis, Pages, Policy};

use crate::wall::{Due, Wall};
use crate::watch::{self, Watch, WatchError};
use demote::Demoter;
use driver::{BATCH, Driver};
use feed::Noticed;
pub use minder::Asked as PolicyAsked;
use minder::Minder;
pub use options::{Ask, Kept, Limits, Reclaimed, Settings, WriteBackAsked};
use ordered::Ordered;
use outrun::Outrun;
use outside::Outside;
pub use record::Recording;
use room::Room;
use said::SaidLines;
use tally::Tally;
use thrash::Thrash;
use unseen::Unseen;
use waits::Waits;
use written::Written;

/// Looks may take this part of a processor, more often than the interval, while reclaim needs fresh ages.
const LOOKS_SHARE: u32 = 20;
/// All other looks, what the policy does, and writing to a disk may take this part of it each, whatever intervals are asked for.
const WORK_SHARE: u32 = 10;
/// Where the usage alone is due, which is up to 500 times a second, it is asked no more often than this who lives: without process
/// events that is a reading of all of /proc.
const FOLLOW_APART: Duration = Duration::from_millis(250);
/// Between two looks at a target that has just become what it is, at least ([`Manager::begin_anew`]).
const YOUNG: Duration = Duration::from_secs(1);
/// Between two looks, at least, where reclaim needs fresh ages before the interval is over.
const LOOKS_APART: Duration = Duration::from_millis(200);

/// How far ahead "nothing is due" is set where there is no limit to measure, no mark, no policy and no disk: a clock cannot tell a
/// moment that never comes.
const IDLE_MAX: Duration = Duration::from_secs(3600);

/// What people are told where the wall could not get the limit of swap, and why.
pub fn swap_max_unkept(why: &dyn std::fmt::Display) -> String {
    format!("the kernel's own reclaim does not keep to --swap-max: {why}")
}

/// What was done until now.
#[derive(Clone, Debug, Default)]
struct Sums {
    evicted: u64,
    kept: Kept,
    took: Duration,
    noticed: Noticed,
}

/// A manager. See the module.
pub struct Manager {
    settings: Settings,
    driver: Driver,
    wall: Option<Wall>,
    /// Who of the members is not in it.
    outside: Outside,
    /// What the wall's swappiness was before page cache was preferred; none while it is as it was.
    usual_swappiness: Option<u8>,
    memcg: MemcgId,
    room: Room,
    /// Limits that the wall is to get when usage is below them.
    due: Due,
    sums: Sums,
    next_look: Instant,
    /// When the target became what it is, where that was a moment ago.
    young_since: Option<Instant>,
    /// When usage is measured again.
    next_hold: Instant,
    /// When it was asked last who lives.
    followed: Instant,
    /// The number of the look after which the kernel was asked last to take pages that we skip as shared: once a look is enough.
    shared_at: u64,
    /// What was paged out and is charged still.
    written: Written,
    thrash: Thrash,
    outrun: Outrun,
    minder: Option<Minder>,
    /// What it has ordered and is not done yet.
    ordered: Option<Ordered>,
    /// What of it is out goes on to a disk, and how old that is.
    demoter: Option<(Demoter, Millis)>,
    /// How long tasks wait, where the policy goes by that.
    waits: Option<Waits>,
    /// When the engine's youngest generation was opened, milliseconds of the watch.
    generation_ms: u64,
    /// Whether the last look opened it.
    has_opened: bool,
    actions: Vec<String>,
    /// The same, for reports.
    said: SaidLines,
    /// What went out and came back at the wall by the kernel's hand.
    unseen: Unseen,
}

/// The engine, which knows one tenant.
fn machine(settings: &Settings, watch: &Watch) -> Machine {
    let policy = match settings.classic {
        true => Policy::ActiveInactive(
            engine::active_inactive::Stage::default(),
            room::machine_pages(watch),
        ),
        false => Policy::default(),
    };
    let config = MachineConfig {
        policy,
        batch: BATCH,
        ..MachineConfig::default()
    };
    let mut machine = Machine::of_one(config, MemcgLimits::default(), Millis(0));
    machine.set_swappiness(MemcgId::FIRST, settings.swappiness);
    machine
}

impl Manager {
    /// Looks at the processes for the first time; `wall` is the control group of ours that they are in.
    ///
    /// # Errors
    /// There is no such target, no right to look at it, or no way to see ages.
    pub fn start(settings: Settings, wall: Option<Wall>) -> Result<Manager, WatchError> {
        let asked = settings.policy.map(|policy| PolicyAsked {
            settings: policy,
            dry_run: settings.dry_run,
        });
        let minder = asked.map(|asked| Minder::new(asked, Millis(0)));
        let look_every = settings.policy.map(|policy| policy.look_every().0);
        let look_every = look_every.map_or(settings.interval, Duration::from_millis);
        let interval = settings.interval.min(look_every);
        let watch = Watch::open(watch::Settings {
            target: settings.target.clone(),
            interval,
            max_wait: settings.max_wait,
            source: None,
            own_process: true,
        })?;
        let now = Instant::now();
        let memcg = MemcgId::FIRST;
        let machine = machine(&settings, &watch);
        let mut driver = Driver::new(watch, machine);
        let asked = settings.write_back.clone();
        let demoter = asked.map(|(asked, age)| (Demoter::new(asked, Millis(0)), age));
        // What the kernel skips (forked workers' shared pages) would be asked for at each wake: half of our processor time, and in its way.
        driver.cull();
        if minder.is_some() {
            driver.track_refaults(memcg);
        }
        if demoter.is_some() {
            driver.track_out();
        }
        let mut manager = Manager {
            settings,
            driver,
            minder,
            demoter,
            ordered: None,
            waits: None,
            wall,
            outside: Outside::default(),
            usual_swappiness: None,
            memcg,
            room: Room::default(),
            due: Due::default(),
            sums: Sums::default(),
            next_look: now,
            young_since: None,
            next_hold: now,
            followed: now,
            shared_at: 0,
            written: Written::default(),
            thrash: Thrash::new(),
            outrun: Outrun::new(),
            generation_ms: 0,
            has_opened: false,
            actions: Vec::new(),
            said: SaidLines::default(),
            unseen: Unseen::default(),
        };
        manager.begin_waits();
        if manager.wall.is_some() {
            // The kernel takes pages there, too, and goes by the same bits.
            manager.driver.watch.ages_and_proc().0.spare_files();
        }
        manager.apply_limits();
        manager.look()?;
        Ok(manager)
    }

    /// Does what is due, and says how long nothing more will be.
    ///
    /// # Errors
    /// The target cannot be read any more.
    pub fn work(&mut self) -> Result<Duration, WatchError> {
        let begin = Instant::now();
        let is_due = begin >= self.next_look;
        if is_due {
            self.look()?;
            self.followed = begin;
        } else if begin < self.next_hold || self.followed.elapsed() >= FOLLOW_APART {
            self.driver.watch.follow_if_cheap()?;
            self.followed = begin;
        }
        self.mind(is_due)?;
        self.demote(is_due);
        // Whatever else woke us: a limit that cannot be held is not tried again before its time.
        if Instant::now() >= self.next_hold {
            let pause = self.hold_limits()?;
            self.next_hold = Instant::now() + pause.min(IDLE_MAX);
        }
        if self.ordered.is_some() {
            return Ok(Duration::ZERO);
        }
        let now = Instant::now();
        let pause = self.next_hold.saturating_duration_since(now);
        let minder = self.minder.as_ref();
        let next = minder.and_then(|minder| minder.due_in(self.now()));
        let pause = pause.min(next.unwrap_or(IDLE_MAX));
        let demoter = self.demoter.as_ref();
        let next = demoter.and_then(|(demoter, _)| demoter.due_in());
        let pause = pause.min(next.unwrap_or(IDLE_MAX));
        Ok(pause.min(self.next_look.saturating_duration_since(now)))
    }

    /// Finds out at once who lives: the first process has ended.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn follow(&mut self) -> Result<(), WatchError> {
        self.driver.watch.follow()
    }

    /// Whether all processes are gone.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.driver.watch.finished()
    }

    /// Whether it manages a process, as of now.
    ///
    /// # Errors
    /// The target cannot be read any more.
    pub fn manages(&mut self, pid: u32) -> Result<bool, WatchError> {
        self.driver.watch.has(pid)
    }

    /// What was done since the last call, or would have been, and why.
    pub fn actions(&mut self) -> Vec<String> {
        std::mem::take(&mut self.actions)
    }

    /// Replaces the limits.
    pub fn set_limits(&mut self, limits: Limits) {
        self.settings.limits = limits;
        self.next_hold = Instant::now();
        self.apply_limits();
    }

    /// Records all looks from now on.
    pub fn record(&mut self, recording: Recording) {
        self.driver.record(recording);
    }

    /// Nothing more is done: what a policy ordered counts as far as it came, and a recording, if there is one, is whole.
    pub fn end_work(&mut self) {
        self.end_ordered();
        if let Some(recorder) = self.driver.recorder() {
            recorder.finish();
        }
    }

    /// Ends, and gives back the wall, whose limits stay until somebody lifts them.
    #[must_use]
    pub fn end(self) -> Option<Wall> {
        self.wall
    }

    fn apply_limits(&mut self) {
        let Limits {
            min,
            low,
            high,
            max,
            swap_max,
        } = self.settings.limits;
        let (min, low) = (min.pages(), low.pages());
        let limits = MemcgLimits {
            min,
            low,
            high,
            max,
            swap_max,
            ..MemcgLimits::default()
        };
        self.driver.machine.set_limits(self.memcg, limits);
        let Some(wall) = self.wall.clone() else {
            return;
        };
        // In a dry run nothing holds the program.
        let of = |limit: Limit| match limit {
            Limit::Bytes(bytes) if !self.settings.dry_run => Some(bytes.0),
            _ => None,
        };
        let (hard, high, swap) = (of(max), of(high), of(swap_max));
        self.due = Due {
            // Version 1 has no such file; reclaim holds it alone.
            high: Some(high),
            max: Some(hard),
            swap_max: Some(swap),
        };
        self.put_due(&wall);
    }

    /// Puts limits on the wall, as far as it takes them now.
    fn put_due(&mut self, wall: &Wall) {
        let refused = self.due.put(wall);
        if let Some(error) = refused.max {
            self.act(format!(
                "the limit holds between looks alone: {} does not take it: {error}",
                wall.group().path.display()
            ));
        }
        if let Some(error) = refused.swap_max {
            self.act(swap_max_unkept(&error));
        }
    }

    fn now(&self) -> Millis {
        Millis(self.driver.watch.elapsed_ms())
    }

    /// Looks now: reads all tables, tells the engine, and opens a generation if it is time for one.
    ///
    /// # Errors
    /// The target cannot be read any more.
    pub fn look(&mut self) -> Result<(), WatchError> {
        let begin = Instant::now();
        self.look_without_generation()?;
        let minder = self.minder.as_ref();
        let apart = minder.map_or(0, |minder| minder.generations_apart().0);
        let now = self.driver.watch.elapsed_ms();
        if now - self.generation_ms + 50 >= apart {
            self.open_generation();
            self.plan_look(begin);
        }
        Ok(())
    }

    /// Reads all tables and tells the engine: what was accessed is of the youngest generation.
    fn look_without_generation(&mut self) -> Result<(), WatchError> {
        let begin = Instant::now();
        self.has_opened = false;
        let memcg = self.memcg;
        let noticed = self.driver.look(&|_| memcg)?;
        self.driver.watch.note_curve(noticed.anon_back);
        self.sums.noticed.add(noticed);
        if let Some(wall) = &self.wall {
            let told = self.outside.check(&self.driver.watch, wall);
            told.into_iter().for_each(|told| self.act(told));
            let (_, faults) = self.driver.watch.ages().swapped_pages();
            let usage = self.usage();
            self.thrash.measure(Instant::now(), faults, usage);
            // Now, for what our hand puts out before the next look is known at once, and found in swap by that look. (The story, of a reading:
            // asked in between, `stat` had it come back, and leave once more after the look.)
            let known = self.driver.machine.lruvec(memcg).out(FolioType::Anon);
            let in_swap = self.driver.watch.swapped_pages();
            self.unseen.note(in_swap.0, known.0);
        }
        self.plan_look(begin);
        Ok(())
    }

    /// When the next look is due, by the one that began then and what it took.
    fn plan_look(&mut self, begin: Instant) {
        let pause = self.driver.look_took() * WORK_SHARE;
        let apart = match self.young_since {
            // As long again as it has been there: who asks in its first seconds is not told of its first moment.
            Some(since) => self.driver.watch.apart().min(since.elapsed().max(YOUNG)),
            None => self.driver.watch.apart(),
        };
        self.next_look = begin + apart.max(pause);
    }

    /// What it uses now.
    fn usage(&self) -> Pages {
        room::usage(&self.driver.watch, self.wall.as_ref(), &self.outside)
    }

    /// The target has just become another program: it is looked at at once, and more often than later until it is as old as an
    /// interval. (The story: for ten seconds the report told of pagetide itself, which the program had been until its exec.)
    pub fn begin_anew(&mut self) {
        let now = Instant::now();
        (self.young_since, self.next_look) = (Some(now), now);
        self.driver.watch.forget_peaks();
    }

    /// Opens the engine's youngest generation, unless this look did.
    fn open_generation(&mut self) {
        if !self.has_opened {
            self.has_opened = true;
            self.generation_ms = self.driver.watch.elapsed_ms();
            self.driver.age(self.memcg, Millis(self.generation_ms));
        }
    }

    /// Looks between two intervals, if the last look is long enough ago for what looks cost. When the oldest generation
    /// is used up, reclaim opens one itself: one for each look, five a second, left four fifths of a second of history.
    fn look_if_worth_it(&mut self) -> Result<(), WatchError> {
        let apart = (self.driver.look_took() * LOOKS_SHARE).max(LOOKS_APART);
        if self.driver.look_age() < apart {
            return Ok(());
        }
        self.look_without_generation()
    }

    /// Before the last report: of one look there are no ages. (The story: `attach --for 2s` had watched for no time at all.)
    pub fn look_once_more(&mut self) {
        if self.driver.looks() == 1 && !self.finished() {
            // Who cannot be read any more is told as it was.
            let _ = self.look_if_worth_it();
        }
    }

    /// What is out and old enough goes on to a disk, if it is time.
    fn demote(&mut self, has_looked: bool) {
        let Some((demoter, age)) = &mut self.demoter else {
            return;
        };
        if demoter.is_due(has_looked) {
            demoter.begin();
            let told = demoter.demote(&mut self.driver, (self.memcg, *age), "");
            told.into_iter().for_each(|told| self.act(told));
        }
    }

    fn add(&mut self, tally: &Tally) {
        self.sums.evicted += tally.evicted;
        self.sums.noticed.left += tally.left;
        self.sums.kept.add(tally.kept());
        self.sums.took += tally.took;
        if let Some(refused) = &tally.refused {
            self.act(format!("the kernel refused to page out: {refused}"));
        }
    }

    fn act(&mut self, what: String) {
        /// Nobody may ask for them: the latest stay.
        const MOST: usize = 1000;
        self.said.note(&what);
        if self.actions.len() == MOST {
            self.actions.remove(0);
        }
        self.actions.push(what);
    }
}
