//! What `serve` takes.

use std::path::PathBuf;

use daemon::options::{Millis, Size, millis};

/// Which tree, where, and how much.
#[derive(clap::Args, Debug)]
pub(crate) struct Serve {
    /// Show the tenants as files in this directory, with the names and formats of cgroup v2
    #[arg(long, value_name = "DIR")]
    pub(crate) mount: Option<PathBuf>,
    /// What all tenants together may use [default: as it was; without a limit at first]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) memory_max: Option<Size>,
    /// The control group that the tenants are below, from the mount of control groups on
    #[arg(long, value_name = "PATH", default_value = "pagetide")]
    pub(crate) root: PathBuf,
    /// Look at all pages this often
    #[arg(long, value_name = "TIME", default_value = "10s")]
    #[arg(value_parser = millis, allow_negative_numbers = true)]
    pub(crate) age_every: Millis,
    /// How a reclaim of all tenants goes about
    #[arg(long, value_name = "HOW", value_enum, default_value = "memcg-lru")]
    pub(crate) global: Global,
}

/// How tenants are chosen.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Global {
    /// By the memcg LRU: a few tenants at a time, all of them in the long run
    MemcgLru,
    /// All of them each time: what the memcg LRU replaced, to compare
    Iterator,
}
