//! A policy as users write it: `promotion-rate`, `cold-age:older-than=1m,every=10s`.
//!
//! Invariant: a parsed policy has passed the engine's own check; its keys, units and defaults come
//! only from the engine's table ([`PolicySettings::keys`]).

use std::fmt;
use std::str::FromStr;

use engine::Millis;
use engine::policy::{ColdAgeSettings, Key, PolicySettings, Unit};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::units::{UnitError, bytes, millis, share};

/// A policy with the values of its keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EvictBy(pub PolicySettings);

const HINT: &str =
    "write NAME or NAME:KEY=VALUE,..., e.g. promotion-rate:rate=0.2%; --help has all";

impl EvictBy {
    /// Returns `cold-age` with the values of the options `--evict-older-than` and `--every`,
    /// unchecked.
    #[must_use]
    pub const fn cold_age(older_than: Millis, every: Millis) -> EvictBy {
        EvictBy(PolicySettings::ColdAge(ColdAgeSettings {
            older_than,
            every,
            cache_older_than: Millis(0),
        }))
    }

    /// Returns the policy of this name, with these keys' values in place of the defaults.
    ///
    /// # Errors
    /// There is no such policy or key, or a value makes no sense.
    pub fn new<'a>(
        name: &str,
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<EvictBy, UnitError> {
        let Some(mut settings) = PolicySettings::named(name) else {
            let why = format!(
                "there is no policy `{name}`; the nearest is `{}`",
                nearest(name, PolicySettings::NAMES)
            );
            return Err(UnitError::new(why, HINT));
        };
        for (key, value) in pairs {
            let Some(known) = settings.keys().iter().find(|known| known.name == key) else {
                let names = settings.keys().iter().map(|key| key.name);
                let why = format!(
                    "{name} has no `{key}`; the nearest is `{}`",
                    nearest(key, names)
                );
                return Err(UnitError::new(why, HINT));
            };
            settings.set(key, read(known.unit, value)?);
        }
        settings.check().map_err(|(key, must)| {
            let why = format!("{name}: `{key}` must be {must}");
            UnitError::new(why, HINT)
        })?;
        Ok(EvictBy(settings))
    }
}

/// Returns the known word that the user probably meant. A word with the same beginning is preferred
/// to one of similar letters: for `older` it is `older-than`, not `every`.
fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> &'a str {
    let distance = |known: &&str| (!known.starts_with(word), strsim::levenshtein(word, known));
    known.into_iter().min_by_key(distance).unwrap_or_default()
}

fn read(unit: Unit, value: &str) -> Result<u64, UnitError> {
    match unit {
        Unit::Time => millis(value).map(|time| time.0),
        Unit::Size => bytes(value).map(|size| size.0),
        Unit::Share => share(value),
    }
}

/// Formats a key's value so that it can be parsed again.
fn print(unit: Unit, value: u64) -> String {
    match unit {
        Unit::Time => format!("{value}ms"),
        Unit::Size => value.to_string(),
        Unit::Share => engine::policy::Rate(value).to_string(),
    }
}

impl FromStr for EvictBy {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<EvictBy, UnitError> {
        let (name, rest) = text.trim().split_once(':').unwrap_or((text.trim(), ""));
        let mut pairs = Vec::new();
        for pair in rest.split(',').filter(|pair| !pair.trim().is_empty()) {
            let Some((key, value)) = pair.split_once('=') else {
                let why = format!("`{pair}` is not KEY=VALUE");
                return Err(UnitError::new(why, HINT));
            };
            pairs.push((key.trim(), value.trim()));
        }
        EvictBy::new(name.trim(), pairs)
    }
}

/// Formats the policy so that it can be parsed again.
impl fmt::Display for EvictBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())?;
        let keys = self.0.keys().iter();
        for (Key { name, unit }, before) in
            keys.zip([":"].into_iter().chain(std::iter::repeat(",")))
        {
            let value = self.0.get(name).unwrap_or_default();
            write!(f, "{before}{name}={}", print(*unit, value))?;
        }
        Ok(())
    }
}

