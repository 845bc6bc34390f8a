//! Makes one scan after the other, until the plan is fulfilled.
//!
//! Invariant: scans run in a thread of their own and wait for the receiver of the reports. So ^C
//! has an effect at once, a slow receiver makes scans less frequent, and reports never pile up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use daemon::options::Millis;
use host::report::Report;

use crate::args::Plan;
use crate::failure::Failure;

use crate::watching::{WatchRequest, Watching};

/// Time between two checks for ^C, and between two updates of the progress.
const PULSE: Duration = Duration::from_millis(100);

/// How long to wait for a manager's last response after the requested time is over.
const GRACE: Duration = Duration::from_secs(1);

/// Opens a target to watch: [`crate::watching::open`], or a function of a test.
pub(crate) type Open = fn(&WatchRequest) -> Result<Box<dyn Watching>, Failure>;

/// A receiver of reports.
pub(super) trait ReportSink {
    /// Receives the next report.
    fn report(&mut self, report: Report) -> Result<(), Failure>;

    /// Returns whether the reports so far are enough.
    fn is_enough(&self) -> bool {
        false
    }

    /// Called if no report arrived for a moment.
    fn idle(&mut self) {}
}

struct Scan {
    report: Report,
    last: bool,
    /// Whether the report is from a manager, which has its own clock.
    by_manager: bool,
}

/// Passes each report to `user`, until the plan's time has passed, the processes have ended, or
/// `stop` is set. Time is measured by the reports' clock. After a manager's first report, time by
/// our own clock counts as well: a manager whose clock stands still must not keep the command from
/// ending.
pub(super) fn follow(
    plan: &Plan,
    open: Open,
    stop: &Arc<AtomicBool>,
    user: &mut impl ReportSink,
) -> Result<(), Failure> {
    let (sender, receiver) = sync_channel(0);
    let planned = plan.clone();
    let scans = thread::Builder::new()
        .name("scans".to_owned())
        .spawn(move || scan(&planned, open, &sender))
        .map_err(|error| {
            let what = format!("cannot start a thread to scan: {error}");
            Failure::new(what, "raise the limit of processes (ulimit -u)")
        })?;
    let mut end = None;
    let is_over = |end: Option<Instant>| end.is_some_and(|end| Instant::now() >= end);
    while !stop.load(Ordering::Relaxed) && !is_over(end) {
        match receiver.recv_timeout(PULSE) {
            Ok(Ok(scan)) => {
                user.report(scan.report)?;
                if user.is_enough() {
                    break;
                }
                let time = plan.time.filter(|_| scan.by_manager && end.is_none());
                let latest = time.and_then(|time| Instant::now().checked_add(time + GRACE));
                end = end.or(latest);
                if scan.last {
                    // Waits until the thread has ended: otherwise the next scan in this process
                    // would find the processes still claimed. The thread's result is not needed, as
                    // the last report has arrived.
                    let _ = scans.join();
                    return Ok(());
                }
            }
            Ok(Err(failure)) => return Err(failure),
            Err(RecvTimeoutError::Timeout) => user.idle(),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::new(
                    "cannot go on: the scans ended without a reason",
                    "this should not happen; please report it",
                ));
            }
        }
    }
    // Not joined: the thread may be sleeping until the next scan, or waiting for a response that
    // nothing needs any more.
    Ok(())
}

fn scan(plan: &Plan, open: Open, sender: &SyncSender<Result<Scan, Failure>>) {
    let mut watching = match open(&plan.settings) {
        Ok(watching) => watching,
        Err(failure) => {
            // If sending fails, the receiver has stopped; that is no error.
            let _ = sender.send(Err(failure));
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
        let scan = report.map(|report| Scan {
            report,
            last,
            by_manager,
        });
        if sender.send(scan).is_err() || last {
            return;
        }
    }
}

/// For how long this command has been watching, by the reports' clock.
#[derive(Default)]
struct Passed {
    /// Milliseconds of the reports' clock: when this command began to count (`begun_ms`), and in
    /// the last report (`last_ms`).
    begun_ms: Option<u64>,
    last_ms: u64,
    /// Time that passed by the clocks of managers that were replaced, in milliseconds.
    before_ms: u64,
}

impl Passed {
    /// Returns for how many milliseconds this command has watched, when the clock of a report shows
    /// `wall_ms`.
    fn until(&mut self, wall_ms: u64, plan: &Plan) -> u64 {
        // A manager has watched since before this command. Its past counts for a single report, but
        // not for a series of them.
        let begun_ms = self.begun_ms.get_or_insert(match plan.each {
            Some(_) => wall_ms,
            None => 0,
        });
        // A new manager has taken over, and its clock starts at 0: the time so far is added to
        // `before_ms`.
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

/// Returns whether the next scan would be after the end. Scans are never exactly on time, so half
/// an interval counts as a whole one.
fn enough(passed_ms: u64, plan: &Plan) -> bool {
    plan.time
        .is_some_and(|time| due(passed_ms, Duration::ZERO, time, plan))
}

/// Returns whether the time `each` has passed from `last` to `now_ms`, by the reports' clock.
pub(super) fn due(now_ms: u64, last: Duration, each: Duration, plan: &Plan) -> bool {
    let slack = plan.settings.age_every / 2;
    Duration::from_millis(now_ms).saturating_add(slack) >= last.saturating_add(each)
}

#[cfg(test)]
pub(super) mod tests;
