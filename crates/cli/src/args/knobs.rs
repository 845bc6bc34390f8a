//! Options for limits and policy, which `run` and `attach` share.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use daemon::options::{
    Algorithm, Bytes, EvictBy, Limits, Millis, Options, Policy, Size, WriteBack, bytes, evict_by,
    millis,
};

use crate::failure::Failure;

const LIMITS: &str = "Limits (512M, 2G; 50% of what the program uses; max)";
const POLICY: &str = "Policy (times: 500ms, 10s, 2m)";

/// The options of a target's manager.
#[derive(clap::Args, Debug, Clone)]
pub(crate) struct ManageArgs {
    /// Keep resident memory within this size
    #[arg(long, value_name = "SIZE", default_value = "max", help_heading = LIMITS)]
    #[arg(allow_negative_numbers = true)]
    memory_max: Size,
    /// Above this size, reclaim from the program and slow it down
    #[arg(long, value_name = "SIZE", default_value = "max", help_heading = LIMITS)]
    #[arg(allow_negative_numbers = true)]
    memory_high: Size,
    /// Policies leave the program at least this much memory (so does --memory-min: the larger one
    /// applies)
    #[arg(long, value_name = "SIZE", default_value = "0", help_heading = LIMITS)]
    #[arg(allow_negative_numbers = true)]
    memory_low: Size,
    /// Policies leave the program at least this much memory (the kernel's own reclaim may take
    /// more)
    #[arg(long, value_name = "SIZE", default_value = "0", help_heading = LIMITS)]
    #[arg(allow_negative_numbers = true)]
    memory_min: Size,
    /// Keep at most this much of the program's memory in swap
    #[arg(long, value_name = "SIZE", default_value = "max", help_heading = LIMITS)]
    #[arg(allow_negative_numbers = true)]
    swap_max: Size,

    /// Algorithm that chooses which pages are reclaimed first
    #[arg(long, value_name = "NAME", default_value = "multi-gen", help_heading = POLICY)]
    #[arg(value_parser = algorithm())]
    policy: Algorithm,
    /// Scan, and make a new generation of pages, this often
    #[arg(long, value_name = "TIME", default_value = "10s", help_heading = POLICY)]
    #[arg(value_parser = millis, allow_negative_numbers = true)]
    age_every: Millis,
    /// Page out memory that was not accessed for this time, even if no limit requires it
    #[arg(long, value_name = "TIME", help_heading = POLICY)]
    #[arg(value_parser = millis, allow_negative_numbers = true)]
    evict_older_than: Option<Millis>,
    /// How often --evict-older-than pages out
    #[arg(long, value_name = "TIME", default_value = "40s", help_heading = POLICY)]
    #[arg(requires = "evict_older_than", value_parser = millis, allow_negative_numbers = true)]
    every: Millis,
    /// Page out what this policy chooses, even if no limit requires it: cold-age, promotion-rate,
    /// pressure or fit
    #[arg(long, value_name = "NAME[:KEY=VALUE,...]", help_heading = POLICY)]
    #[arg(conflicts_with = "evict_older_than", long_help = evict_by_help())]
    evict_by: Option<EvictBy>,
    /// Write pages in zram to the disk behind it once they were not accessed for this time (`swap
    /// on --backing`)
    #[arg(long, value_name = "TIME", help_heading = POLICY)]
    #[arg(value_parser = millis, allow_negative_numbers = true)]
    write_back_older_than: Option<Millis>,
    /// Write at most this much a day, because writing wears out flash
    #[arg(long, value_name = "SIZE", default_value = "1G", help_heading = POLICY)]
    #[arg(requires = "write_back_older_than", value_parser = bytes, allow_negative_numbers = true)]
    write_back_max: Bytes,
    /// Write back from this zram [default: the one that `swap on` made]
    #[arg(long, value_name = "DEVICE", help_heading = POLICY)]
    #[arg(requires = "write_back_older_than")]
    write_back_from: Option<PathBuf>,
    /// Which pages reclaim prefers: from file pages (0) to anonymous pages (200)
    #[arg(long, value_name = "0..200", default_value = "60", help_heading = POLICY)]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=200), allow_negative_numbers = true)]
    swappiness: u8,
    /// Decide and explain, but page out nothing
    #[arg(long, help_heading = POLICY)]
    dry_run: bool,
    /// How long a scan may make the program wait [default: as for `report`]
    #[arg(long, value_name = "TIME", help_heading = POLICY)]
    #[arg(value_parser = millis, allow_negative_numbers = true)]
    max_wait: Option<Millis>,
    /// If something is missing on this host, continue without it, and say so
    #[arg(long)]
    best_effort: bool,
}

impl ManageArgs {
    /// Returns the options of a manager, checked for contradictions.
    ///
    /// # Errors
    /// Options contradict each other.
    pub(crate) fn options(&self) -> Result<Options, Failure> {
        // `--evict-older-than` and `--every` mean the policy cold-age.
        let cold_age = self.evict_older_than;
        let cold_age = cold_age.map(|older_than| EvictBy::cold_age(older_than, self.every));
        let options = Options {
            limits: Limits {
                min: self.memory_min,
                low: self.memory_low,
                high: self.memory_high,
                max: self.memory_max,
                swap_max: self.swap_max,
            },
            policy: Policy {
                policy: self.policy,
                age_every: duration(self.age_every),
                evict_by: self.evict_by.or(cold_age),
                swappiness: self.swappiness,
                dry_run: self.dry_run,
            },
            write_back: self.write_back_older_than.map(|age| WriteBack {
                older_than: duration(age),
                most_a_day: self.write_back_max.0,
                from: self.write_back_from.clone(),
            }),
            max_wait: self.max_wait.map(duration),
            best_effort: self.best_effort,
        };
        options.check()?;
        Ok(options)
    }
}

/// Returns the help text of `--evict-by`: every policy with its parameters.
pub(super) fn evict_by_help() -> String {
    format!(
        "Page out what this policy selects, whatever the limits, the coldest first. Policies and defaults: {} \
         (docs/policies.md)",
        evict_by::help()
    )
}

fn duration(time: Millis) -> Duration {
    Duration::from_millis(time.0)
}

fn algorithm() -> impl TypedValueParser<Value = Algorithm> {
    const ALL: [Algorithm; 2] = [Algorithm::MultiGen, Algorithm::ActiveInactive];
    PossibleValuesParser::new(ALL.map(Algorithm::name)).map(|name| {
        let named = ALL.into_iter().find(|one| one.name() == name);
        named.unwrap_or_default()
    })
}
