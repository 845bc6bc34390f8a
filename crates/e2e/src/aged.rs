//! Runs `pagetide report` on running processes. Finds when its last scan was, reads what it
//! reports, and checks that its sums add up.
//!
//! The exact time of the last scan is not known; it lies between two times. `begin` is the time
//! that the report states for the scan; it is too early, because the report's clock starts later
//! than the test's. `end` is the time when the report was complete. An age in the report is right
//! if it was the true age at any time between the two.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

use crate::guard::{Outcome, Running, tail};
use crate::verdict::{Bin, ScanTimes};
use crate::{pagetide, proc, wait};

/// The time of `CLOCK_MONOTONIC`, nanoseconds.
///
/// # Panics
/// If the clock is before its start.
#[must_use]
pub fn now_ns() -> u64 {
    let time = Duration::try_from(clock_gettime(ClockId::Monotonic));
    let time = time.expect("the clock is not before its start");
    u64::try_from(time.as_nanos()).expect("the machine is younger than 500 years")
}

/// A running `pagetide report`.
#[derive(Debug)]
pub struct RunningReport {
    running: Running,
    /// Time just before the report was started, nanoseconds of `CLOCK_MONOTONIC`.
    begin: u64,
    /// Time limit for the report.
    limit: Duration,
}

/// A report, and the time of its last scan.
#[derive(Clone, Debug)]
pub struct FinishedReport {
    /// The report as JSON.
    pub report: Value,
    /// When the last scan was, and the interval of scans.
    pub scan: ScanTimes,
}

/// Runs `pagetide report WORDS --json` to its end.
#[must_use]
pub fn outcome(words: &[&str]) -> Outcome {
    let words = ["report"].iter().chain(words).chain(&["--json"]);
    pagetide::command(words.copied()).finish(pagetide::PROMPT)
}

impl RunningReport {
    /// Starts a report that watches for `seconds` and scans every `every_ms` milliseconds.
    #[must_use]
    pub fn start(target: &[&str], seconds: u64, every_ms: u64) -> RunningReport {
        let (time, every) = (format!("{seconds}s"), format!("{every_ms}ms"));
        let how = ["--json", "--for", &time, "--age-every", &every];
        let words = ["report"].iter().chain(target).chain(&how).copied();
        RunningReport {
            begin: now_ns(),
            running: pagetide::command(words).start(),
            limit: Duration::from_secs(seconds) + pagetide::PROMPT,
        }
    }

    /// Starts a report on a process and its descendants; arguments as for [`RunningReport::start`].
    #[must_use]
    pub fn at(pid: u32, seconds: u64, every_ms: u64) -> RunningReport {
        RunningReport::start(&[&pid.to_string()], seconds, every_ms)
    }

    /// Sets the time limit for the report, for one that ends early because its processes end.
    pub fn give_up_after(&mut self, limit: Duration) {
        self.limit = limit;
    }

    /// Pid of `pagetide report`.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// Waits for the report.
    ///
    /// # Panics
    /// If it does not come in time, is not JSON, or its sums do not add up.
    #[must_use]
    pub fn finish(self) -> FinishedReport {
        self.finish_while(|| {})
    }

    /// Waits for the report, and calls `each` repeatedly until then.
    ///
    /// # Panics
    /// If it does not come in time, is not JSON, or its sums do not add up.
    #[must_use]
    pub fn finish_while(mut self, mut each: impl FnMut()) -> FinishedReport {
        let _ = wait::poll(self.limit, || {
            each();
            self.running.ended()
        });
        let outcome = self.running.wait(Duration::ZERO);
        let end = now_ns();
        let errors = tail(&outcome.stderr, 2000);
        assert!(outcome.status.success(), "report: {errors}");
        let report: Value = serde_json::from_str(&outcome.stdout)
            .unwrap_or_else(|error| panic!("report: {error}: {}\n{errors}", outcome.stdout));
        check_sums(&report);
        let ns = |name: &str| number(&report, name) * 1_000_000;
        let scan = ScanTimes {
            begin: (self.begin + ns("wall_ms")).min(end),
            end,
            interval: ns("interval_ms"),
            watched: ns("wall_ms"),
        };
        FinishedReport { report, scan }
    }
}

