//! Tests of when watching ends. Only the reports' clock counts, so no test waits.

use std::sync::Mutex;

use super::*;
use crate::view::memory::samples::cooling;
use crate::watching::Target;

/// A fake target: each scan takes a second by its clock, and the processes end after `ends` scans.
pub(in crate::commands) struct Fake {
    n: u64,
    ends: u64,
}

impl Watching for Fake {
    fn next(&mut self) -> Result<Report, Failure> {
        self.n += 1;
        Ok(cooling(self.n - 1))
    }

    fn finished(&self) -> bool {
        self.n >= self.ends
    }
}

/// Returns a fake target with processes that never end.
pub(in crate::commands) fn endless(_: &WatchRequest) -> Result<Box<dyn Watching>, Failure> {
    Ok(Box::new(Fake {
        n: 0,
        ends: u64::MAX,
    }))
}

/// Returns a fake target with processes that end after three scans.
pub(in crate::commands) fn short(_: &WatchRequest) -> Result<Box<dyn Watching>, Failure> {
    Ok(Box::new(Fake { n: 0, ends: 3 }))
}

pub(in crate::commands) fn plan(time: Option<u64>, each: Option<u64>) -> Plan {
    Plan {
        settings: WatchRequest {
            target: Target::Pid(1234),
            age_every: Duration::from_secs(1),
            max_wait: None,
            source: None,
            by: None,
        },
        time: time.map(Duration::from_secs),
        each: each.map(Duration::from_secs),
        any_time: false,
        until_sure: false,
    }
}

pub(in crate::commands) fn go() -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(false))
}

#[derive(Default)]
struct Seen(Vec<u64>);

impl ReportSink for Seen {
    fn report(&mut self, report: Report) -> Result<(), Failure> {
        self.0.push(report.wall_ms);
        Ok(())
    }
}

fn seen(plan: &Plan, open: Open) -> Vec<u64> {
    let mut seen = Seen::default();
    follow(plan, open, &go(), &mut seen).expect("no failure");
    seen.0
}

#[test]
fn it_ends_when_the_time_has_passed() {
    assert_eq!(seen(&plan(Some(2), None), endless), [0, 1000, 2000]);
    let mut almost = plan(Some(2), None);
    almost.time = Some(Duration::from_millis(2_400));
    assert_eq!(
        seen(&almost, endless),
        [0, 1000, 2000],
        "the next look would be too late"
    );
}

#[test]
fn it_ends_with_the_processes() {
    assert_eq!(seen(&plan(Some(60), None), short), [0, 1000, 2000]);
    assert_eq!(seen(&plan(None, Some(1)), short), [0, 1000, 2000]);
}

/// Regression: after a manager was replaced, `--for` ended only when the new manager had run for as
/// long as the old one. A clock that restarts at 0 means a new manager.
#[test]
fn a_manager_that_is_replaced_does_not_make_it_longer() {
    struct Replaced(u64);
    impl Watching for Replaced {
        fn next(&mut self) -> Result<Report, Failure> {
            self.0 += 1;
            Ok(cooling(match self.0 {
                before @ 1..=2 => 99 + before,
                after => after - 2,
            }))
        }
        fn finished(&self) -> bool {
            self.0 > 10
        }
    }
    let open: Open = |_| Ok(Box::new(Replaced(0)));
    let series = seen(&plan(Some(3), Some(1)), open);
    assert_eq!(series, [100_000, 101_000, 1000, 2000]);
}

/// A manager whose clock stands still, and which stops responding after `silent_after` reports.
struct StoppedClockManager {
    n: u64,
    silent_after: u64,
}

impl Watching for StoppedClockManager {
    fn next(&mut self) -> Result<Report, Failure> {
        self.n += 1;
        if self.n > self.silent_after {
            thread::sleep(Duration::from_secs(600));
        }
        thread::sleep(Duration::from_millis(10));
        Ok(cooling(0))
    }

    fn finished(&self) -> bool {
        false
    }

    fn has_watched(&self) -> bool {
        true
    }
}

/// Regression: a fake manager that reported 0 ms each time kept `report --for 300ms` from ending.
#[test]
fn our_own_clock_ends_a_watch_if_the_managers_clock_stands() {
    let stands: Open = |_| {
        Ok(Box::new(StoppedClockManager {
            n: 0,
            silent_after: u64::MAX,
        }))
    };
    let silent: Open = |_| {
        Ok(Box::new(StoppedClockManager {
            n: 0,
            silent_after: 1,
        }))
    };
    for (open, each) in [(stands, None), (stands, Some(1)), (silent, None)] {
        let mut wanted = plan(None, each);
        wanted.settings.age_every = Duration::from_millis(100);
        wanted.time = Some(Duration::from_millis(300));
        let begun = Instant::now();
        assert!(!seen(&wanted, open).is_empty());
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
}

#[test]
fn failures_are_returned() {
    let fail: Open = |_| Err(Failure::missing("cannot", "do"));
    let reported = follow(&plan(None, None), fail, &go(), &mut Seen::default());
    assert!(format!("{reported:?}").contains("exit: 3"), "{reported:?}");

    let panic: Open = |_| std::panic::resume_unwind(Box::new(()));
    let reported = follow(&plan(None, None), panic, &go(), &mut Seen::default());
    assert!(
        format!("{reported:?}").contains("report it"),
        "{reported:?}"
    );
}

#[test]
fn it_stops_at_once_when_stop_is_set() {
    static STOP: Mutex<Option<Arc<AtomicBool>>> = Mutex::new(None);
    struct Stops(u32);
    impl ReportSink for Stops {
        fn report(&mut self, _: Report) -> Result<(), Failure> {
            self.0 += 1;
            if self.0 == 2
                && let Ok(stop) = STOP.lock()
                && let Some(stop) = stop.as_ref()
            {
                stop.store(true, Ordering::Relaxed);
            }
            Ok(())
        }
    }
    let stop = go();
    *STOP.lock().expect("not poisoned") = Some(Arc::clone(&stop));
    let mut user = Stops(0);
    follow(&plan(None, Some(1)), endless, &stop, &mut user).expect("no failure");
    assert_eq!(user.0, 2);
}
