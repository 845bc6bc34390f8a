//! What a manager tells: the watch's report with what was done, and counters under the kernel's names.

use std::time::Duration;

use engine::memory_stat::LruSize;
use engine::{FolioType, Limit, Millis};

use super::Manager;
use super::minder::Minder;
use super::ordered::Ordered;
use super::tally::Tally;
use crate::ages::Space;
use crate::report::{Curve, KeptPages, LimitsReport, Report};
use crate::system::cgroup::Version;
use crate::wall::Wall;
use crate::watch::WatchError;

/// What is above a limit is told from this part of it on: a little is, between two measurements.
const EXCESS_PART: u64 = 64;

impl Manager {
    /// Everything until now.
    pub fn report(&mut self) -> Report {
        let mut report = self.driver.watch.report();
        let limit = |limit: engine::Limit| match limit {
            engine::Limit::Max => None,
            limit => Some(limit.pages().bytes().0),
        };
        let limits = &self.settings.limits;
        report.limits = LimitsReport {
            min_bytes: limit(limits.min).filter(|bytes| *bytes > 0),
            low_bytes: limit(limits.low).filter(|bytes| *bytes > 0),
            high_bytes: limit(limits.high),
            max_bytes: limit(limits.max),
            swap_max_bytes: limit(limits.swap_max),
        };
        report.policy = self.minder.as_ref().map(Minder::report);
        let demoter = self.demoter.as_ref();
        report.write_back = demoter.map(|(demoter, age)| demoter.report(Some(*age)));
        report.actions = self.said.report();
        // What is under way counts as far as it came, though its order is told when it is done.
        let under_way = self.ordered.as_ref().map(Ordered::tally);
        let of = |what: fn(&Tally) -> u64| under_way.map_or(0, what);
        report.evicted_pages = self.sums.evicted + of(|tally| tally.evicted);
        report.refaulted_pages = self.sums.noticed.came_back;
        report.left_by_kernel_pages = self.sums.noticed.left + of(|tally| tally.left);
        let kept = self.sums.kept;
        report.kept_pages = KeptPages {
            shared: kept.shared,
            locked: kept.locked,
            lazyfree: kept.lazyfree,
            referenced: kept.referenced,
            busy: kept.busy,
        };
        let took = under_way.map_or(Duration::ZERO, |tally| tally.took);
        report.overhead.page_out_ms = Millis::from(self.sums.took + took).0;
        report.notes.extend(self.excess());
        if let Some(recorder) = self.driver.recorder() {
            let recording = recorder.report();
            let stopped = recording.stopped.as_ref();
            let note = stopped.map(|why| format!("the recording ends before the program: {why}"));
            report.notes.extend(note);
            report.recording = Some(recording);
        }
        if let Some(wall) = &self.wall {
            report.charged_bytes = wall.charged().ok();
            if let Ok(peak) = wall.peak() {
                report.charged_peak_bytes = Some(peak);
                report.resident_peak_bytes = peak.max(report.resident_bytes);
            }
            report.notes.extend(self.outside.note());
            let kills = wall.oom_kills().unwrap_or(0);
            if kills > 0 {
                // The host's kill, or one at a limit above, needs none of ours to be met.
                let is_met = wall.limit_hits().map_or(true, |hits| hits > 0);
                let why = match self.settings.limits.max {
                    Limit::Bytes(_) if is_met && self.settings.limits.swap_max != Limit::Max => {
                        "nothing more could leave (raise --memory-max or --swap-max)"
                    }
                    Limit::Bytes(_) if is_met => {
                        "nothing more could leave (raise --memory-max, or make swap: `pagetide swap on`)"
                    }
                    _ => "the host, or a group above it, had no more",
                };
                report.notes.push(format!(
                    "processes of the control group of the limits that the kernel killed for want of memory: {kills}; {why}"
                ));
            }
        }
        report
    }

    /// What is above a limit that the kernel does not hold. (The story: of a program that had three times its limit, all of it in use,
    /// `attach` told the limit and the size, each in its place, and nobody that it did not hold.)
    fn excess(&self) -> Option<String> {
        if self.settings.dry_run {
            return None;
        }
        let wall = self.wall.as_ref().map(Wall::version);
        let wall = wall.filter(|_| self.due.stands() && self.outside.is_empty());
        let limits = &self.settings.limits;
        let has_high = wall == Some(Version::V2);
        let held = [
            ("--memory-max", limits.max, wall.is_some()),
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
            "{} more than {name} allows: no control group holds this limit, so it holds between looks alone, and what is in use, or \
             finds no swap, stays",
            excess.bytes()
        ))
    }

    /// Whether another pagetide clears the accessed bits of any of its processes: of such a one no age is known here. As of the last
    /// look.
    #[must_use]
    pub fn is_contested(&self) -> bool {
        let watch = &self.driver.watch;
        let mut spaces = watch
            .members()
            .iter()
            .filter_map(|one| watch.ages().space(*one));
        spaces.any(Space::is_contested)
    }

    /// What less memory would cost, as far as looks know.
    #[must_use]
    pub fn curve(&self) -> Option<Curve> {
        self.driver.watch.curve()
    }

    /// Counters under the names of cgroup v2's memory.stat, as they are now: of the last look they were ten seconds
    /// old, and of a program that had just begun nothing.
    ///
    /// # Errors
    /// The target cannot be read any more.
    pub fn stat(&mut self) -> Result<Vec<(&'static str, u64)>, WatchError> {
        // Where a look costs much, of a program that has just grown nothing at all was told (6.1 in the guest).
        if self.driver.machine.lruvec(self.memcg).resident() == engine::Pages(0) {
            self.look_without_generation()?;
        } else {
            self.look_if_worth_it()?;
        }
        // A user of one program wants what is, not what was up to two seconds ago.
        self.driver.machine.flush_stats();
        let counted = self.driver.machine.memory_stat(self.memcg);
        let mut stat = Vec::new();
        let usage = self.usage();
        stat.push(("current", usage.bytes().0));
        stat.extend(counted.lines());
        if self.wall.is_some() {
            self.add_what_the_kernel_took(&mut stat);
        }
        // Page cache that nobody maps is not seen: what is told as `file` is mapped.
        let file = engine::Pages(counted.size(LruSize::File));
        stat.push(("file_mapped", file.bytes().0));
        stat.push(("swapped", self.driver.watch.swapped_pages().bytes().0));
        let known = self.driver.machine.lruvec(self.memcg).out(FolioType::Anon);
        stat.push(("swapped_known", known.bytes().0));
        Ok(stat)
    }

    /// At a wall the kernel takes pages by itself: those that came between two looks the engine never knew, and of the others it knows that they are out, not
    /// that somebody has taken them. They left by the direct reclaim of whoever met the wall. (The story: of a program that had filled its memory at once
    /// 6 pages had left, and 12,000 were in swap.)
    fn add_what_the_kernel_took(&mut self, stat: &mut [(&'static str, u64)]) {
        let of = |name| {
            let line = stat.iter().find(|(found, _)| *found == name);
            line.map_or(0, |(_, count)| *count)
        };
        let unseen = &mut self.unseen;
        let all = of("pswpout") + unseen.left;
        // Counters never fall: what has come back since has left all the same.
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
