//! Arguments of `sim`.

use std::path::PathBuf;

/// The experiment to run, and where its results go.
#[derive(clap::Args, Debug)]
pub(crate) struct Sim {
    /// A name from --list, or a TOML file
    #[arg(value_name = "NAME|FILE.toml", required_unless_present = "list")]
    pub(crate) what: Option<String>,
    /// List the built-in experiments
    #[arg(long, conflicts_with_all = ["what", "set", "scale", "out", "csv", "html", "parquet"])]
    pub(crate) list: bool,
    /// Replace a value of the experiment, e.g. seed=7 or run.duration=1m
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Seed of all random numbers [default: 1, or the file's value]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,
    /// Divide the sizes of the published experiment by this [default: 1]
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub(crate) scale: Option<u64>,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Include figures that depend on this machine (seconds, instructions) in the results
    #[arg(long)]
    pub(crate) timings: bool,
    /// Write the results in all formats to this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Write each table as CSV to this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) csv: Option<PathBuf>,
    /// Write an HTML page with plots to this file; the page loads nothing else
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write each table as Parquet to this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) parquet: Option<PathBuf>,
}