/// Number in the field `name` of a report or of an object within one.
///
/// # Panics
/// If the value is no number.
#[must_use]
pub fn number(of: &Value, name: &str) -> u64 {
    let value = of[name].as_u64();
    value.unwrap_or_else(|| panic!("report: {name} is {}", of[name]))
}

/// The list in the field `name`; empty if there is none.
fn list<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of[name].as_array().map_or(&[], Vec::as_slice)
}

/// The entry of a process in a report.
#[must_use]
pub fn process(report: &Value, pid: u32) -> Option<&Value> {
    let is = |one: &&Value| one["pid"].as_u64() == Some(u64::from(pid));
    list(report, "processes").iter().find(is)
}

/// Pids of all processes in a report.
#[must_use]
pub fn pids(report: &Value) -> Vec<u32> {
    let all = list(report, "processes").iter();
    all.filter_map(|one| u32::try_from(one["pid"].as_u64()?).ok())
        .collect()
}

/// The reasons for unknown ages in a report, in one text.
#[must_use]
pub fn reasons(report: &Value) -> String {
    let all = list(report, "unknown_because").iter();
    let words = all.filter_map(|one| one["reason"].as_str());
    words.collect::<Vec<_>>().join("; ")
}

/// The bins of a report's age histogram, summed over all NUMA nodes, youngest first.
#[must_use]
pub fn bins(report: &Value) -> Vec<Bin> {
    let mut found: Vec<Bin> = Vec::new();
    for bin in list(report, "page_age")
        .iter()
        .flat_map(|node| list(node, "bins"))
    {
        let bin = Bin {
            older_than_ms: number(bin, "older_than_ms"),
            anon_bytes: number(bin, "anon_bytes"),
            file_bytes: number(bin, "file_bytes"),
        };
        match found
            .iter_mut()
            .find(|one| one.older_than_ms == bin.older_than_ms)
        {
            Some(one) => {
                one.anon_bytes += bin.anon_bytes;
                one.file_bytes += bin.file_bytes;
            }
            None => found.push(bin),
        }
    }
    found.sort_by_key(|bin| bin.older_than_ms);
    found
}

/// Checks that the sums of a report agree to the byte:
/// - bins and bytes of unknown age sum up to the resident bytes;
/// - the resident bytes of all processes sum up to those of the report;
/// - the bytes of unknown age of all processes, and those of all reasons, sum up to those of the
///   report.
///
/// # Panics
/// If a sum differs.
pub fn check_sums(report: &Value) {
    let sum = |name: &str, field: &str| -> u64 {
        let all = list(report, name).iter();
        all.map(|one| number(one, field)).sum()
    };
    let (resident, unknown) = (
        number(report, "resident_bytes"),
        number(report, "unknown_age_bytes"),
    );
    let binned: u64 = bins(report)
        .iter()
        .map(|bin| bin.anon_bytes + bin.file_bytes)
        .sum();
    assert_eq!(binned + unknown, resident, "bins and unknown: {report}");
    let owned = sum("processes", "resident_bytes");
    assert_eq!(owned, resident, "processes: {report}");
    let of_processes = sum("processes", "unknown_age_bytes");
    assert_eq!(of_processes, unknown, "unknown of processes: {report}");
    assert_eq!(sum("unknown_because", "bytes"), unknown, "{report}");
    for one in list(report, "processes") {
        let (owned, mapped) = (number(one, "resident_bytes"), number(one, "mapped_bytes"));
        assert!(owned <= mapped, "owns more than it maps: {one}");
        let older = ["older_than_10s_bytes", "unknown_age_bytes"].map(|name| number(one, name));
        assert!(older.iter().sum::<u64>() <= owned, "{one}");
    }
}

/// Sum of the line `name` in the processes' `smaps_rollup`, bytes.
#[must_use]
pub fn rollup(pids: &[u32], name: &str) -> u64 {
    let of = |pid: &u32| -> Option<u64> {
        let text = proc::read(*pid, "smaps_rollup")?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
    };
    pids.iter().filter_map(of).sum()
}

/// Whether `size` differs from `of` by at most `percent` percent of `of`.
#[must_use]
pub fn is_near(size: u64, of: u64, percent: u64) -> bool {
    size.abs_diff(of) <= of / 100 * percent
}
