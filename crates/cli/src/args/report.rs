//! Arguments of `report`, and the plan that they make: what to watch, how often, and for how long.
//!
//! Invariant: a plan has no contradictions. It has exactly one target, at least one scan after the
//! first, and scans so rare that they hardly slow the processes.

use std::path::PathBuf;
use std::time::Duration;

use daemon::options::{Millis, UnitError, millis};
use host::report::{AgeSource, Budget, COST_PERCENT};

use crate::failure::Failure;
use crate::watching::{Target, TenantName, WatchRequest};

use super::manage::{ProcessOrTenant, Tree, parse_process_or_tenant};

/// How long to watch if the user sets no time.
const DEFAULT_TIME: Millis = Millis(10_000);
/// Longest time for which `--for auto` watches.
const AUTO_TIME_MAX: Millis = Millis(900_000);
/// Minimum number of scans if the user sets no time.
const SCANS_MIN: u64 = 3;
/// Minimum time between two scans, because after each scan the processes have more TLB misses.
const INTERVAL_MIN: Millis = Millis(100);
/// Approximate number of scans into which a long time of watching is divided, if the user sets no
/// interval.
const SCANS_TYPICAL: u64 = 120;
/// Maximum time between two scans, in milliseconds, that the command chooses itself: with a longer
/// one it could not recognize an age of 10 s.
const INTERVAL_MAX: u64 = 10_000;

/// What to report on, for how long, and how it is shown.
#[derive(clap::Args, Debug, Clone)]
#[command(group = clap::ArgGroup::new("target").multiple(false))]
pub(crate) struct Report {
    /// This process and all of its descendants, or this tenant of `pagetide serve`
    #[arg(value_name = "PID|/TENANT", value_parser = parse_process_or_tenant, allow_negative_numbers = true)]
    #[arg(group = "target")]
    pub(crate) process: Option<ProcessOrTenant>,
    /// The processes of this control group and of those below it
    #[arg(long, value_name = "PATH", group = "target")]
    pub(crate) cgroup: Option<PathBuf>,
    /// All processes of the host
    #[arg(long, group = "target")]
    pub(crate) all: bool,
    /// Watch for this time [default: 10s, or three scans if that is longer; with --watch: until ^C]
    ///
    /// If a manager watches the target already, the report is the manager's. Without a time, the
    /// manager reports at once everything that it has seen so far; with a time, as soon as it has
    /// watched for that long. `auto` ends as soon as the needed size has high confidence, after 15
    /// minutes at the latest.
    #[arg(long = "for", value_name = "TIME|auto", value_parser = watch_time, allow_negative_numbers = true)]
    pub(crate) time: Option<WatchTime>,
    /// Print a report after each scan, or each TIME, until ^C
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "1s", value_parser = millis)]
    pub(crate) watch: Option<Millis>,
    /// Time between two scans [default: 1s, or the TIME of --watch, or up to 10s with a long --for]
    #[arg(long, value_name = "TIME", value_parser = millis, allow_negative_numbers = true)]
    pub(crate) age_every: Option<Millis>,
    /// How long a scan may make a program wait [default: 5ms, or 1/500 of the time between two
    /// scans]
    ///
    /// To see which pages are used, a scan clears the accessed bits that the processor sets in the
    /// program's page tables. During that time the program waits if it needs a new page. If
    /// clearing would take longer than this (for a very large program), the bits are not cleared,
    /// nothing waits, and those ages are reported as unknown. A program that took no page fault
    /// since the last scan needs no new pages: it does not wait, and clearing may take up to 1/50
    /// of the time between two scans.
    #[arg(long, value_name = "TIME", value_parser = millis, allow_negative_numbers = true)]
    pub(crate) max_wait: Option<Millis>,
    /// The source of page ages [default: the best that works here]
    #[arg(long, value_name = "SOURCE", value_enum)]
    pub(crate) source: Option<Source>,
    /// Print JSON; with --watch one object a line
    #[arg(long)]
    pub(crate) json: bool,
    /// Print comma-separated values: a line of names, then one line for each report
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
    /// What less memory would cost: how many pages would refault in a minute, by memory size, and
    /// which size to choose
    #[arg(long, conflicts_with = "csv")]
    pub(crate) curve: bool,
    /// How much of its time the program may wait for refaults at the size that the report calls
    /// needed [default: 0.1%]
    #[arg(long, value_name = "PERCENT", value_parser = cost, conflicts_with = "refaults", allow_negative_numbers = true)]
    pub(crate) cost: Option<f64>,
    /// Instead of --cost: how much of the working set may refault in a minute (the far-memory rule
    /// is 0.2%; 60 pages are always allowed)
    #[arg(long, value_name = "PERCENT", value_parser = percent, allow_negative_numbers = true)]
    pub(crate) refaults: Option<f64>,
    /// Also report in how short a time this share of the memory was accessed, e.g. 80%: older
    /// memory may be moved to a slower node
    ///
    /// The result is the smallest edge of the report's bins that suffices, plus the time between
    /// two scans, because an access is dated at the scan that finds it. Memory of unknown age does
    /// not count.
    #[arg(long, value_name = "PERCENT", value_parser = quantile, conflicts_with = "csv", allow_negative_numbers = true)]
    pub(crate) quantile: Option<f64>,
    /// With --quantile: only of the memory of this NUMA node
    #[arg(
        long,
        value_name = "N",
        requires = "quantile",
        allow_negative_numbers = true
    )]
    pub(crate) node: Option<u32>,
    #[command(flatten)]
    pub(crate) tree: Tree,
    /// Also write an HTML page with pictures to this file; the page loads and runs nothing. With
    /// --watch it is kept up to date
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

