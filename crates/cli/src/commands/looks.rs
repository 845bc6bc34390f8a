//! Looks, one after the other, until it is enough.
//!
//! Invariant: looking happens on a thread of its own and waits for whoever uses the reports, so ^C
//! is heard at once, a slow reader makes looks rarer, and reports never pile up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use daemon::options::Millis;
use host::report::Report;

use crate::args::Plan;
use crate::failure::Failure;

use crate::watching::{Settings, Watching};

/// How often ^C is asked for, and progress is shown.
const PULSE: Duration = Duration::from_millis(100);

/// What a manager has for its last answer after the end of the time that was asked for.
const GRACE: Duration = Duration::from_secs(1);

/// Begins to watch; [`crate::watching::open`], or a test's own.
pub(crate) type Open = fn(&Settings) -> Result<Box<dyn Watching>, Failure>;

/// Who uses the reports.
pub(super) trait User {
    /// The next report.
    fn report(&mut self, report: Report) -> Result<(), Failure>;

    /// Whether the reports until now will do.
    fn is_enough(&self) -> bool {
        false
    }

    /// Nothing happened for a moment.
    fn idle(&mut self) {}
}

struct Look {
    report: Report,
    last: bool,
    /// It is a manager's, with a clock of its own.
    by_manager: bool,
}

/// Hands each report to `user`, until the plan's time has passed, the processes are gone, or `stop`
/// is set. The time passes by the reports' own clock, and by ours since a manager's first report.
/// (The story: a manager whose clock stood kept `report --for 300ms` from ending.)
pub(super) fn follow(
    plan: &Plan,
    open: Open,
    stop: &Arc<AtomicBool>,
    user: &mut impl User,
) -> Result<(), Failure> {
    let (give, take) = sync_channel(0);
    let planned = plan.clone();
    let looks = thread::Builder::new()
        .name("looks".to_owned())
        .spawn(move || look(&planned, open, &give))
        .map_err(|error| {
            let what = format!("cannot start a thread to look: {error}");
            Failure::new(what, "raise the limit of processes (ulimit -u)")
        })?;
    let mut end = None;
    let is_over = |end: Option<Instant>| end.is_some_and(|end| Instant::now() >= end);
    while !stop.load(Ordering::Relaxed) && !is_over(end) {
        match take.recv_timeout(PULSE) {
            Ok(Ok(look)) => {
                user.report(look.report)?;
                if user.is_enough() {
                    break;
                }
                let time = plan.time.filter(|_| look.by_manager && end.is_none());
                let latest = time.and_then(|time| Instant::now().checked_add(time + GRACE));
                end = end.or(latest);
                if look.last {
                    // Whoever looks next in this process must not find the processes claimed. What a thread says when it
                    // ends is known: it has given its last report.
                    let _ = looks.join();
                    return Ok(());
                }
            }
            Ok(Err(failure)) => return Err(failure),
            Err(RecvTimeoutError::Timeout) => user.idle(),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::new(
                    "cannot go on: looking ended without a reason",
                    "this should not happen; please report it",
                ));
            }
        }
    }
    // Not joined: it may sleep until the next look, or wait for a manager, which nobody waits for.
    Ok(())
}

fn look(plan: &Plan, open: Open, give: &SyncSender<Result<Look, Failure>>) {
    let mut watching = match open(&plan.settings) {
        Ok(watching) => watching,
        Err(failure) => {
            // Nobody waits any more, which is as well.
            let _ = give.send(Err(failure));
            return;
        }
    };
    let mut passed = Passed::default();
    let mut first: Option<Instant> = None;
    loop {
        let report = watching.next();
        let by_manager = watching.has_watched();
        let own = first.get_or_insert_with(Instant::now).elapsed();
        let own_ms = if by_manager { Millis::from(own).0 } else { 0 };
        let is_enough = report.as_ref().map_or(true, |report| {
            enough(passed.until(report.wall_ms, plan).max(own_ms), plan)
        });
        let is_known = plan.any_time && by_manager;
        let last = is_enough || is_known || watching.finished();
        let look = report.map(|report| Look {
            report,
            last,
            by_manager,
        });
        if give.send(look).is_err() || last {
            return;
        }
    }
}

/// How long has been watched for whoever asks, by the reports' clock.
#[derive(Default)]
struct Passed {
    /// What the clock said when its reports began to count, and in the last one.
    begun_ms: Option<u64>,
    last_ms: u64,
    /// What passed by the clocks of managers that were replaced.
    before_ms: u64,
}

impl Passed {
    /// With the report of this time, milliseconds.
    fn until(&mut self, wall_ms: u64, plan: &Plan) -> u64 {
        // A manager has watched for longer than we ask: enough for one report, but not for a series of them.
        let begun_ms = self.begun_ms.get_or_insert(match plan.each {
            Some(_) => wall_ms,
            None => 0,
        });
        // Another manager may follow it, whose clock begins anew. (The story: `--for 1h` ended a week late, as the one before had
        // run for a week.)
        if wall_ms < self.last_ms {
            let before = self.last_ms.saturating_sub(*begun_ms);
            self.before_ms = self.before_ms.saturating_add(before);
            *begun_ms = 0;
        }
        self.last_ms = wall_ms;
        self.before_ms
            .saturating_add(wall_ms.saturating_sub(*begun_ms))
    }
}

/// Whether another look would come after the end. Looks are due at times that are never met
/// exactly, so half of an interval counts as met.
fn enough(passed_ms: u64, plan: &Plan) -> bool {
    plan.time
        .is_some_and(|time| due(passed_ms, Duration::ZERO, time, plan))
}

/// Whether `each` has passed at `now_ms` since `last`.
pub(super) fn due(now_ms: u64, last: Duration, each: Duration, plan: &Plan) -> bool {
    let slack = plan.settings.age_every / 2;
    Duration::from_millis(now_ms).saturating_add(slack) >= last.saturating_add(each)
}

#[cfg(test)]
pub(super) mod tests;
