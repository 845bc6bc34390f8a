//! Arguments of `run`, `attach`, `reclaim`, `stat` and `detach`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use daemon::control::Ask;
use daemon::options::{Bytes, Millis, UnitError, bytes, millis};

use super::{ManageArgs, pid, pid_or};
use crate::failure::Failure;

/// A recording of accessed pages, which `mrc` and `sim` can read.
#[derive(clap::Args, Debug)]
pub(crate) struct Record {
    /// Record in this file which pages each scan finds in use, for `pagetide mrc` and `pagetide
    /// sim`
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Maximum size of the recording
    #[arg(long, value_name = "SIZE", default_value = "1G", requires = "record")]
    #[arg(value_parser = bytes, allow_negative_numbers = true)]
    pub(crate) record_max: Bytes,
}

/// Which figure of a program is compared with the size of `--fail-above`.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Figure {
    /// The needed size, as `pagetide report` shows it
    Needed,
    /// The peak of resident memory
    Peak,
}

/// The form in which a result is printed besides the plain line on standard error.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Annotation {
    /// A workflow command of GitHub Actions
    Github,
}

/// A size that the program's memory must not exceed, and how the result is reported.
#[derive(clap::Args, Debug)]
pub(crate) struct Gate {
    /// End with 4 if the program ended with 0 and its memory was above this
    #[arg(long, value_name = "SIZE", value_parser = bytes, allow_negative_numbers = true)]
    pub(crate) fail_above: Option<Bytes>,
    /// Which figure is compared with --fail-above
    #[arg(
        long,
        value_name = "FIGURE",
        default_value = "needed",
        requires = "fail_above"
    )]
    pub(crate) by: Figure,
    /// Print the result of --fail-above in this form
    #[arg(long, value_name = "FORM", requires = "fail_above")]
    pub(crate) format: Option<Annotation>,
    /// Write the result of --fail-above to this file, as one JUnit test case
    #[arg(long, value_name = "FILE", requires = "fail_above")]
    pub(crate) junit: Option<PathBuf>,
    /// Set by `run --fail-above` for the pagetide process that becomes the program
    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) measured_in: Option<PathBuf>,
}

/// A program to start, and how to manage it.
#[derive(clap::Args, Debug)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) knobs: ManageArgs,
    /// Write the final report to this file, as JSON, when the last of the program's processes has
    /// ended
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) record: Record,
    #[command(flatten)]
    pub(crate) gate: Gate,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// The target of a command: a process with its descendants, or a control group.
#[derive(clap::Args, Debug, Clone)]
#[group(required = true, multiple = false)]
pub(crate) struct TargetArgs {
    /// This process and all of its descendants
    #[arg(value_name = "PID", value_parser = pid, allow_negative_numbers = true)]
    pub(crate) pid: Option<u32>,
    /// The processes of this control group and of those below it
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Option<PathBuf>,
}

/// A process, or a tenant of `pagetide serve`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ProcessOrTenant {
    Pid(u32),
    /// A tenant of `serve`, by its path, which begins with a slash.
    Tenant(String),
}

const TARGET_HINT: &str =
    "give the number that `pgrep -o NAME` shows, or a tenant of `pagetide serve` as /PATH";

/// Parses a target: a number is a process, a path with a leading slash is a tenant.
pub(super) fn parse_process_or_tenant(text: &str) -> Result<ProcessOrTenant, UnitError> {
    match text.starts_with('/') {
        true => Ok(ProcessOrTenant::Tenant(text.to_owned())),
        false => pid_or(text, TARGET_HINT).map(ProcessOrTenant::Pid),
    }
}

/// The target of a command: a process with its descendants, a control group, or a tenant.
#[derive(clap::Args, Debug, Clone)]
#[group(required = true, multiple = false)]
pub(crate) struct TargetArg {
    /// This process and all of its descendants, or this tenant of `pagetide serve`
    #[arg(value_name = "PID|/TENANT", value_parser = parse_process_or_tenant, allow_negative_numbers = true)]
    pub(crate) target: Option<ProcessOrTenant>,
    /// The processes of this control group and of those below it
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Option<PathBuf>,
}

/// The tree of tenants to which a tenant's path refers.
#[derive(clap::Args, Debug, Clone)]
pub(crate) struct Tree {
    /// The root of the tenants, if `serve` has another one
    #[arg(long, value_name = "PATH", default_value = "pagetide")]
    pub(crate) root: PathBuf,
}

/// A process that runs, and how to manage it.
#[derive(clap::Args, Debug)]
pub(crate) struct Attach {
    #[command(flatten)]
    pub(crate) knobs: ManageArgs,
    #[command(flatten)]
    pub(crate) whose: TargetArgs,
    /// Detach after this time
    #[arg(long = "for", value_name = "TIME", value_parser = millis, allow_negative_numbers = true)]
    pub(crate) time: Option<Millis>,
    #[command(flatten)]
    pub(crate) record: Record,
    /// Print the final report as JSON, and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

/// What to page out, and from which target.
#[derive(clap::Args, Debug)]
pub(crate) struct Reclaim {
    /// This process and all of its descendants, or this tenant of `pagetide serve`; then how much,
    /// e.g. 256M
    #[arg(value_names = ["PID|/TENANT", "SIZE"], num_args = 0..=2, allow_negative_numbers = true)]
    pub(crate) words: Vec<String>,
    /// The processes of this control group and of those below it
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Option<PathBuf>,
    /// Page out all memory that was not accessed for this time
    #[arg(long, value_name = "TIME", value_parser = millis, allow_negative_numbers = true)]
    pub(crate) older_than: Option<Millis>,
    /// Page out all memory that can be paged out
    #[arg(long, conflicts_with = "older_than")]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) tree: Tree,
    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

impl Reclaim {
    /// Returns the target, and what to page out of it.
    ///
    /// # Errors
    /// There are too few or too many words.
    pub(crate) fn plan(&self) -> Result<(TargetArg, Ask), Failure> {
        let mut words = self.words.iter();
        let reported = TargetArg {
            cgroup: self.cgroup.clone(),
            target: match &self.cgroup {
                Some(_) => None,
                None => {
                    let word = words.next();
                    let word = word.ok_or_else(|| usage("no process or tenant is given"))?;
                    Some(
                        parse_process_or_tenant(word)
                            .map_err(|error| invalid_argument("PID", &error))?,
                    )
                }
            },
        };
        let size = words.next().map(|word| bytes(word));
        let size: Option<Bytes> = size
            .transpose()
            .map_err(|error| invalid_argument("SIZE", &error))?;
        if words.next().is_some() {
            return Err(usage("there are too many words"));
        }
        let ask = match (size, self.older_than, self.all) {
            (Some(size), None, false) => Ask::Bytes(size.0),
            (None, Some(age), false) => Ask::OlderThan(Duration::from_millis(age.0)),
            (None, None, true) => Ask::All,
            (None, None, false) => return Err(usage("how much to reclaim is not given")),
            _ => {
                return Err(usage(
                    "only one of SIZE, --older-than and --all can be meant",
                ));
            }
        };
        Ok((reported, ask))
    }
}

fn invalid_argument(name: &str, error: &UnitError) -> Failure {
    Failure::usage(format!("bad value for {name}: {}", error.why), error.hint)
}

fn usage(why: &str) -> Failure {
    Failure::usage(
        format!("cannot reclaim: {why}"),
        "usage: pagetide reclaim PID|/TENANT|--cgroup PATH SIZE|--older-than TIME|--all",
    )
}
