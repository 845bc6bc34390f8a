//! The decisions of `resize`: how much must be paged out, and whether the limit may stay.
//!
//! Invariant: pure. The budget is for the whole watch: the limit is restored as soon as the group
//! has waited for that long, and not before.

use std::time::Duration;

use daemon::options::{Bytes, Millis};
use host::report::Price;
use host::system::pressure::Pressure;
use host::workload::Workload;

use crate::failure::Failure;

pub(super) use super::limit::text as limit_text;

/// When a limit of `size` bytes is set, `min(max(size / MARGIN_PART, MARGIN), size / 2)` bytes
/// below it are kept free, because each processor charges memory in advance.
const MARGIN_PART: u64 = 32;
/// Smallest margin below a limit, in bytes ([`MARGIN_PART`]).
const MARGIN: u64 = 1 << 20;

/// Returns how many bytes must be paged out before a limit of this size is set; `None` if all fits.
pub(super) fn excess(charged: u64, size: u64) -> Option<u64> {
    let margin = (size / MARGIN_PART).max(MARGIN).min(size / 2);
    let over = charged.saturating_sub(size - margin);
    (over > 0).then_some(over)
}

/// How much of the memory to page out needs swap. All sizes are bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SwapDemand {
    /// Memory that must be paged out.
    pub(super) over: u64,
    /// Free swap that the group may use.
    pub(super) free: u64,
    /// Upper bound of the group's file pages: only these can be paged out without swap.
    pub(super) files: u64,
}

impl SwapDemand {
    /// Returns the least memory that must go to swap, if all file pages are paged out first.
    pub(super) fn at_least(self) -> u64 {
        self.over.saturating_sub(self.files)
    }

    /// Returns, in words, how much swap is free; `None` if swap is certainly too small.
    pub(super) fn words(self) -> Option<String> {
        let free = Bytes(self.free);
        if self.at_least() > self.free {
            return None;
        }
        Some(match self.over.checked_sub(self.free) {
            None | Some(0) => format!("{free} of swap is free, which is enough"),
            Some(rest) => format!(
                "{free} of swap is free, which may not be enough: {} of it must be pages of files",
                Bytes(rest)
            ),
        })
    }
}

/// How a waiting time was measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    Pressure,
    Refaults,
}

/// How long a group has waited for memory, and how many of its processes were killed for lack of
/// memory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Counters {
    waited_us: f64,
    kills: u64,
    source: Source,
}

/// Whether the new limit may stay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Fine,
    TooDear,
    Killed,
}

#[expect(clippy::cast_precision_loss, reason = "counts and times below 2^53")]
const fn number(n: u64) -> f64 {
    n as f64
}

impl Counters {
    /// Returns how long the group waited: by the kernel's pressure, if the kernel measures it for
    /// the group; otherwise by its refaults and the price of each. One fault of a file reads up to
    /// `read_around` pages.
    pub(super) fn of(
        pressure: Option<Pressure>,
        stat: &str,
        events: &str,
        (price, read_around): (&Price, u64),
    ) -> Counters {
        let kills = line(events, "oom_kill").unwrap_or(0);
        if let Some(pressure) = pressure {
            let waited_us = number(pressure.some.total_us);
            return Counters {
                waited_us,
                kills,
                source: Source::Pressure,
            };
        }
        // Version 1 has counters of the group alone, and `total_` counters that include all groups
        // below it.
        let counter =
            |name: &str| line(stat, &format!("total_{name}")).or_else(|| line(stat, name));
        let refaults = counter("workingset_refault_anon").zip(counter("workingset_refault_file"));
        let waited_us = match refaults {
            Some((anon, file)) => {
                // A fault also reads neighbouring pages, and all of them count as refaults. The
                // other refaulted pages were read with read(2).
                let faults = counter("pgmajfault").map_or(0, |all| all.saturating_sub(anon));
                let read = file.saturating_sub(faults.saturating_mul(read_around));
                let waits = faults.min(file) + read;
                number(anon) * price.anon_us + number(waits) * price.file_us
            }
            None => number(counter("pgmajfault").unwrap_or(0)) * price.anon_us,
        };
        Counters {
            waited_us,
            kills,
            source: Source::Refaults,
        }
    }

