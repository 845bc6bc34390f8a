//! A manager's loop for one tenant: what is due, what is asked, and the end of it.
//!
//! Invariant: it waits in one place (`wake::Wake::wait`), where commands, signals and the end of the
//! first process are heard at once. However it ends, in order: commands are answered, limits lifted, the
//! wall removed, and the program left as it is.

mod answer;
mod shares;
pub(crate) mod wake;

use std::time::{Duration, Instant};

use engine::policy::WriteBudget;
use host::manage::{Manager, Recording, Settings, WriteBackAsked, swap_max_unkept};
use host::report::Report;
use host::swap::Tier;
use host::wall::Wall;

use crate::control::{ControlServer, LAST_ANSWER, Response};
use crate::error::Error;
use crate::options::{Algorithm, Bytes, Millis, Options, Swappiness};
use crate::preflight::{self, Chosen};
use crate::walls;

use shares::Shares;
use wake::Wake;

/// How often a share of what is used is worked out anew.
const SHARES_EVERY: Duration = Duration::from_secs(1);
/// Once the first process has ended, the end of the last one is looked for so often: its event comes after
/// it, and nothing else tells of one that outlives the first.
const LAST_PULSE: Duration = Duration::from_millis(250);

/// Who looks on while a manager works.
pub trait Watcher {
    /// Whether a report is wanted now.
    fn is_due(&self) -> bool {
        false
    }

    /// How long until that may change; none for never.
    fn pace(&self) -> Option<Duration> {
        None
    }

    /// What was done since the last time, and why.
    fn actions(&mut self, _lines: &[String]) {}

    /// All until now; whether to go on.
    fn report(&mut self, _report: &Report) -> bool {
        true
    }
}

/// Nobody looks on.
pub struct Nobody;

impl Watcher for Nobody {}

/// A manager that has begun.
pub struct Served {
    manager: Manager,
    server: ControlServer,
    options: Options,
    shares: Shares,
    shared_at: Option<Instant>,
    wake: Wake,
    notes: Vec<String>,
    /// What a report tells beside that.
    report_notes: Vec<String>,
    /// Those who have it let go: what each is told once that is done, the first one's under the number 1.
    detached: Vec<Response>,
}

/// What is told of a limit of swap that the kernel does not keep to: on standard error if it was said that less will do; else that is the program's,
/// and the report tells it.
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

/// Refuses a target that somebody manages. `run`'s own manager has that process before it has become its program;
/// whoever attaches comes second.
fn refuse_if_managed(chosen: &Chosen, wants_wall: bool) -> Result<(), Error> {
    let find = match wants_wall {
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
        match wants_wall {
            true => {
                "ask that manager instead, or end it first with `pagetide detach`; --best-effort runs it in that manager's hands"
            }
            false => "ask that manager instead, or end it first with `pagetide detach`",
        },
    ))
}

impl Served {
    /// Checks everything, takes the tenant's name, raises a wall where one is wanted, and looks at the target once: what cannot be
    /// read is said before anything starts. What `run` starts is pagetide itself at that time ([`Served::begin_anew`]).
    ///
    /// # Errors
    /// What cannot be had; then nothing is left behind.
    pub fn begin(chosen: Chosen, options: Options, wants_wall: bool) -> Result<Served, Error> {
        options.check()?;
        let mut notes = Vec::new();
        let mut need = |result: Result<(), Error>| match result {
            Err(error) if options.best_effort => {
                notes.push(error.to_string());
                Ok(())
            }
            other => other.map_err(|error| error.or_else("--best-effort goes on without")),
        };
        need(preflight::swap(&options, Some(&chosen)))?;
        need(preflight::right(&options))?;
        let mut tier = None;
        if let Some(asked) = &options.write_back {
            need(preflight::tier(asked.from.as_deref()).map(|found| tier = Some(found)))?;
        }
        refuse_if_managed(&chosen, wants_wall)?;
        let (server, unreached) = ControlServer::bind(&chosen.tenant)?;
        let wake = Wake::new(chosen.tenant.pid())?;
        let (mut wall, mut unbound) = (None, None);
        if let (true, true, Some(pid)) = (wants_wall, options.limits.hold(), chosen.tenant.pid()) {
            need(walls::raise(pid).map(|made| wall = Some(made)))?;
        }
        let may = wants_wall && options.limits.bound_swap_alone() && !options.policy.dry_run;
        if let (true, Some(pid)) = (may, chosen.tenant.pid()) {
            match walls::raise_for_swap(pid) {
                Ok(made) => wall = Some(made),
                Err(error) => unbound = Some(error),
            }
        }
        let shares = Shares::new(options.limits, wants_wall);
        let settings = Settings {
            write_back: tier.and_then(|tier| write_back(&options, tier)),
            ..settings(chosen, &options, &shares)
        };
        let mut manager = start(settings, wall)?;
        if let Err(error) = need(preflight::source(manager.report().age_source)) {
            walls::fall(manager.end());
            return Err(error);
        }
        notes.extend(unreached);
        let report_notes = report_notes(unbound, options.best_effort, &mut notes);
        Ok(Served {
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

    /// The target has just become another program.
    pub fn begin_anew(&mut self) {
        self.manager.begin_anew();
    }

    /// Records all looks from now on.
    pub fn record(&mut self, recording: Recording) {
        self.manager.record(recording);
    }

    /// What could not be had, and is done without.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Works until the target has ended, a command or a signal says to let go, or `watcher` does; the last
    /// report. If the target can no longer be read, it is let go, and `Err` beside the report says why.
    pub fn stay(mut self, watcher: &mut dyn Watcher) -> (Report, Result<(), Error>) {
        let ended = self.work(watcher);
        if ended.is_ok() {
            self.manager.look_once_more();
        }
        self.manager.end_work();
        let mut report = self.manager.report();
        report.tell_curve(self.manager.curve());
        report.notes.extend(self.notes);
        report.notes.extend(self.report_notes);
        if let Err(error) = &ended {
            report.notes.push(format!("it was let go: {error}"));
        }
        walls::fall(self.manager.end());
        // Now it is true: whoever was told may manage it at once. (The story, of a reading: `detach && attach` was refused, for it was managed still.)
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
            self.hold_shares();
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
                wait = wait.min(LAST_PULSE);
            }
            self.wake.wait(self.server.fds(), wait);
            self.answer();
            if !self.detached.is_empty() || self.wake.is_stopped() {
                return Ok(());
            }
        }
    }

    /// Brings limits that are shares of what is used up to date.
    fn hold_shares(&mut self) {
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

fn start(settings: Settings, wall: Option<Wall>) -> Result<Manager, Error> {
    Ok(Manager::start(settings, wall)?)
}

/// What goes on to the disk behind this device.
fn write_back(options: &Options, tier: Tier) -> Option<(WriteBackAsked, Millis)> {
    let asked = options.write_back.as_ref()?;
    let device = WriteBackAsked {
        tier,
        budget: WriteBudget::a_day(Bytes(asked.most_a_day)),
        dry_run: options.policy.dry_run,
    };
    Some((device, Millis::from(asked.older_than)))
}

/// The settings of a tenant's manager.
fn settings(chosen: Chosen, options: &Options, shares: &Shares) -> Settings {
    let policy = options.policy;
    Settings {
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

/// The settings of a manager that does one thing and ends.
pub(crate) fn once(chosen: Chosen, interval: Duration) -> Settings {
    let options = Options {
        policy: crate::options::Policy {
            age_every: interval,
            ..crate::options::Policy::default()
        },
        ..Options::default()
    };
    settings(chosen, &options, &Shares::new(options.limits, false))
}
