//! LIMITS, POLICY and STORE of `interfaces.md`: what `run`, `attach` and `adopt` have in common.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use pager::options::{
    Algorithm, Bytes, Compress, Limit, Limits, Millis, Options, Policy, StoreOptions, StorePlace,
};

use crate::failure::Failure;

const LIMITS: &str = "Limits (512M, 2G; 50% of what the program uses; max)";
const POLICY: &str = "Policy (times: 500ms, 10s, 2m)";
const STORE: &str = "Store";

/// The options of a target's manager.
#[derive(clap::Args, Debug, Clone)]
pub(crate) struct Knobs {
    /// Hold resident memory within this
    #[arg(long, value_name = "SIZE", default_value = "max", help_heading = LIMITS)]
    #[arg(allow_negative_numbers = true)]
    memory_max: Limit,
    /// Above this, reclaim and slow the program
    #[arg(long, value_name = "SIZE", default_value = "max", help_heading = LIMITS)]
    #[arg(allow_negative_numbers = true)]
    memory_high: Limit,
    /// Below this, reclaim only when nothing else is left
    #[arg(long, value_name = "SIZE", default_value = "0", help_heading = LIMITS)]
    #[arg(allow_negative_numbers = true)]
    memory_low: Limit,
    /// Below this, never reclaim
    #[arg(long, value_name = "SIZE", default_value = "0", help_heading = LIMITS)]
    #[arg(allow_negative_numbers = true)]
    memory_min: Limit,
    /// Keep at most so much of the program in the store
    #[arg(long, value_name = "SIZE", default_value = "max", help_heading = LIMITS)]
    #[arg(allow_negative_numbers = true)]
    swap_max: Limit,

    /// Which pages go first
    #[arg(long, value_name = "NAME", default_value = "multi-gen", help_heading = POLICY)]
    #[arg(value_parser = algorithm())]
    policy: Algorithm,
    /// Make a new generation this often
    #[arg(long, value_name = "TIME", default_value = "10s", help_heading = POLICY)]
    #[arg(allow_negative_numbers = true)]
    age_every: Millis,
    /// Put out what was not touched for so long, whatever the limits
    #[arg(long, value_name = "TIME", help_heading = POLICY, allow_negative_numbers = true)]
    evict_older_than: Option<Millis>,
    /// How often to do that
    #[arg(long, value_name = "TIME", default_value = "40s", help_heading = POLICY)]
    #[arg(requires = "evict_older_than", allow_negative_numbers = true)]
    every: Millis,
    /// Anon (200) against file pages (0)
    #[arg(long, value_name = "0..200", default_value = "60", help_heading = POLICY)]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=200), allow_negative_numbers = true)]
    swappiness: u8,
    /// Decide and explain, and leave every page where it is
    #[arg(long, help_heading = POLICY)]
    dry_run: bool,

    /// Where cold pages go: memory, or an unnamed file in a directory
    #[arg(long, value_name = "mem|DIR", default_value = "mem", help_heading = STORE)]
    store: Place,
    /// How they are compressed; tiered: zstd for what left because of its age, else lz4
    #[arg(long, value_name = "HOW", default_value = "tiered", help_heading = STORE)]
    #[arg(value_parser = compress())]
    compress: Compress,
}

impl Knobs {
    /// The options, without contradictions and with a store that can be written.
    ///
    /// # Errors
    /// What contradicts what, or what is wrong with the store's directory.
    pub(crate) fn options(&self) -> Result<Options, Failure> {
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
                age_every: self.age_every,
                evict_older_than: self.evict_older_than,
                every: self.every,
                swappiness: self.swappiness,
                dry_run: self.dry_run,
            },
            store: StoreOptions {
                place: self.store.0.clone(),
                compress: self.compress,
            },
            ..Options::default()
        };
        options.check()?;
        if let StorePlace::Dir(dir) = &options.store.place {
            pager::vet::store_dir(dir)?;
        }
        Ok(options)
    }
}

/// `mem`, or a directory. A directory of that name is `./mem`.
#[derive(Clone, Debug)]
struct Place(StorePlace);

impl FromStr for Place {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Place, Infallible> {
        Ok(Place(match text {
            "mem" => StorePlace::Mem,
            dir => StorePlace::Dir(PathBuf::from(dir)),
        }))
    }
}

fn algorithm() -> impl TypedValueParser<Value = Algorithm> {
    const ALL: [Algorithm; 2] = [Algorithm::MultiGen, Algorithm::ActiveInactive];
    PossibleValuesParser::new(ALL.map(Algorithm::name)).map(|name| {
        let named = ALL.into_iter().find(|one| one.name() == name);
        named.unwrap_or_default()
    })
}

fn compress() -> impl TypedValueParser<Value = Compress> {
    const ALL: [Compress; 4] = [
        Compress::Tiered,
        Compress::Lz4,
        Compress::Zstd,
        Compress::None,
    ];
    PossibleValuesParser::new(ALL.map(Compress::name)).map(|name| {
        let named = ALL.into_iter().find(|one| one.name() == name);
        named.unwrap_or_default()
    })
}

/// What no option changes: what `demo` starts from.
pub(crate) fn with_max(max: Bytes) -> Options {
    Options {
        limits: Limits {
            max: Limit::Bytes(max),
            ..Limits::default()
        },
        ..Options::default()
    }
}
