//! A manager's loop for one tenant: pending work, requests, and the manager's end.
//!
//! Invariant: the loop waits in one place (`wake::Wake::wait`), where requests, signals and the end
//! of the first process wake it at once. At the manager's end, in this order: limits are lifted,
//! the hard-limit cgroup is removed, detach requests get their responses; the program goes on as it
//! is.

mod answer;
mod shares;
pub(crate) mod wake;

use std::time::{Duration, Instant};

use engine::policy::WriteBudget;
use host::hard_limit::HardLimit;
use host::manage::{Manager, ManagerSettings, Recording, WritebackSettings, swap_max_unkept};
use host::report::Report;
use host::swap::Tier;

use crate::control::{ControlServer, LAST_ANSWER, Response};
use crate::error::Error;
use crate::hard_limits;
use crate::options::{Algorithm, Bytes, Millis, Options, Swappiness};
use crate::preflight::{self, Chosen};

use shares::Shares;
use wake::Wake;

/// Time between two calculations of those limits that are shares of what the program uses.
const SHARES_EVERY: Duration = Duration::from_secs(1);
/// Longest time between two checks whether the last process has ended, after the first process has.
/// The kernel reports only the end of the first.
const END_CHECK_EVERY: Duration = Duration::from_millis(250);

/// What the caller does while a manager works: it receives reports and actions.
pub trait Watcher {
    /// Whether a report is wanted now.
    fn is_due(&self) -> bool {
        false
    }

    /// Returns the time until [`Watcher::is_due`] may change; `None` for never.
    fn pace(&self) -> Option<Duration> {
        None
    }

    /// Receives the manager's actions since the last call, one line each, with their reasons.
    fn actions(&mut self, _lines: &[String]) {}

    /// Receives a report; returns whether to go on.
    fn report(&mut self, _report: &Report) -> bool {
        true
    }
}

/// A watcher that wants no report and no actions.
pub struct NoWatcher;

impl Watcher for NoWatcher {}

/// A manager that has started.
pub struct RunningManager {
    manager: Manager,
    server: ControlServer,
    options: Options,
    shares: Shares,
    shared_at: Option<Instant>,
    wake: Wake,
    notes: Vec<String>,
    /// Notes that stand only in the report.
    report_notes: Vec<String>,
    /// The responses to detach requests, to be sent when the target is no longer managed. The first
    /// one has number 1.
    detached: Vec<Response>,
}

/// Places the note that the kernel does not enforce the limit of swap (`unbound` says why). With
/// `best_effort` the note is appended to `notes`, which go to standard error. Otherwise returns the
/// note for the report, because standard error is the program's.
fn report_notes(unbound: Option<Error>, best_effort: bool, notes: &mut Vec<String>) -> Vec<String> {
    let said = unbound.map(|error| swap_max_unkept(&error));
    match best_effort {
        true => {
            notes.extend(said);
            Vec::new()
        }
        false => said.into_iter().collect(),
    }
}

/// Refuses a target that has a manager already. The manager that `run` starts takes its process
/// before the process becomes the program, so an attaching manager comes second.
fn refuse_if_managed(chosen: &Chosen, wants_hard_limit: bool) -> Result<(), Error> {
    let find = match wants_hard_limit {
        true => crate::control::find,
        false => crate::control::find_begun,
    };
    let Some(managed) = find(&chosen.tenant)? else {
        return Ok(());
    };
    Err(Error::failed(
        format!(
            "cannot manage {}: the pagetide of pid {} manages it, as {}",
            chosen.tenant, managed.manager, managed.tenant
        ),
        match wants_hard_limit {
            true => {
                "use that manager, or end it first with `pagetide detach`; --best-effort runs the program under that manager"
            }
            false => "use that manager, or end it first with `pagetide detach`",
        },
    ))
}

impl RunningManager {
    /// Checks everything, takes the tenant's name, makes a hard-limit cgroup if one is wanted, and
    /// scans the target once, so that failures are reported before anything starts. At that time
    /// the process of a `run` is still pagetide itself ([`RunningManager::note_exec`]).
    ///
    /// # Errors
    /// What the host lacks or refuses; then nothing remains of the attempt.
    pub fn begin(
        chosen: Chosen,
        options: Options,
        wants_hard_limit: bool,
    ) -> Result<RunningManager, Error> {
        options.check()?;
        let mut notes = Vec::new();
        let mut need = |result: Result<(), Error>| match result {
            Err(error) if options.best_effort => {
                notes.push(error.to_string());
                Ok(())
            }
            other => other.map_err(|error| error.or_else("--best-effort continues without it")),
        };
        need(preflight::swap(&options, Some(&chosen)))?;
        need(preflight::right(&options))?;
        let mut tier = None;
        if let Some(requested) = &options.write_back {
            need(preflight::tier(requested.from.as_deref()).map(|found| tier = Some(found)))?;
        }
        refuse_if_managed(&chosen, wants_hard_limit)?;
        let (server, unreached) = ControlServer::bind(&chosen.tenant)?;
        let wake = Wake::new(chosen.tenant.pid())?;
        let (mut hard_limit, mut unbound) = (None, None);
        if let (true, true, Some(pid)) =
            (wants_hard_limit, options.limits.hold(), chosen.tenant.pid())
        {
            need(hard_limits::make(pid).map(|made| hard_limit = Some(made)))?;
        }
        let may = wants_hard_limit && options.limits.bound_swap_alone() && !options.policy.dry_run;
        if let (true, Some(pid)) = (may, chosen.tenant.pid()) {
            match hard_limits::make_for_swap(pid) {
                Ok(made) => hard_limit = Some(made),
                Err(error) => unbound = Some(error),
            }
        }
        let shares = Shares::new(options.limits, wants_hard_limit);
        let settings = ManagerSettings {
            write_back: tier.and_then(|tier| write_back(&options, tier)),
            ..settings(chosen, &options, &shares)
        };
        let mut manager = start(settings, hard_limit)?;
        if let Err(error) = need(preflight::source(manager.report().age_source)) {
            hard_limits::remove(manager.end());
            return Err(error);
        }
        notes.extend(unreached);
        let report_notes = report_notes(unbound, options.best_effort, &mut notes);
        Ok(RunningManager {
            manager,
            server,
            options,
            shares,
            shared_at: None,
            wake,
            notes,
            report_notes,
            detached: Vec::new(),
        })
    }

