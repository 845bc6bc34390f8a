//! Memory sizes and counters of a control group (version 1), and the memory target that Kubernetes
//! would compute from them.

use std::path::Path;

use crate::memcg::MemoryGroup;
use crate::proc;

/// Maximum number of pages that the kernel reads when a program faults on a page of a file in
/// `folder` (`read_ahead_kb` of its disk).
///
/// # Panics
/// If there is no such folder.
#[must_use]
pub fn pages_read_per_fault(folder: &Path) -> u64 {
    let device = rustix::fs::stat(folder).expect("a folder").st_dev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let disk = format!("/sys/dev/block/{major}:{minor}");
    let of = |queue: &str| {
        let text = std::fs::read_to_string(format!("{disk}/{queue}/read_ahead_kb")).ok()?;
        text.trim().parse::<u64>().ok()
    };
    // A partition's queue is that of its disk, one level up.
    of("queue").or_else(|| of("../queue")).unwrap_or(128) / 4
}

/// Sizes of a control group at one moment, bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    /// Sum of the resident sizes of its processes.
    pub rss: u64,
    /// Sum of the proportional sizes (PSS) of its processes.
    pub pss: u64,
    /// `memory.usage_in_bytes`.
    pub usage: u64,
    /// `usage - inactive_file`, what the kubelet calls `working_set_bytes`.
    pub working_set: u64,
}

/// Counters of a control group since it was made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Refaults of anonymous pages.
    pub anon: u64,
    /// Refaults of file pages, including pages that the kernel read ahead.
    pub file: u64,
    /// Major page faults.
    pub major: u64,
    /// Number of times that the memory limit was reached.
    pub limit_met: u64,
    /// Number of processes that the OOM killer killed.
    pub killed: u64,
}

impl Sizes {
    /// Reads the present sizes. PSS is costly to read: without `with_pss` it is 0.
    #[must_use]
    pub fn of(group: &MemoryGroup, with_pss: bool) -> Sizes {
        let usage = group.number("memory.usage_in_bytes");
        let inactive = group.line("memory.stat", "total_inactive_file ");
        let (mut rss, mut pss) = (0, 0);
        for pid in group.pids() {
            rss += proc::number(pid, "VmRSS").unwrap_or(0);
            if with_pss {
                pss += proportional(pid).unwrap_or(0);
            }
        }
        Sizes {
            rss,
            pss,
            usage,
            working_set: usage.saturating_sub(inactive),
        }
    }
}

/// Proportional size of a process, bytes.
fn proportional(pid: u32) -> Option<u64> {
    let text = proc::read(pid, "smaps_rollup")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

impl Counters {
    /// Reads the present counters.
    #[must_use]
    pub fn of(group: &MemoryGroup) -> Counters {
        let stat = |name: &str| group.line("memory.stat", name);
        Counters {
            anon: stat("total_workingset_refault_anon "),
            file: stat("total_workingset_refault_file "),
            major: stat("total_pgmajfault "),
            limit_met: group.number("memory.failcnt"),
            killed: group.line("memory.oom_control", "oom_kill "),
        }
    }

    /// Major faults on file pages: `major - anon`.
    #[must_use]
    pub fn of_files(&self) -> u64 {
        self.major.saturating_sub(self.anon)
    }

    /// Lowest number of file refaults that were caused by read(2) or sendfile(2) and not by page
    /// faults: `file - around * major faults on file pages`. Each such fault reads up to `around`
    /// pages.
    #[must_use]
    pub fn read(&self, around: u64) -> u64 {
        self.file.saturating_sub(around * self.of_files())
    }

    /// The difference between these counters and earlier ones.
    #[must_use]
    pub fn since(&self, before: &Counters) -> Counters {
        Counters {
            anon: self.anon - before.anon,
            file: self.file - before.file,
            major: self.major - before.major,
            limit_met: self.limit_met - before.limit_met,
            killed: self.killed - before.killed,
        }
    }
}

/// The memory target, in bytes, of the recommender of Kubernetes' vertical pod autoscaler (VPA),
/// from samples of `working_set_bytes`.
///
/// VPA puts the peak of each interval (24 h by default) into a histogram. Our runs are shorter than
/// an interval, so the histogram has one value. Its buckets begin at 10 MB and grow by 5%. The
/// target is `1.15 * end`, where `end` is the upper end of the 90th percentile's bucket, here the
/// bucket of the peak.
///
/// VPA's minimum of 250 MiB a pod (`pod-recommendation-min-memory-mb`) is omitted. Source:
/// kubernetes/autoscaler, vertical-pod-autoscaler/docs: `target-memory-percentile`,
/// `recommendation-margin-fraction`, `memory-aggregation-interval`.
#[must_use]
pub fn vpa_target(working_sets: &[u64]) -> f64 {
    /// Width of the first bucket, bytes.
    const FIRST: f64 = 1e7;
    /// Factor by which each bucket is wider than the one before.
    const GROWTH: f64 = 1.05;
    let peak = working_sets.iter().copied().max().unwrap_or(0) as f64;
    let (mut end, mut width) = (FIRST, FIRST);
    while end <= peak {
        width *= GROWTH;
        end += width;
    }
    end * 1.15
}
