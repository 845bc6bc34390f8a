//! Arguments of `recommend`.

use daemon::options::{Millis, millis};
use host::report::Budget;

use crate::failure::Failure;
use crate::view::recommend::Format;
use crate::watching::Target;
use crate::workloads::By;

use super::report::{
    Plan, WatchTime, cost, duration, long_enough, scan_interval, settings, watch_time,
};

/// Longest time of watching if the user sets none; watching ends earlier once all numbers have high
/// confidence.
const AUTO_TIME_MAX: Millis = Millis(300_000);

/// For which processes to recommend limits, and the form of the output.
#[derive(clap::Args, Debug, Clone)]
pub(crate) struct Recommend {
    /// A process, a unit, a container, a pod, or a control group [default: all]
    #[arg(value_name = "PID|NAME", conflicts_with = "all")]
    pub(crate) name: Option<String>,
    /// All processes of the host, which is also the default
    #[arg(long)]
    pub(crate) all: bool,
    /// What one row of the table is about
    #[arg(long, value_enum, default_value = "unit")]
    pub(crate) by: By,
    /// Watch for this time [default: auto, which ends as soon as all numbers have high confidence,
    /// after 5 minutes at the latest]
    #[arg(long = "for", value_name = "TIME|auto", value_parser = watch_time, allow_negative_numbers = true)]
    pub(crate) time: Option<WatchTime>,
    /// Time between two scans [default: 1s, up to 10s with a long --for]
    #[arg(long, value_name = "TIME", value_parser = millis, allow_negative_numbers = true)]
    pub(crate) age_every: Option<Millis>,
    /// How much of its time a program may wait for refaults
    #[arg(long, value_name = "PERCENT", value_parser = cost, default_value = "0.1%", allow_negative_numbers = true)]
    pub(crate) cost: f64,
    /// Print a table, or text for a unit, a manifest, a compose file, or a program
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: Format,
    /// Omit rows with less resident memory than this
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = daemon::options::bytes)]
    pub(crate) above: daemon::options::Bytes,
}

impl Recommend {
    /// Returns how much of a program's time refaults may cost.
    pub(crate) fn budget(&self) -> Budget {
        Budget::Cost(self.cost)
    }

    /// Returns which target to watch, and for how long.
    ///
    /// # Errors
    /// The times contradict each other.
    pub(crate) fn plan(&self, target: Target) -> Result<Plan, Failure> {
        let time = match self.time {
            Some(WatchTime::Fixed(time)) => time,
            Some(WatchTime::UntilSure) | None => AUTO_TIME_MAX,
        };
        let every = self.age_every.unwrap_or_else(|| scan_interval(self.time));
        long_enough(Some(time), every)?;
        let mut settings = settings(target, every, None)?;
        settings.by = Some(self.by);
        Ok(Plan {
            settings,
            time: Some(duration(time)),
            each: None,
            any_time: false,
            until_sure: self.time.is_none_or(|time| time == WatchTime::UntilSure),
        })
    }
}
