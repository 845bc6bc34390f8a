//! The sides of a comparison: a program without a limit, under a limit of the kernel, and under the
//! same limit of pagetide.
//!
//! Each run has a control group (version 1) without a limit; the limit is set in a group below it.
//! On the kernel's side that is a group of this test, on pagetide's side the hard-limit cgroup of
//! `pagetide run`. So the counters of the upper group mean the same on each side, and stay when the
//! hard-limit cgroup is removed. Little of the manager's memory is charged to the upper group.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::aged::rollup;
use crate::guard::{Run, send};
use crate::memcg::MemoryGroup;
use crate::temp::TempDir;
use crate::{pagetide, proc, wait};

/// Time limit for a manager to write its report after its program has ended.
const REPORT: Duration = Duration::from_secs(20);

/// Smallest number of swapped-out bytes that is compared: of a smaller one, a single page would be
/// some percent.
const COMPARED_MIN: u64 = 1 << 20;

/// What enforces the limit; the limit is in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// No limit.
    Alone,
    /// The kernel, by `memory.limit_in_bytes` of a control group.
    Kernel(u64),
    /// pagetide, by `pagetide run --memory-max`.
    Pagetide(u64),
}

/// Results of one run.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Measured {
    /// Duration of the work, seconds; `None` if it did not come to its end.
    pub seconds: Option<f64>,
    /// Highest memory that was charged to the group with the limit, bytes.
    pub peak: u64,
    /// Number of pages swapped in on the whole machine during the run, so nothing else may swap in
    /// meanwhile. The group's own count of refaults cannot be used: it was 36,597 for a workload
    /// with some 400,000 refaults.
    pub swapped_in: u64,
    /// Number of processes that the kernel killed for lack of memory. On pagetide's side it is 1 if
    /// a process was killed or the work did not come to its end, else 0.
    pub kills: u64,
    /// Processor time of pagetide divided by the duration of the run.
    pub cpu_share: f64,
}

/// Memory that the kernel has in swap, in percent of what pagetide reports as swapped out; 100 is
/// right.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ledger {
    /// Percentage of the bytes that the engine counts as swapped out (`swapped_known` of `stat`).
    /// The engine learns about swap entries only where the kernel swapped a page out by its own
    /// choice.
    pub by_engine: f64,
    /// Percentage of the report's `swapped_bytes`, which the manager reads from page tables.
    pub reported: f64,
}

/// The control groups and files of one run.
#[derive(Debug)]
pub struct RunSetup {
    side: Side,
    options: Vec<String>,
    folder: TempDir,
    // The group with the limit is dropped first, as it is below the other one.
    limited: Option<MemoryGroup>,
    group: MemoryGroup,
    /// Pages that the machine had swapped in before the run.
    swapped_in: u64,
}

/// Number of pages swapped in since the machine started. The kernel counts pages of zeros
/// separately.
fn swapped_in() -> u64 {
    proc::vmstat("pswpin") + proc::vmstat("swpin_zero")
}

impl RunSetup {
    /// Makes the groups for a run; `options` are further options of `pagetide run`.
    #[must_use]
    pub fn new(side: Side, options: &[String]) -> RunSetup {
        let group = MemoryGroup::new();
        let limited = match side {
            Side::Kernel(bytes) => {
                let below = group.below();
                below.limit(bytes);
                Some(below)
            }
            _ => None,
        };
        RunSetup {
            side,
            options: options.to_vec(),
            folder: TempDir::new(),
            limited,
            group,
            swapped_in: swapped_in(),
        }
    }

    /// The file to which the manager writes its report.
    fn report_file(&self) -> PathBuf {
        self.folder.path().join("report.json")
    }

    /// The command that runs `run` on this side.
    #[must_use]
    pub fn wrap(&self, run: &Run) -> Run {
        match (self.side, &self.limited) {
            (Side::Pagetide(bytes), _) => {
                let (bytes, file) = (bytes.to_string(), self.report_file());
                let file = file.to_string_lossy();
                let mut options = vec!["--memory-max", &bytes, "--report", &file];
                options.extend(self.options.iter().map(String::as_str));
                self.group.run(&pagetide::run(&options, run))
            }
            (_, Some(limited)) => limited.run(run),
            _ => self.group.run(run),
        }
    }

