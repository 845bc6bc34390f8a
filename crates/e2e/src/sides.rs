//! The sides of a comparison: a program alone, under the kernel's limit, under pagetide's.
//!
//! Each run has a control group (v1) of its own, without a limit, and the limit holds in a group below it: the kernel's
//! side has ours, pagetide's the wall that `pagetide run` makes. So what is counted in the upper one is the same on
//! both sides, and stays when the wall is gone. Of the manager only little is in it.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::aged::rollup;
use crate::guard::{Run, send};
use crate::memcg::MemoryGroup;
use crate::temp::TempDir;
use crate::{pagetide, proc, wait};

/// Until a manager whose program has ended has written its report.
const REPORT: Duration = Duration::from_secs(20);

/// Of less, single pages would be percents.
const LEAST_OUT: u64 = 1 << 20;

/// Who holds the limit, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Nobody: there is none.
    Alone,
    /// A control group.
    Kernel(u64),
    /// `pagetide run --memory-max`.
    Pagetide(u64),
}

/// What one run came to.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Measured {
    /// Of its work; none if it did not come to its end.
    pub seconds: Option<f64>,
    /// The most that was charged to the group with the limit.
    pub peak: u64,
    /// Pages that were swapped in meanwhile, by the machine's count: nothing else may need any. (The group's count of refaults told 36,597 of a loop
    /// that needs some 400,000 and took as long as ever.)
    pub swapped_in: u64,
    /// Processes that the kernel killed for want of memory; on pagetide's side one, if the program did not come to its end.
    pub kills: u64,
    /// Our processor time, of the time of the run.
    pub cpu_share: f64,
}

/// What the kernel has in swap, in percent of what we say is out.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ledger {
    /// Of what left by our books and did not come back (`stat`: pswpout less pswpin), which know nothing of swap entries but
    /// where the kernel took a page itself.
    pub booked: f64,
    /// Of the report's `swapped_bytes`, which are read from page tables.
    pub reported: f64,
}

/// Where one run takes place.
#[derive(Debug)]
pub struct Place {
    side: Side,
    options: Vec<String>,
    folder: TempDir,
    // Dropped in this order.
    limited: Option<MemoryGroup>,
    group: MemoryGroup,
    swapped_in: u64,
}

/// Since the machine started; pages of nothing but zeroes are counted apart.
fn swapped_in() -> u64 {
    proc::vmstat("pswpin") + proc::vmstat("swpin_zero")
}

impl Place {
    /// An empty one; `options` are more of `pagetide run`.
    #[must_use]
    pub fn new(side: Side, options: &[String]) -> Place {
        let group = MemoryGroup::new();
        let limited = match side {
            Side::Kernel(bytes) => {
                let below = group.below();
                below.limit(bytes);
                Some(below)
            }
            _ => None,
        };
        Place {
            side,
            options: options.to_vec(),
            folder: TempDir::new(),
            limited,
            group,
            swapped_in: swapped_in(),
        }
    }

    fn report_file(&self) -> PathBuf {
        self.folder.path().join("report.json")
    }

    /// The command, on this side.
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

    /// What the run that took so long came to; everything of it has ended.
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
            // A pipe ends well without one of its programs: what was killed has not done its work.
            measured.seconds = seconds.filter(|_| measured.kills == 0);
        }
        if let Side::Pagetide(_) = self.side {
            let report = self.report();
            let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
            // The kernel's own figure of the group, as on its side.
            measured.peak = report["charged_peak_bytes"].as_u64().unwrap_or(0);
            // As on the kernel's side: a pipe ends well without one of its programs.
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

    fn report(&self) -> Value {
        let read = || {
            let text = std::fs::read_to_string(self.report_file()).ok()?;
            serde_json::from_str(&text).ok()
        };
        wait::poll(REPORT, read).expect("pagetide writes its report")
    }

    /// Of what our books say is out, and of what our report says is in swap, how much the kernel says is, while nothing
    /// runs; none if it is too little to tell. The manager must look each second at least. (The story: of PostgreSQL 37%
    /// were out by VmSwap, which leaves its shared buffers out.)
    #[must_use]
    pub fn ledger(&self, tree: &[u32]) -> Option<Ledger> {
        let program = |pid: &&u32| proc::comm(**pid).is_some_and(|comm| comm != "pagetide");
        let tree: Vec<u32> = tree.iter().filter(program).copied().collect();
        let first = *tree.first()?;
        tree.iter().for_each(|pid| send(*pid, Signal::STOP));
        std::thread::sleep(Duration::from_millis(2500));
        let report = pagetide::try_report(first);
        let stat = pagetide::stat(first);
        // VmSwap has no shared memory, and smaps tells it of each that maps it: the largest has all.
        let own = |pid: &u32| proc::number(*pid, "VmSwap").unwrap_or(0);
        let shared = |pid: &u32| rollup(&[*pid], "Swap").saturating_sub(own(pid));
        let swapped =
            tree.iter().map(own).sum::<u64>() + tree.iter().map(shared).max().unwrap_or(0);
        tree.iter().for_each(|pid| send(*pid, Signal::CONT));
        let (report, stat) = (report?, stat?);
        let said = report["swapped_bytes"].as_u64()?;
        let number = |name: &str| stat[name].as_u64().unwrap_or(0);
        // What was given up while it was out is in the difference of the counters, as it is in the kernel's.
        let (out, back) = (number("pswpout"), number("pswpin"));
        let booked = number("swapped_known");
        eprintln!(
            "  ledger: swapped_bytes {} MiB, known {} MiB, pswpout - pswpin {} MiB, by the kernel {} MiB",
            said >> 20,
            booked >> 20,
            out.saturating_sub(back) >> 8,
            swapped >> 20
        );
        #[expect(clippy::cast_precision_loss, reason = "a share")]
        let share = |of: u64| 100.0 * swapped as f64 / of as f64;
        (booked.min(said) > LEAST_OUT).then(|| Ledger {
            booked: share(booked),
            reported: share(said),
        })
    }
}
