//! The manager: looks at its targets every interval, ages, holds limits, answers questions.
//!
//! One thread. Nothing here is ever waited for by a target, but for the page budget under a limit,
//! which counts only while the heartbeat is fresh.

mod children;
mod describe;
mod gauges;
mod limits;
mod policy;
mod room;

use crate::Error;
use crate::control::ControlServer;
use crate::options::Options;
use crate::record::Recorder;
use crate::report::{DryRun, Report, Stat};
use crate::target::Target;
use crate::target::link::Lost;
use engine::Millis;
use std::time::{Duration, Instant};

/// How the management of a target ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// The target is gone, or runs on without us by its own doing.
    Gone,
    /// Somebody asked for a detach.
    Detach,
}

/// All that one manager looks after: the target and its descendants.
pub(crate) struct Supervisor {
    pub(crate) pid: i32,
    options: Options,
    targets: Vec<Target>,
    control: Option<ControlServer>,
    start: Instant,
    command: Vec<String>,
    dry: Option<DryRun>,
    policy: policy::Clock,
    due: policy::Due,
    limit: limits::Limit,
    family: children::Family,
    peak: u64,
    gone_counters: crate::target::Counters,
    detach: bool,
    report_at: Instant,
    /// When to look next whether a target runs another program.
    exec_at: Millis,
    fault_scale: describe::Scale,
    record: Option<Recorder>,
    looks: gauges::Looks,
    gone_stat: Stat,
}

impl Supervisor {
    /// Takes `first` (or nothing yet, when the target could not be managed) under supervision.
    pub(crate) fn new(
        pid: i32,
        first: Option<Target>,
        options: &Options,
    ) -> Result<Supervisor, Error> {
        let start = Instant::now();
        let unsigned = pid.unsigned_abs();
        // Two descriptors for each forked child that is served (`target::kept`). Best effort.
        let _ = uffd::fds::raise_nofile(std::process::id().cast_signed(), 8192);
        Ok(Supervisor {
            pid,
            options: options.clone(),
            targets: first.into_iter().collect(),
            control: Some(ControlServer::bind(unsigned)?),
            start,
            command: crate::vet::command_of(unsigned),
            dry: options.policy.dry_run.then(DryRun::default),
            policy: policy::Clock::new(&options.policy),
            due: policy::Due::Nothing,
            limit: limits::Limit::default(),
            family: children::Family::default(),
            peak: 0,
            gone_counters: crate::target::Counters::default(),
            detach: false,
            report_at: start,
            exec_at: Millis(0),
            fault_scale: describe::Scale::start(),
            record: None,
            looks: gauges::Looks::default(),
            gone_stat: Stat::default(),
        })
    }

    /// From now on, notes what happens in `recorder`.
    pub(crate) fn record(&mut self, recorder: Recorder) {
        for target in &mut self.targets {
            target.lru.record(recorder.clone());
        }
        self.record = Some(recorder);
    }

    /// Takes one more target in.
    fn admit(&mut self, mut target: Target) {
        if let Some(recorder) = &self.record {
            target.lru.record(recorder.another());
        }
        self.targets.push(target);
    }

