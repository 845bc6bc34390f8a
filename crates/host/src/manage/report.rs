//! Reports of a manager: the report of its watch, with what the manager did, and counters under the
//! kernel's names.

use std::time::Duration;

use engine::memory_stat::LruSize;
use engine::{FolioType, Limit, Millis};

use super::Manager;
use super::ordered::RunningOrder;
use super::policy_runner::PolicyRunner;
use super::reclaim_totals::ReclaimTotals;
use crate::ages::Space;
use crate::hard_limit::HardLimit;
use crate::report::{Curve, KeptPages, Report};
use crate::system::cgroup::Version;
use crate::watch::WatchError;

/// Usage above a limit is reported if it is more than `limit / EXCESS_PART` above. Between two
/// measurements, a smaller excess is normal.
const EXCESS_PART: u64 = 64;

impl Manager {
    /// Returns a report of the time since the manager started.
    pub fn report(&mut self) -> Report {
        let mut report = self.driver.watch.report();
        report.limits = self.settings.limits.into();
        report.policy = self.policy_runner.as_ref().map(PolicyRunner::report);
        let writeback = self.writeback.as_ref();
        report.write_back = writeback.map(|(writeback, age)| writeback.report(Some(*age)));
        report.actions = self.said.report();
        // An order in progress counts with its results so far; it is listed when it is complete.
        let under_way = self.ordered.as_ref().map(RunningOrder::totals);
        let of = |what: fn(&ReclaimTotals) -> u64| under_way.map_or(0, what);
        report.evicted_pages = self.sums.evicted + of(|totals| totals.evicted);
        report.refaulted_pages = self.sums.noticed.came_back;
        report.left_by_kernel_pages = self.sums.noticed.left + of(|totals| totals.left);
        let kept = self.sums.kept;
        report.kept_pages = KeptPages {
            shared: kept.shared,
            locked: kept.locked,
            lazyfree: kept.lazyfree,
            referenced: kept.referenced,
            busy: kept.busy,
        };
        let took = under_way.map_or(Duration::ZERO, |totals| totals.took);
        report.overhead.page_out_ms = Millis::from(self.sums.took + took).0;
        report.notes.extend(self.excess());
        if let Some(recorder) = self.driver.recorder() {
            let recording = recorder.report();
            let stopped = recording.stopped.as_ref();
            let note = stopped.map(|why| format!("the recording ends before the program: {why}"));
            report.notes.extend(note);
            report.recording = Some(recording);
        }
        if let Some(hard_limit) = &self.hard_limit {
            report.charged_bytes = hard_limit.charged().ok();
            if let Ok(peak) = hard_limit.peak() {
                report.charged_peak_bytes = Some(peak);
                report.resident_peak_bytes = peak.max(report.resident_bytes);
            }
            report.notes.extend(self.outside.note());
            let kills = hard_limit.oom_kills().unwrap_or(0);
            if kills > 0 {
                // After a kill by the host, or at a limit above, our limit may not have been met.
                let is_met = hard_limit.limit_hits().map_or(true, |hits| hits > 0);
                let why = match self.settings.limits.max {
                    Limit::Bytes(_) if is_met && self.settings.limits.swap_max != Limit::Max => {
                        "no more memory could be reclaimed (raise --memory-max or --swap-max)"
                    }
                    Limit::Bytes(_) if is_met => {
                        "no more memory could be reclaimed (raise --memory-max, or add swap: `pagetide swap on`)"
                    }
                    _ => "the host, or a group above it, was out of memory",
                };
                report.notes.push(format!(
                    "processes in the control group of the limits that the kernel killed for lack of memory: {kills}; {why}"
                ));
            }
        }
        report
    }

