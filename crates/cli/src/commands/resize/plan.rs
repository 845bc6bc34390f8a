//! What `resize` decides: how much must leave, and whether the limit may stay.
//!
//! Invariant: pure. The budget is of the whole watch: a limit goes back as soon as that much was waited, and not before.

use std::time::Duration;

use daemon::options::{Bytes, Millis};
use host::report::Price;
use host::system::pressure::Pressure;
use host::workload::Workload;

use crate::failure::Failure;

pub(super) use super::limit::text as limit_text;

/// Of a limit this part stays free as it is set, and at least [`MARGIN`]: processors charge memory ahead.
const MARGIN_PART: u64 = 32;
/// See [`MARGIN_PART`], bytes.
const MARGIN: u64 = 1 << 20;

/// So many bytes must leave before a limit of this size is set; none where it fits.
pub(super) fn excess(charged: u64, size: u64) -> Option<u64> {
    let margin = (size / MARGIN_PART).max(MARGIN).min(size / 2);
    let over = charged.saturating_sub(size - margin);
    (over > 0).then_some(over)
}

/// Where a waiting time is from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    Pressure,
    Refaults,
}

/// What a group has waited for memory, and its processes that were killed for it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Counters {
    waited_us: f64,
    kills: u64,
    source: Source,
}

/// Whether a limit may stay.
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
    /// By the kernel's measure of pressure where it has one of the group, else by refaults and what one costs.
    pub(super) fn of(
        pressure: Option<Pressure>,
        stat: &str,
        events: &str,
        price: &Price,
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
        // Version 1 has those of the group alone, and `total_` of all below it, too.
        let of = |name: &str| line(stat, &format!("total_{name}")).or_else(|| line(stat, name));
        let refaults = of("workingset_refault_anon").zip(of("workingset_refault_file"));
        let waited_us = match refaults {
            Some((anon, file)) => number(anon) * price.anon_us + number(file) * price.file_us,
            None => number(of("pgmajfault").unwrap_or(0)) * price.anon_us,
        };
        Counters {
            waited_us,
            kills,
            source: Source::Refaults,
        }
    }

    /// What was added since.
    pub(super) fn since(self, before: Counters) -> Counters {
        Counters {
            waited_us: (self.waited_us - before.waited_us).max(0.0),
            kills: self.kills.saturating_sub(before.kills),
            ..self
        }
    }

    /// Whether so much may be waited in a watch of this time, at a cost of so many percent.
    pub(super) fn verdict(self, percent: f64, watch: Duration) -> Verdict {
        if self.kills > 0 {
            return Verdict::Killed;
        }
        match self.waited_us > watch.as_secs_f64() * 1e6 * percent / 100.0 {
            true => Verdict::TooDear,
            false => Verdict::Fine,
        }
    }

    /// Percent of this time.
    pub(super) fn percent(self, time: Duration) -> f64 {
        self.waited_us / 1e4 / time.as_secs_f64().max(1e-3)
    }

    /// The time that was waited.
    pub(super) fn waited(self) -> Millis {
        Millis::from(Duration::from_secs_f64(self.waited_us / 1e6))
    }

    /// How that is known, in words.
    pub(super) const fn source(self) -> &'static str {
        match self.source {
            Source::Pressure => "the kernel's memory pressure of the group",
            Source::Refaults => "pages that came back, at what one costs here",
        }
    }
}

/// `name value` of a file of a group.
fn line(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        line.strip_prefix(name)?
            .strip_prefix(' ')?
            .trim()
            .parse()
            .ok()
    })
}

/// The command that resizes a container of a pod: the kubelet would set back what others set.
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
    fn what_does_not_fit_must_leave() {
        assert_eq!(excess(100 * MIB, 64 * MIB), Some(38 * MIB));
        assert_eq!(excess(62 * MIB, 64 * MIB), None);
        // Of the smallest sizes a half stays usable.
        assert_eq!(excess(MIB, MIB), Some(MIB / 2));
        assert_eq!(excess(5, 0), Some(5));
    }

    #[test]
    fn the_budget_of_the_whole_watch_may_be_waited() {
        let price = Price {
            anon_us: 10.0,
            file_us: 100.0,
            ..Price::default()
        };
        let stat = |anon, file| {
            format!(
                "pgmajfault 7\nworkingset_refault_anon 0\nworkingset_refault_file 0\n\
                     total_workingset_refault_anon {anon}\ntotal_workingset_refault_file {file}\n"
            )
        };
        let at = |anon, file, kills| {
            Counters::of(
                None,
                &stat(anon, file),
                &format!("under_oom 0\noom_kill {kills}\n"),
                &price,
            )
        };
        let before = at(1_000, 50, 2);
        let watch = Duration::from_secs(100);
        // 0.1% of 100 s are 100 ms: 10,000 pages of 10 us.
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
        let few = Counters::of(None, "total_pgmajfault 5\n", "", &price);
        assert!((few.waited_us - 50.0).abs() < 1e-9);
        let mut pressure = Pressure::default();
        pressure.some.total_us = 77;
        let by_kernel = Counters::of(Some(pressure), &stat(9, 9), "", &price);
        assert!((by_kernel.waited_us - 77.0).abs() < 1e-9);
    }

    #[test]
    fn a_pod_is_resized_by_kubernetes() {
        let mut workload = Workload::of(std::path::Path::new("/a"));
        assert!(kubectl(&workload, Bytes(MIB)).is_err());
        workload.namespace = Some("prod".to_owned());
        workload.pod = Some("web-1".to_owned());
        workload.container = Some("app".to_owned());
        let told = kubectl(&workload, Bytes(64 * MIB)).expect("all names are known");
        let want = "kubectl patch pod web-1 --namespace prod --subresource resize --patch \
            '{\"spec\":{\"containers\":[{\"name\":\"app\",\"resources\":{\"limits\":{\"memory\":\"67108864\"}}}]}}'";
        assert_eq!(told, want);
        // Nothing that a shell would take for more than a name.
        workload.pod = Some("web'; rm".to_owned());
        assert!(kubectl(&workload, Bytes(MIB)).is_err());
    }
}