    pub(crate) fn now(&self) -> Millis {
        Millis(u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// One look at everything. `None` to go on.
    pub(crate) fn tick(&mut self) -> Option<Ended> {
        let now = self.now();
        self.answer();
        self.family_changes(now);
        // Under a limit there are looks every millisecond; this one costs files of /proc.
        let settled = now < self.exec_at;
        if !settled {
            self.exec_at = now.after(Millis(self.options.interval.0));
        }
        for i in (0..self.targets.len()).rev() {
            let t = &mut self.targets[i];
            t.link.beat();
            t.link.keep_children();
            if t.link.target_exited() || (!settled && t.link.target_executed()) {
                self.drop_target(i);
                continue;
            }
            let done = self.look_at(i, now);
            if let Err(lost) = done {
                self.lost(i, lost);
            }
        }
        let held = self.hold_limits(now);
        if let Err((i, lost)) = held {
            self.lost(i, lost);
        }
        self.look();
        if self.detach {
            return Some(Ended::Detach);
        }
        // A zombie has no memory to speak of.
        let gone = self.targets.is_empty() && crate::target::proc::anon_bytes(self.pid).is_none();
        gone.then_some(Ended::Gone)
    }

    /// Sleeps until the next look is due.
    pub(crate) fn pause(&self) {
        if let Some(recorder) = &self.record {
            recorder.write();
        }
        let full = Duration::from_millis(self.options.interval.0.max(1));
        std::thread::sleep(self.limit.pause().unwrap_or(full));
    }

    fn look_at(&mut self, i: usize, now: Millis) -> Result<(), Lost> {
        let t = &mut self.targets[i];
        t.read_log();
        // The clock is the family's: the last target moves it on.
        if i + 1 == self.targets.len() {
            self.due = self.policy.due(now);
        }
        let t = &mut self.targets[i];
        if self
            .policy
            .wants_regions(now, self.due != policy::Due::Nothing)
        {
            t.refresh()?;
        } else if self.limit.near() {
            t.refresh_if_stale()?;
        }
        self.run_policy(i, now)
    }

    fn drop_target(&mut self, i: usize) {
        let gone = self.targets.remove(i);
        self.keep_totals(&gone);
    }

    /// Adds what a target counted to the totals: it is about to go.
    fn keep_totals(&mut self, gone: &Target) {
        let sum = &mut self.gone_counters;
        sum.evicted_pages += gone.counters.evicted_pages;
        sum.aging_passes += gone.counters.aging_passes;
        sum.keepers_replaced += gone.counters.keepers_replaced;
        self.fault_scale.keep(gone);
        add_stat(&mut self.gone_stat, gone);
    }

    /// Pages put out so far by all targets, those that are gone included.
    fn evicted_pages(&self) -> u64 {
        let live: u64 = self.targets.iter().map(|t| t.counters.evicted_pages).sum();
        self.gone_counters.evicted_pages + live
    }

    /// A keeper did not answer: the target ended, or both keepers were killed.
    fn lost(&mut self, i: usize, lost: Lost) {
        let Some(t) = self.targets.get_mut(i) else {
            return;
        };
        match lost {
            Lost::Target => self.drop_target(i),
            Lost::Keepers => {
                if t.link.target_exited() {
                    self.drop_target(i);
                } else if t.link.replace_keepers().is_ok() {
                    t.counters.keepers_replaced += 1;
                    t.rebuild_books();
                }
                // Else: tried again at the next look; the target waits, it does not read zeros.
            }
            Lost::Late => {}
        }
    }

    /// Gives everything back to every target.
    fn release_all(&mut self) -> Result<(), Error> {
        self.look_now();
        while let Some(t) = self.targets.pop() {
            self.keep_totals(&t);
            t.release()?;
        }
        self.detach = true;
        Ok(())
    }

    /// Gives everything back, and ends supervision.
    pub(crate) fn release(mut self) -> Result<Report, Error> {
        self.release_all()?;
        let report = self.report();
        self.close();
        Ok(report)
    }

    fn close(&mut self) {
        if let Some(socket) = self.control.take() {
            socket.finish(Duration::from_millis(200));
        }
    }

    /// Whether a report for the caller is due (ten times a second).
    pub(crate) fn report_due(&mut self) -> bool {
        let due = self.report_at.elapsed() >= Duration::from_millis(100);
        if due {
            self.report_at = Instant::now();
        }
        due
    }

    /// Ends supervision of a target that is gone: the last report.
    pub(crate) fn finish(mut self, exit: Option<i32>) -> Report {
        self.look_now();
        let mut report = self.report();
        report.exit = exit;
        self.close();
        report
    }
}

/// Adds the counters of a target's engine, under the kernel's names.
fn add_stat(stat: &mut Stat, t: &Target) {
    for (name, n) in t.lru.stats().iter() {
        stat.set(name, stat.get(name).unwrap_or(0) + n);
    }
}