/// Sources of ages, best first.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// The accessed bits in page tables: an age for each page
    PageTables,
    /// The kernel's idle-page bitmap: an age for each page
    IdleBitmap,
    /// The kernel's sums of referenced memory: one age for each mapping
    Referenced,
    /// Sizes only, without ages
    None,
}

impl From<Source> for AgeSource {
    fn from(source: Source) -> AgeSource {
        match source {
            Source::PageTables => AgeSource::PageTables,
            Source::IdleBitmap => AgeSource::IdleBitmap,
            Source::Referenced => AgeSource::Referenced,
            Source::None => AgeSource::None,
        }
    }
}

/// The format in which reports are written to standard output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Human,
    Json,
    Csv,
}

/// A plan for a command that watches, without contradictions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    pub(crate) settings: WatchRequest,
    /// How long to watch; `None` for until ^C.
    pub(crate) time: Option<Duration>,
    /// Time between two reports; `None` for a single report at the end.
    pub(crate) each: Option<Duration>,
    /// Whether the user set no time, so that what a manager has seen so far is enough.
    pub(crate) any_time: bool,
    /// Whether watching also ends when the needed size has high confidence.
    pub(crate) until_sure: bool,
}

impl Report {
    /// Returns the budget for refaults at the needed size: how many pages may refault, or how long
    /// refaults may take.
    pub(crate) fn budget(&self) -> Budget {
        match (self.refaults, self.cost) {
            (Some(per_mille), _) => Budget::Refaults(per_mille),
            (None, cost) => Budget::Cost(cost.unwrap_or(COST_PERCENT)),
        }
    }

    pub(crate) fn form(&self) -> Form {
        match (self.json, self.csv) {
            (true, _) => Form::Json,
            (_, true) => Form::Csv,
            _ => Form::Human,
        }
    }

