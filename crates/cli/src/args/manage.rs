//! What `run`, `attach`, `reclaim`, `stat` and `detach` take.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use daemon::control::Ask;
use daemon::options::{Bytes, Millis, bytes, millis};

use super::{Knobs, pid};
use crate::failure::Failure;

/// A program to start, and how to manage it.
#[derive(clap::Args, Debug)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) knobs: Knobs,
    /// Write the final report there, as JSON, when the last of its processes has ended
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// Whose memory: a process with its descendants, or a control group.
#[derive(clap::Args, Debug, Clone)]
#[group(required = true, multiple = false)]
pub(crate) struct Whose {
    /// This process and all of its descendants
    #[arg(value_name = "PID", value_parser = pid, allow_negative_numbers = true)]
    pub(crate) pid: Option<u32>,
    /// The processes of this control group and of those below it
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Option<PathBuf>,
}

/// A process that runs, and how to manage it.
#[derive(clap::Args, Debug)]
pub(crate) struct Attach {
    #[command(flatten)]
    pub(crate) knobs: Knobs,
    #[command(flatten)]
    pub(crate) whose: Whose,
    /// Let go after this time
    #[arg(long = "for", value_name = "TIME", value_parser = millis, allow_negative_numbers = true)]
    pub(crate) time: Option<Millis>,
    /// Print the final report as JSON, and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is to leave.
#[derive(clap::Args, Debug)]
pub(crate) struct Reclaim {
    /// This process and all of its descendants; then how much, e.g. 256M
    #[arg(value_names = ["PID", "SIZE"], num_args = 0..=2, allow_negative_numbers = true)]
    pub(crate) words: Vec<String>,
    /// The processes of this control group and of those below it
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Option<PathBuf>,
    /// All that was not accessed for so long
    #[arg(long, value_name = "TIME", value_parser = millis, allow_negative_numbers = true)]
    pub(crate) older_than: Option<Millis>,
    /// All that can leave
    #[arg(long, conflicts_with = "older_than")]
    pub(crate) all: bool,
    /// As a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

impl Reclaim {
    /// Whose, and what is to leave.
    ///
    /// # Errors
    /// Too little or too much was said.
    pub(crate) fn plan(&self) -> Result<(Whose, Ask), Failure> {
        let mut words = self.words.iter();
        let whose = Whose {
            cgroup: self.cgroup.clone(),
            pid: match (&self.cgroup, words.next()) {
                (Some(_), first) => {
                    words = self.words.iter();
                    let _ = first;
                    None
                }
                (None, Some(word)) => Some(pid(word).map_err(|error| bad("PID", &error))?),
                (None, None) => return Err(usage("whose memory is to leave is not said")),
            },
        };
        let size = words.next().map(|word| bytes(word));
        let size: Option<Bytes> = size.transpose().map_err(|error| bad("SIZE", &error))?;
        if words.next().is_some() {
            return Err(usage("there are too many words"));
        }
        let ask = match (size, self.older_than, self.all) {
            (Some(size), None, false) => Ask::Bytes(size.0),
            (None, Some(age), false) => Ask::OlderThan(Duration::from_millis(age.0)),
            (None, None, true) => Ask::All,
            (None, None, false) => return Err(usage("how much is to leave is not said")),
            _ => {
                return Err(usage(
                    "only one of SIZE, --older-than and --all can be meant",
                ));
            }
        };
        Ok((whose, ask))
    }
}

fn bad(name: &str, error: &daemon::options::UnitError) -> Failure {
    Failure::usage(format!("bad value for {name}: {}", error.why), error.hint)
}

fn usage(why: &str) -> Failure {
    Failure::usage(
        format!("cannot reclaim: {why}"),
        "usage: pagetide reclaim PID|--cgroup PATH SIZE|--older-than TIME|--all",
    )
}