    /// Returns the results of the run, which took `seconds`. All its processes must have ended.
    ///
    /// # Panics
    /// If pagetide writes no report.
    #[must_use]
    pub fn measured(&self, seconds: Option<f64>) -> Measured {
        const PEAK: &str = "memory.max_usage_in_bytes";
        let mut measured = Measured {
            seconds,
            peak: self.limited.as_ref().unwrap_or(&self.group).number(PEAK),
            ..Measured::default()
        };
        if let Some(limited) = &self.limited {
            measured.kills = limited.line("memory.oom_control", "oom_kill ");
            // A pipe succeeds though one of its programs was killed: such a run has not done its
            // work.
            measured.seconds = seconds.filter(|_| measured.kills == 0);
        }
        if let Side::Pagetide(_) = self.side {
            let report = self.report();
            let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
            // The kernel's own figure of the group, as on the kernel's side.
            measured.peak = report["charged_peak_bytes"].as_u64().unwrap_or(0);
            // As on the kernel's side: a pipe succeeds though one of its programs was killed.
            let has_kills = report["notes"].to_string().contains("the kernel killed");
            measured.kills = u64::from(seconds.is_none() || has_kills);
            measured.seconds = seconds.filter(|_| measured.kills == 0);
            // A server's command ends at once, and the server runs on.
            let wall_ms = number(&report["wall_ms"]).max(1000.0 * seconds.unwrap_or(0.0));
            measured.cpu_share = number(&report["overhead"]["cpu_ms"]) / wall_ms;
        }
        measured.swapped_in = swapped_in() - self.swapped_in;
        measured
    }

    /// Waits for the manager's report; returns it.
    fn report(&self) -> Value {
        let read = || {
            let text = std::fs::read_to_string(self.report_file()).ok()?;
            serde_json::from_str(&text).ok()
        };
        wait::poll(REPORT, read).expect("pagetide writes its report")
    }

    /// Compares the kernel's, the engine's and the report's counts of swapped-out memory, while the
    /// processes `tree` are stopped. `None` if the engine's or the report's count is at most
    /// `COMPARED_MIN` or missing. The manager must scan at least once a second.
    ///
    /// Regression: by VmSwap only 37% of PostgreSQL's pages were swapped out, as VmSwap omits its
    /// shared buffers.
    #[must_use]
    pub fn ledger(&self, tree: &[u32]) -> Option<Ledger> {
        let program = |pid: &&u32| proc::comm(**pid).is_some_and(|comm| comm != "pagetide");
        let tree: Vec<u32> = tree.iter().filter(program).copied().collect();
        let first = *tree.first()?;
        tree.iter().for_each(|pid| send(*pid, Signal::STOP));
        std::thread::sleep(Duration::from_millis(2500));
        let report = pagetide::try_report(first);
        let stat = pagetide::stat(first);
        // VmSwap omits shared memory, and smaps counts it in each process that maps it: the largest
        // value has all of it.
        let own = |pid: &u32| proc::number(*pid, "VmSwap").unwrap_or(0);
        let shared = |pid: &u32| rollup(&[*pid], "Swap").saturating_sub(own(pid));
        let swapped =
            tree.iter().map(own).sum::<u64>() + tree.iter().map(shared).max().unwrap_or(0);
        tree.iter().for_each(|pid| send(*pid, Signal::CONT));
        let (report, stat) = (report?, stat?);
        let said = report["swapped_bytes"].as_u64()?;
        let number = |name: &str| stat[name].as_u64().unwrap_or(0);
        // A page that was freed while it was swapped out stays in `out - back`, and in the same
        // difference of the kernel's counters.
        let (out, back) = (number("pswpout"), number("pswpin"));
        let by_engine = number("swapped_known");
        eprintln!(
            "  ledger: swapped_bytes {} MiB, known {} MiB, pswpout - pswpin {} MiB, by the kernel {} MiB",
            said >> 20,
            by_engine >> 20,
            out.saturating_sub(back) >> 8,
            swapped >> 20
        );
        #[expect(clippy::cast_precision_loss, reason = "a share")]
        let share = |of: u64| 100.0 * swapped as f64 / of as f64;
        (by_engine.min(said) > COMPARED_MIN).then(|| Ledger {
            by_engine: share(by_engine),
            reported: share(said),
        })
    }
}