    /// Returns a note if usage is above a limit that the kernel does not enforce, `None` otherwise.
    /// Without the note, a report would show a size above its limit, and no reason for it.
    fn excess(&self) -> Option<String> {
        if self.settings.dry_run {
            return None;
        }
        let hard_limit = self.hard_limit.as_ref().map(HardLimit::version);
        let hard_limit = hard_limit.filter(|_| self.due.stands() && self.outside.is_empty());
        let limits = &self.settings.limits;
        let has_high = hard_limit == Some(Version::V2);
        let held = [
            ("--memory-max", limits.max, hard_limit.is_some()),
            ("--memory-high", limits.high, has_high),
        ];
        let usage = self.usage();
        let mut above = held.into_iter().filter_map(|(name, limit, is_held)| {
            let limit = matches!(limit, Limit::Bytes(_)).then(|| limit.pages())?;
            let excess = usage.less(limit);
            (!is_held && excess.0 > limit.0 / EXCESS_PART).then_some((name, excess))
        });
        let (name, excess) = above.next()?;
        Some(format!(
            "{} more than {name} allows: no control group enforces this limit, only pagetide \
             does, and memory that is in use or has no free swap stays",
            excess.bytes()
        ))
    }

    /// Whether another pagetide clears accessed bits of a process of this target, as of the last
    /// scan. The ages of such a process are unknown here.
    #[must_use]
    pub fn is_contested(&self) -> bool {
        let watch = &self.driver.watch;
        let mut spaces = watch
            .members()
            .iter()
            .filter_map(|one| watch.ages().space(*one));
        spaces.any(Space::is_contested)
    }

    /// Returns the curve of what less memory would cost; `None` if the scans so far do not show it.
    #[must_use]
    pub fn curve(&self) -> Option<Curve> {
        self.driver.watch.curve()
    }

    /// Returns counters with their names in cgroup v2's memory.stat, as of now, and some of our
    /// own. Scans first if that is cheap: counters of the last scan could be ten seconds old, and
    /// are 0 for a program that has just begun.
    ///
    /// # Errors
    /// The target cannot be read any more.
    pub fn stat(&mut self) -> Result<Vec<(&'static str, u64)>, WatchError> {
        // If the engine knows no page yet, scans are made even if they are expensive. Otherwise a
        // program that has just grown would show nothing.
        if self.driver.machine.lruvec(self.memcg).resident() == engine::Pages(0) {
            self.scan_without_generation()?;
        } else {
            self.scan_if_worth_it()?;
        }
        // The engine's counters may be up to two seconds old, so they are flushed.
        self.driver.machine.flush_stats();
        let counted = self.driver.machine.memory_stat(self.memcg);
        let mut stat = Vec::new();
        let usage = self.usage();
        stat.push(("current", usage.bytes().0));
        stat.extend(counted.lines());
        if self.hard_limit.is_some() {
            self.add_what_the_kernel_took(&mut stat);
        }
        // Scans do not see unmapped page cache: the counter `file` is of mapped pages only.
        let file = engine::Pages(counted.size(LruSize::File));
        stat.push(("file_mapped", file.bytes().0));
        stat.push(("swapped", self.driver.watch.swapped_pages().bytes().0));
        let known = self.driver.machine.lruvec(self.memcg).out(FolioType::Anon);
        stat.push(("swapped_known", known.bytes().0));
        Ok(stat)
    }

    /// Adds to the counters what kernel reclaim took at the hard limit. Two kinds of pages are
    /// missing in the engine's counters:
    ///
    /// - Pages faulted in and reclaimed between two scans: the engine never knew them.
    /// - Other pages: the engine knows that they are swapped out, but not that they were reclaimed.
    ///
    /// All of them are counted as taken by direct reclaim of the process that met the limit.
    fn add_what_the_kernel_took(&mut self, stat: &mut [(&'static str, u64)]) {
        let of = |name| {
            let line = stat.iter().find(|(found, _)| *found == name);
            line.map_or(0, |(_, count)| *count)
        };
        let unseen = &mut self.unseen;
        let all = of("pswpout") + unseen.left;
        // Counters never fall: a page swapped in since was still reclaimed before.
        unseen.taken = all.saturating_sub(of("pgsteal_anon")).max(unseen.taken);
        for (name, count) in stat {
            *count += match *name {
                "pswpout" => unseen.left,
                "pswpin" => unseen.came_back,
                "pgsteal" | "pgsteal_anon" | "pgsteal_direct" => unseen.taken,
                _ => 0,
            };
        }
    }
}
