//! What `report` takes, and the plan that comes out of it: what to watch, how often, how long.
//!
//! Invariant: a plan has no contradictions: exactly one target, at least one look after the first,
//! no look more often than the processes can bear.

use std::path::PathBuf;
use std::time::Duration;

use daemon::options::{Millis, UnitError, millis};
use host::report::{AgeSource, Budget, COST_PERCENT};

use crate::failure::Failure;
use crate::watching::{Settings, Target, TenantName};

use super::manage::{Tree, Who, who};

/// How long to watch unless told.
const FOR: Millis = Millis(10_000);
/// The longest that `--for auto` watches.
const SURE: Millis = Millis(900_000);
/// Looks that are wanted at least, where the time of watching is ours to choose.
const LOOKS: u64 = 3;
/// No two looks are closer: each costs the processes a miss of their translations.
const CLOSEST: Millis = Millis(100);
/// A long time of watching is divided into about so many looks.
const MANY: u64 = 120;
/// Most milliseconds between two looks, however long is watched, or cold memory could not be told by 10 s.
const RAREST: u64 = 10_000;

/// Whose memory, for how long, and how it is shown.
#[derive(clap::Args, Debug, Clone)]
#[command(group = clap::ArgGroup::new("target").multiple(false))]
pub(crate) struct Report {
    /// This process and all of its descendants, or this tenant of `pagetide serve`
    #[arg(value_name = "PID|/TENANT", value_parser = who, allow_negative_numbers = true)]
    #[arg(group = "target")]
    pub(crate) who: Option<Who>,
    /// The processes of this control group and of those below it
    #[arg(long, value_name = "PATH", group = "target")]
    pub(crate) cgroup: Option<PathBuf>,
    /// All processes of the host
    #[arg(long, group = "target")]
    pub(crate) all: bool,
    /// Watch so long [default: 10s, or three looks if that is longer; with --watch: until ^C]
    ///
    /// What is managed is asked of its manager: what that has seen until now is the report, at once; with a time, as soon as
    /// it has watched for so long. `auto` ends as soon as the number that is needed has high confidence, after 15 minutes at the latest.
    #[arg(long = "for", value_name = "TIME|auto", value_parser = watch_time, allow_negative_numbers = true)]
    pub(crate) time: Option<WatchTime>,
    /// A report after each look, or each TIME, until ^C
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "1s", value_parser = millis)]
    pub(crate) watch: Option<Millis>,
    /// Time between two looks [default: 1s, or the TIME of --watch, or up to 10s with a long --for]
    #[arg(long, value_name = "TIME", value_parser = millis, allow_negative_numbers = true)]
    pub(crate) age_every: Option<Millis>,
    /// How long a look may make a program wait [default: 5ms, or 1/500 of the time between two looks]
    ///
    /// To see which pages are used, a look clears the marks that the processor leaves in the
    /// program's page tables. While that runs, the program waits if it needs a new page. Where it
    /// would take longer than this (a very large program), the marks stay, nothing waits, and those
    /// ages are reported as unknown. A program that took no page fault since the last look needs no
    /// new pages: it does not wait, and may be looked at for up to 1/50 of the time between two looks.
    #[arg(long, value_name = "TIME", value_parser = millis, allow_negative_numbers = true)]
    pub(crate) max_wait: Option<Millis>,
    /// Where ages come from [default: the best that works here]
    #[arg(long, value_name = "SOURCE", value_enum)]
    pub(crate) source: Option<Source>,
    /// As JSON; with --watch one object a line
    #[arg(long)]
    pub(crate) json: bool,
    /// One line of comma-separated values a report, under a line of names
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
    /// What less memory would cost: how many pages would come back in a minute, by size, and which size to choose
    #[arg(long, conflicts_with = "csv")]
    pub(crate) curve: bool,
    /// How much of its time the program may wait for pages to come back, at the size that it is said to need [default: 0.1%]
    #[arg(long, value_name = "PERCENT", value_parser = cost, conflicts_with = "refaults", allow_negative_numbers = true)]
    pub(crate) cost: Option<f64>,
    /// Instead: how much of the working set may come back in a minute (the far-memory rule is 0.2%; 60 pages always may)
    #[arg(long, value_name = "PERCENT", value_parser = percent, allow_negative_numbers = true)]
    pub(crate) refaults: Option<f64>,
    #[command(flatten)]
    pub(crate) tree: Tree,
    /// Write a page with pictures there: one file that loads nothing and runs nothing. With --watch it is kept up to date
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