impl Serialize for EvictBy {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EvictBy {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<EvictBy, D::Error> {
        String::deserialize(from)?
            .parse()
            .map_err(de::Error::custom)
    }
}

/// Returns a text for `--help`: all policies with their defaults, as users write them.
#[must_use]
pub fn help() -> String {
    let of = |settings: PolicySettings| {
        let keys = settings.keys().iter();
        let all = keys.map(|Key { name, unit }| {
            let value = settings.get(name).unwrap_or_default();
            format!("{name}={}", in_words(*unit, value))
        });
        format!("{}:{}", settings.name(), all.collect::<Vec<_>>().join(","))
    };
    let all = PolicySettings::NAMES
        .into_iter()
        .filter_map(PolicySettings::named);
    all.map(of).collect::<Vec<_>>().join("; ")
}

fn in_words(unit: Unit, value: u64) -> String {
    match unit {
        Unit::Time => Millis(value).to_string(),
        Unit::Size => format!("{}M", value >> 20),
        Unit::Share => print(unit, value),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn valid_policies_are_parsed() {
        let read = |text: &str| text.parse::<EvictBy>().expect(text).0;
        assert_eq!(
            Some(read("promotion-rate")),
            PolicySettings::named("promotion-rate")
        );
        let cold = read("cold-age:older-than=1m, every=10s");
        assert_eq!(
            (cold.get("older-than"), cold.get("every")),
            (Some(60_000), Some(10_000))
        );
        let rate = read("promotion-rate:rate=0.05%,percentile=90%");
        assert_eq!(
            (rate.get("rate"), rate.get("percentile")),
            (Some(500), Some(900_000))
        );
        assert_eq!(
            read("pressure:floor=1G,stall=0.5s").get("floor"),
            Some(1 << 30)
        );
    }

    #[test]
    fn invalid_policies_are_refused_with_a_hint() {
        for (text, reported) in [
            ("", "there is no policy ``"),
            ("presure", "the nearest is `pressure`"),
            ("cold-age:older=1m", "the nearest is `older-than`"),
            ("cold-age:every", "`every` is not KEY=VALUE"),
            ("cold-age:every=10", "has no unit"),
            ("cold-age:every=0s", "`every` must be more than nothing"),
            ("promotion-rate:rate=2", "is no share"),
            ("promotion-rate:rate=101%", "100% at most"),
            ("fit:history=30s", "as long as the window at least"),
        ] {
            let error = text.parse::<EvictBy>().expect_err(text);
            assert!(error.why.contains(reported), "{text}: {error}");
        }
    }

    /// The defaults in `--help` are those in force.
    #[test]
    fn help_lists_all_policies_with_their_defaults() {
        let all = help();
        let read = all
            .split("; ")
            .map(|text| text.parse::<EvictBy>().expect(text));
        let known = PolicySettings::NAMES
            .into_iter()
            .filter_map(PolicySettings::named);
        assert!(read.eq(known.map(EvictBy)), "{all}");
    }

    /// The page on policies has every key with its default.
    #[test]
    fn the_page_lists_every_key() {
        let page = include_str!("../../../../docs/policies.md");
        for settings in PolicySettings::NAMES
            .into_iter()
            .filter_map(PolicySettings::named)
        {
            let section = page.split(&format!("\n## {}\n", settings.name())).nth(1);
            let section = section.and_then(|text| text.split("\n## ").next());
            let section = section.unwrap_or_else(|| panic!("no section {}", settings.name()));
            for Key { name, unit } in settings.keys() {
                let value = in_words(*unit, settings.get(name).unwrap_or_default());
                let row = format!("| `{name}` | {value} |");
                assert!(section.contains(&row), "{}: {row}", settings.name());
            }
        }
    }

    proptest! {
        #[test]
        fn a_printed_policy_is_parsed_again(
            which in 0..PolicySettings::NAMES.len(),
            numbers in prop::collection::vec(1u64..900_000, 6),
        ) {
            let mut settings = PolicySettings::named(PolicySettings::NAMES[which]).expect("a policy");
            for (key, number) in settings.keys().iter().zip(numbers) {
                settings.set(key.name, number);
            }
            prop_assume!(settings.check().is_ok());
            let text = EvictBy(settings).to_string();
            prop_assert_eq!(text.parse::<EvictBy>(), Ok(EvictBy(settings)));
            let json = serde_json::to_string(&EvictBy(settings)).expect("a text");
            prop_assert_eq!(serde_json::from_str::<EvictBy>(&json).expect("it"), EvictBy(settings));
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,40}", similar in "(cold-age|fit|pressure):?([a-z-]{0,6}=[0-9.%ms]{0,6},?){0,3}") {
            for text in [&text, &similar] {
                let _ = text.parse::<EvictBy>();
            }
        }
    }
}