    /// Returns the plan, checked for contradictions.
    ///
    /// # Errors
    /// There is no target, or the times contradict each other.
    pub(crate) fn plan(&self) -> Result<Plan, Failure> {
        let target = match (&self.process, &self.cgroup) {
            (Some(ProcessOrTenant::Pid(pid)), _) => Target::Pid(*pid),
            (Some(ProcessOrTenant::Tenant(path)), _) => Target::Tenant(TenantName {
                root: self.tree.root.clone(),
                path: path.clone(),
            }),
            (_, Some(path)) => Target::Cgroup(path.clone()),
            _ if self.all => Target::All,
            _ => {
                return Err(Failure::usage(
                    "cannot tell whose memory to report: no process is given",
                    "give a PID, --cgroup PATH or --all, e.g. \
                     `pagetide report $(pgrep -o redis-server)`",
                ));
            }
        };
        let every = self.age_every.or(self.watch);
        let every = every.unwrap_or_else(|| scan_interval(self.time));
        if let (Target::Tenant(tenant), Some(every), None) = (&target, self.age_every, self.watch) {
            return Err(Failure::usage(
                format!(
                    "cannot scan {} every {every}: `pagetide serve` scans it",
                    tenant.path
                ),
                "omit --age-every; `serve --age-every` sets how often it scans, and --watch=TIME how often this command reports",
            ));
        }
        let mut settings = settings(target, every, self.max_wait)?;
        settings.source = self.source.map(AgeSource::from);
        let own = || Millis(DEFAULT_TIME.0.max(every.0.saturating_mul(SCANS_MIN)));
        let time = match self.time {
            Some(WatchTime::Fixed(time)) => Some(time),
            Some(WatchTime::UntilSure) => Some(AUTO_TIME_MAX),
            None => self.watch.is_none().then(own),
        };
        long_enough(time, every)?;
        Ok(Plan {
            settings,
            time: time.map(duration),
            each: self.watch.map(duration),
            any_time: self.time.is_none() && self.watch.is_none(),
            until_sure: self.time == Some(WatchTime::UntilSure),
        })
    }
}

/// Returns the time between two scans, in whole seconds, for a command line that sets none.
pub(super) fn scan_interval(time: Option<WatchTime>) -> Millis {
    let long = match time {
        Some(WatchTime::Fixed(time)) => time.0 / SCANS_TYPICAL,
        Some(WatchTime::UntilSure) | None => DEFAULT_TIME.0 / SCANS_TYPICAL,
    };
    Millis(long.clamp(1_000, INTERVAL_MAX) / 1_000 * 1_000)
}

/// Returns how to scan.
///
/// # Errors
/// Scans would be so frequent that they cost the programs too much time.
pub(super) fn settings(
    target: Target,
    every: Millis,
    max_wait: Option<Millis>,
) -> Result<WatchRequest, Failure> {
    if every < INTERVAL_MIN {
        return Err(Failure::usage(
            format!("cannot scan every {every}: scans cost the programs time"),
            format!("give {INTERVAL_MIN} or more"),
        ));
    }
    Ok(WatchRequest {
        target,
        age_every: duration(every),
        max_wait: max_wait.map(duration),
        source: None,
        by: None,
    })
}

/// How long to watch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WatchTime {
    Fixed(Millis),
    /// Until the needed size has high confidence.
    UntilSure,
}

pub(super) fn watch_time(text: &str) -> Result<WatchTime, UnitError> {
    match text {
        "auto" => Ok(WatchTime::UntilSure),
        text => millis(text).map(WatchTime::Fixed),
    }
}

/// Parses `0.2%` or `0.2` into tenths of a percent.
fn percent(text: &str) -> Result<f64, UnitError> {
    let hint = "say how much of the working set may come back in a minute: --refaults 0.2%";
    Ok(percentage(text, hint)? * 10.0)
}

/// Parses `0.1%` or `0.1` into percent.
pub(super) fn cost(text: &str) -> Result<f64, UnitError> {
    let hint = "say how much of its time the program may wait: --cost 0.1%";
    percentage(text, hint)
}

/// Parses `80%` or `80` into percent.
fn quantile(text: &str) -> Result<f64, UnitError> {
    percentage(text, "say how much of the memory: --quantile 80%")
}

fn percentage(text: &str, hint: &'static str) -> Result<f64, UnitError> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse();
    let percent = number
        .ok()
        .filter(|percent| (0.001..=100.0).contains(percent));
    percent.ok_or_else(|| UnitError {
        why: format!(
            "`{}` is no percentage from 0.001% to 100%",
            text.escape_debug()
        ),
        hint,
    })
}

/// Checks that there is time for two scans, without which no age is known.
pub(super) fn long_enough(time: Option<Millis>, every: Millis) -> Result<(), Failure> {
    match time {
        Some(time) if time < every => Err(Failure::usage(
            format!("cannot watch for {time} and scan every {every}: an age takes two scans"),
            format!("give --for {every} or more, or scan more often"),
        )),
        _ => Ok(()),
    }
}

pub(super) fn duration(time: Millis) -> Duration {
    Duration::from_millis(time.0)
}