/// Sources of ages, best first.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// The processor's marks in page tables: each page
    PageTables,
    /// The kernel's idle-page bitmap: each page
    IdleBitmap,
    /// The kernel's sums of referenced memory: each mapping
    Referenced,
    /// Sizes only
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

/// How reports are written to standard output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Human,
    Json,
    Csv,
}

/// What a watching command does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    pub(crate) settings: Settings,
    /// It ends then; without, ^C ends it.
    pub(crate) time: Option<Duration>,
    /// A report each so often; without, one at the end.
    pub(crate) each: Option<Duration>,
    /// No time was asked for: what a manager has watched until now will do.
    pub(crate) any_time: bool,
    /// It ends, too, when the number that is needed has high confidence.
    pub(crate) until_sure: bool,
}

impl Report {
    /// How much may come back at the size that is needed.
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

    /// The plan, without contradictions.
    ///
    /// # Errors
    /// No target, or times that contradict each other.
    pub(crate) fn plan(&self) -> Result<Plan, Failure> {
        let target = match (&self.who, &self.cgroup) {
            (Some(Who::Pid(pid)), _) => Target::Pid(*pid),
            (Some(Who::Tenant(path)), _) => Target::Tenant(TenantName {
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
                    "cannot look at {} each {every}: `pagetide serve` looks at it",
                    tenant.path
                ),
                "ask without --age-every; `serve --age-every` is how often it looks, and --watch=TIME how often it is asked",
            ));
        }
        let mut settings = settings(target, every, self.max_wait)?;
        settings.source = self.source.map(AgeSource::from);
        let own = || Millis(FOR.0.max(every.0.saturating_mul(LOOKS)));
        let time = match self.time {
            Some(WatchTime::Fixed(time)) => Some(time),
            Some(WatchTime::UntilSure) => Some(SURE),
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

/// Time between two scans where none is asked for: whole seconds.
pub(super) fn scan_interval(time: Option<WatchTime>) -> Millis {
    let long = match time {
        Some(WatchTime::Fixed(time)) => time.0 / MANY,
        Some(WatchTime::UntilSure) | None => FOR.0 / MANY,
    };
    Millis(long.clamp(1_000, RAREST) / 1_000 * 1_000)
}

/// How to look, unless that is more often than anybody could bear.
pub(super) fn settings(
    target: Target,
    every: Millis,
    max_wait: Option<Millis>,
) -> Result<Settings, Failure> {
    if every < CLOSEST {
        return Err(Failure::usage(
            format!("cannot look each {every}: a look costs the programs time"),
            format!("give {CLOSEST} or more"),
        ));
    }
    Ok(Settings {
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
    /// Until the number has high confidence.
    UntilSure,
}

pub(super) fn watch_time(text: &str) -> Result<WatchTime, UnitError> {
    match text {
        "auto" => Ok(WatchTime::UntilSure),
        text => millis(text).map(WatchTime::Fixed),
    }
}

/// `0.2%` or `0.2`, in tenths of a percent.
fn percent(text: &str) -> Result<f64, UnitError> {
    let hint = "say how much of the working set may come back in a minute: --refaults 0.2%";
    Ok(percentage(text, hint)? * 10.0)
}

/// `0.1%` or `0.1`, in percent.
pub(super) fn cost(text: &str) -> Result<f64, UnitError> {
    let hint = "say how much of its time the program may wait: --cost 0.1%";
    percentage(text, hint)
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

/// An age takes two looks.
pub(super) fn long_enough(time: Option<Millis>, every: Millis) -> Result<(), Failure> {
    match time {
        Some(time) if time < every => Err(Failure::usage(
            format!("cannot watch for {time} and look each {every}: an age takes two looks"),
            format!("give --for {every} or more, or look more often"),
        )),
        _ => Ok(()),
    }
}

pub(super) fn duration(time: Millis) -> Duration {
    Duration::from_millis(time.0)
}