    /// Notes that the target has just become another program.
    pub fn note_exec(&mut self) {
        self.manager.note_exec();
    }

    /// Records all scans from now on.
    pub fn record(&mut self, recording: Recording) {
        self.manager.record(recording);
    }

    /// Notes for the user: what the host lacks, and what does not work because of that.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Manages the target until it has ended, or until a request, a signal or `watcher` ends
    /// management. Returns the last report. The second value is `Err` if the target can no longer
    /// be read: that ends management, too.
    pub fn stay(mut self, watcher: &mut dyn Watcher) -> (Report, Result<(), Error>) {
        let ended = self.work(watcher);
        if ended.is_ok() {
            self.manager.scan_once_more();
        }
        self.manager.end_work();
        let mut report = self.manager.report();
        report.set_curve(self.manager.curve());
        report.notes.extend(self.notes);
        report.notes.extend(self.report_notes);
        if let Err(error) = &ended {
            report
                .notes
                .push(format!("pagetide stopped managing it: {error}"));
        }
        hard_limits::remove(self.manager.end());
        // The name is released before detach requests get their responses, because a client that
        // has its response may attach another manager at once.
        self.server.give_name_back();
        for (number, detached) in (1..).zip(&self.detached) {
            self.server.complete(number, detached);
        }
        self.server.finish(LAST_ANSWER);
        (report, ended)
    }

    fn work(&mut self, watcher: &mut dyn Watcher) -> Result<(), Error> {
        let mut has_ended = false;
        loop {
            if self.wake.has_first_ended() && !std::mem::replace(&mut has_ended, true) {
                self.manager.follow()?;
            }
            let next = self.manager.work()?;
            if self.manager.finished() {
                return Ok(());
            }
            self.update_shares();
            let actions = self.manager.actions();
            if !actions.is_empty() {
                watcher.actions(&actions);
            }
            if watcher.is_due() && !watcher.report(&self.manager.report()) {
                return Ok(());
            }
            let mut wait = next.min(watcher.pace().unwrap_or(next));
            wait = wait.min(self.server.patience());
            if self.wake.has_first_ended() {
                wait = wait.min(END_CHECK_EVERY);
            }
            self.wake.wait(self.server.fds(), wait);
            self.answer();
            if !self.detached.is_empty() || self.wake.is_stopped() {
                return Ok(());
            }
        }
    }

    /// Updates those limits that are shares of what the program uses.
    fn update_shares(&mut self) {
        let fresh = |at: Instant| at.elapsed() < SHARES_EVERY;
        if !self.shares.vary() || self.shared_at.is_some_and(fresh) {
            return;
        }
        self.shared_at = Some(Instant::now());
        let report = self.manager.report();
        let used = report.resident_bytes.saturating_add(report.swapped_bytes);
        if let Some(limits) = self.shares.used(used) {
            self.manager.set_limits(limits);
        }
    }
}

fn start(settings: ManagerSettings, hard_limit: Option<HardLimit>) -> Result<Manager, Error> {
    Ok(Manager::start(settings, hard_limit)?)
}

/// Returns the settings for writeback to the disk of `tier`; `None` if the options want no
/// writeback.
fn write_back(options: &Options, tier: Tier) -> Option<(WritebackSettings, Millis)> {
    let requested = options.write_back.as_ref()?;
    let device = WritebackSettings {
        tier,
        budget: WriteBudget::a_day(Bytes(requested.most_a_day)),
        dry_run: options.policy.dry_run,
    };
    Some((device, Millis::from(requested.older_than)))
}

/// The settings of a tenant's manager.
fn settings(chosen: Chosen, options: &Options, shares: &Shares) -> ManagerSettings {
    let policy = options.policy;
    ManagerSettings {
        target: chosen.target,
        interval: policy.age_every,
        max_wait: options.max_wait,
        limits: shares.now(),
        classic: policy.policy == Algorithm::ActiveInactive,
        swappiness: Swappiness::new(policy.swappiness).unwrap_or_default(),
        policy: policy.evict_by.map(|evict_by| evict_by.0),
        write_back: None,
        dry_run: policy.dry_run,
    }
}

/// The settings of a manager that serves a single command and then ends.
pub(crate) fn once(chosen: Chosen, interval: Duration) -> ManagerSettings {
    let options = Options {
        policy: crate::options::Policy {
            age_every: interval,
            ..crate::options::Policy::default()
        },
        ..Options::default()
    };
    settings(chosen, &options, &Shares::new(options.limits, false))
}
