//! Arguments of `top`.

use daemon::options::{Millis, millis};

use crate::failure::Failure;
use crate::view::top::{By, Sort};
use crate::watching::Target;

use super::Plan;
use super::manage::Tree;
use super::report::{duration, long_enough, settings};

/// What each row is about, the order of the rows, and how often they are drawn.
#[derive(clap::Args, Debug, Clone)]
pub(crate) struct Top {
    /// What one row is about; with `tenant` the rows are those of `pagetide serve`
    #[arg(long, value_name = "WHAT", value_enum, default_value = "process")]
    pub(crate) by: By,
    /// Time between two scans; each scan's result is shown
    #[arg(
        long,
        value_name = "TIME",
        default_value = "2s",
        value_parser = millis,
        allow_negative_numbers = true
    )]
    pub(crate) every: Millis,
    #[command(flatten)]
    pub(crate) tree: Tree,
    /// Order of the rows, by this column in descending order
    #[arg(long, value_name = "KEY", value_enum, default_value = "resident")]
    pub(crate) sort: Sort,
    /// Show at most this many rows [default: as many as fit; all rows where nothing is redrawn]
    #[arg(long, value_name = "N")]
    pub(crate) rows: Option<usize>,
    /// End after this time
    #[arg(long = "for", value_name = "TIME", value_parser = millis, allow_negative_numbers = true)]
    pub(crate) time: Option<Millis>,
    /// Show one table, after the time of --for, or after one interval
    #[arg(long)]
    pub(crate) once: bool,
    /// Print one JSON object for each table, each on one line, with all rows or those of --rows
    #[arg(long)]
    pub(crate) json: bool,
}

impl Top {
    /// Returns the plan, checked for contradictions.
    ///
    /// # Errors
    /// The times contradict each other.
    pub(crate) fn plan(&self) -> Result<Plan, Failure> {
        let settings = settings(Target::All, self.every, None)?;
        let time = self.time.or_else(|| self.once.then_some(self.every));
        long_enough(time, self.every)?;
        Ok(Plan {
            settings,
            time: time.map(duration),
            each: (!self.once).then(|| duration(self.every)),
            any_time: false,
            until_sure: false,
        })
    }
}