    /// Returns what was counted since `before`.
    pub(super) fn since(self, before: Counters) -> Counters {
        Counters {
            waited_us: (self.waited_us - before.waited_us).max(0.0),
            kills: self.kills.saturating_sub(before.kills),
            ..self
        }
    }

    /// Decides whether the waiting time is within `percent` of the time `watch`, and no process was
    /// killed.
    pub(super) fn verdict(self, percent: f64, watch: Duration) -> Verdict {
        if self.kills > 0 {
            return Verdict::Killed;
        }
        match self.waited_us > watch.as_secs_f64() * 1e6 * percent / 100.0 {
            true => Verdict::TooDear,
            false => Verdict::Fine,
        }
    }

    /// Returns the waiting time in percent of this time.
    pub(super) fn percent(self, time: Duration) -> f64 {
        self.waited_us / 1e4 / time.as_secs_f64().max(1e-3)
    }

    /// Returns for how long the group waited.
    pub(super) fn waited(self) -> Millis {
        Millis::from(Duration::from_secs_f64(self.waited_us / 1e6))
    }

    /// Returns how the waiting time was measured, in words.
    pub(super) const fn source(self) -> &'static str {
        match self.source {
            Source::Pressure => "the kernel's memory pressure of the group",
            Source::Refaults => "pages that came back, at what one costs here",
        }
    }
}

/// Finds the line `name value` in a file of a group.
fn line(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        line.strip_prefix(name)?
            .strip_prefix(' ')?
            .trim()
            .parse()
            .ok()
    })
}

/// Returns the command that resizes a container of a pod. (The kubelet would undo any other
/// change.)
pub(super) fn kubectl(workload: &Workload, size: Bytes) -> Result<String, Failure> {
    let is_plain = |name: &&String| {
        !name.is_empty()
            && name
                .chars()
                .all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || "-.".contains(one))
    };
    let name = |of: &Option<String>| of.as_ref().filter(is_plain).cloned();
    let parts = (
        name(&workload.namespace),
        name(&workload.pod),
        name(&workload.container),
    );
    let (Some(namespace), Some(pod), Some(container)) = parts else {
        return Err(Failure::new(
            format!(
                "cannot tell which container of which pod {} is",
                workload.group
            ),
            "give a container of the pod, by the name that `pagetide recommend --by container` shows",
        ));
    };
    let patch = serde_json::json!({
        "spec": {"containers": [{"name": container, "resources": {"limits": {"memory": size.0.to_string()}}}]}
    });
    Ok(format!(
        "kubectl patch pod {pod} --namespace {namespace} --subresource resize --patch '{patch}'"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn swap_that_is_too_small_is_known_before() {
        let room = |free: u64, files: u64| SwapDemand {
            over: 100 << 20,
            free: free << 20,
            files: files << 20,
        };
        let words = |free, files| room(free, files).words();
        let enough = words(100, 0).expect("all of it fits");
        assert_eq!(enough, "100 MiB of swap is free, which is enough");
        let may_be = words(60, 40).expect("pages of files can leave");
        assert!(
            may_be.ends_with("40 MiB of it must be pages of files"),
            "{may_be}"
        );
        assert_eq!((words(60, 39), words(0, 0)), (None, None));
        assert_eq!(room(60, 39).at_least(), 61 << 20);
        assert!(words(0, 200).is_some(), "no page needs swap");
    }

    #[test]
    fn the_excess_is_what_does_not_fit() {
        assert_eq!(excess(100 * MIB, 64 * MIB), Some(38 * MIB));
        assert_eq!(excess(62 * MIB, 64 * MIB), None);
        // Of the smallest sizes, half remains usable.
        assert_eq!(excess(MIB, MIB), Some(MIB / 2));
        assert_eq!(excess(5, 0), Some(5));
    }

    #[test]
    fn the_budget_is_for_the_whole_watch() {
        let price = Price {
            anon_us: 10.0,
            file_us: 100.0,
            ..Price::default()
        };
        let stat = |anon, file| {
            format!(
                "workingset_refault_anon 0\nworkingset_refault_file 0\n\
                     total_workingset_refault_anon {anon}\ntotal_workingset_refault_file {file}\n"
            )
        };
        let at = |anon, file, kills| {
            Counters::of(
                None,
                &stat(anon, file),
                &format!("under_oom 0\noom_kill {kills}\n"),
                (&price, 32),
            )
        };
        let before = at(1_000, 50, 2);
        let watch = Duration::from_secs(100);
        // 0.1% of 100 s is 100 ms: 10,000 pages of 10 us each.
        for (now, want) in [
            (at(11_000, 50, 2), Verdict::Fine),
            (at(11_001, 50, 2), Verdict::TooDear),
            (at(1_000, 1_051, 2), Verdict::TooDear),
            (at(1_000, 50, 3), Verdict::Killed),
        ] {
            assert_eq!(now.since(before).verdict(0.1, watch), want, "{now:?}");
        }
        let spent = at(11_000, 50, 2).since(before);
        assert!((spent.percent(watch) - 0.1).abs() < 1e-9);
        assert_eq!(spent.waited(), Millis(100));
        let few = Counters::of(None, "total_pgmajfault 5\n", "", (&price, 32));
        assert!((few.waited_us - 50.0).abs() < 1e-9);
        let mut pressure = Pressure::default();
        pressure.some.total_us = 77;
        let by_kernel = Counters::of(Some(pressure), &stat(9, 9), "", (&price, 32));
        assert!((by_kernel.waited_us - 77.0).abs() < 1e-9);
    }

    /// Regression: the limit of a program with a mapped database was restored after 6 s, for 343 ms
    /// of waiting. In truth 11 faults had read 11,000 pages, each of which was counted as a fault.
    #[test]
    fn pages_that_were_read_ahead_cost_nothing() {
        let price = Price {
            anon_us: 10.0,
            file_us: 100.0,
            ..Price::default()
        };
        let of = |anon, file, major| {
            let stat = format!(
                "total_workingset_refault_anon {anon}\ntotal_workingset_refault_file {file}\ntotal_pgmajfault {major}\n"
            );
            Counters::of(None, &stat, "", (&price, 1000)).waited_us
        };
        let is = |waited: f64, us: f64| assert!((waited - us).abs() < 1e-6, "{waited}, not {us}");
        is(of(0, 11_000, 11), 1_100.0);
        // Faults that read swap do not count as faults of file pages.
        is(of(50, 0, 50), 500.0);
        is(of(50, 2_000, 52), 700.0);
        // Pages read without a fault were read with read(2), page by page as far as is known.
        is(of(0, 300, 0), 30_000.0);
        is(of(0, 1_300, 1), 30_100.0);
        // Faults of pages that were not in memory before are no refaults.
        is(of(0, 0, 40), 0.0);
    }

    #[test]
    fn a_pod_is_resized_by_kubernetes() {
        let mut workload = Workload::of(std::path::Path::new("/a"));
        assert!(kubectl(&workload, Bytes(MIB)).is_err());
        workload.namespace = Some("prod".to_owned());
        workload.pod = Some("web-1".to_owned());
        workload.container = Some("app".to_owned());
        let reported = kubectl(&workload, Bytes(64 * MIB)).expect("all names are known");
        let want = "kubectl patch pod web-1 --namespace prod --subresource resize --patch \
            '{\"spec\":{\"containers\":[{\"name\":\"app\",\"resources\":{\"limits\":{\"memory\":\"67108864\"}}}]}}'";
        assert_eq!(reported, want);
        // The shell must not get anything but a plain name.
        workload.pod = Some("web'; rm".to_owned());
        assert!(kubectl(&workload, Bytes(MIB)).is_err());
    }
}
