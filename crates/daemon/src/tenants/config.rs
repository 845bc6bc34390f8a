//! `pagetide.toml`: the configuration of `serve`.
//!
//! Invariant: every key is optional; an unknown key is an error that names the nearest known one. A
//! file with any mistake changes nothing. Sizes, times and shares are written as on the command
//! line.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use engine::machine::GlobalReclaim;
use host::manage::tenants::{NoreuseFiles, Tenants};
use host::system::PathPattern;
use serde::de::IntoDeserializer;
use serde::{Deserialize, Deserializer, de};

use super::file::File;
use crate::error::{Error, ExitCode};
use crate::http::Address;
use crate::options::{Bytes, CpuShare, EvictBy, Millis, Size, bytes, millis};

/// A configuration file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Config {
    /// The directory at which the tenants are mounted as files.
    pub mount: Option<PathBuf>,
    /// The control group below which tenants are made.
    pub root: Option<PathBuf>,
    /// Limit of all tenants together that `serve` has made.
    #[serde(deserialize_with = "text")]
    pub memory_max: Option<Size>,
    /// Time between two scans.
    #[serde(deserialize_with = "time")]
    pub age_every: Option<Millis>,
    /// The share of one processor that scans may take.
    #[serde(deserialize_with = "text")]
    pub look_budget: Option<CpuShare>,
    /// How much of this process's memory the age records may take.
    #[serde(deserialize_with = "text")]
    pub own_memory: Option<Size>,
    /// Policy of all tenants: it reclaims even if no limit is exceeded.
    pub policy: Option<Policy>,
    /// Age from which tenants' swapped-out pages are written back to a disk.
    #[serde(deserialize_with = "age")]
    pub write_back_older_than: Option<Age>,
    /// Most bytes that are written back in a day, for all tenants together.
    #[serde(deserialize_with = "size")]
    pub write_back_max: Option<Bytes>,
    /// The zram device from which pages are written back.
    pub write_back_from: Option<PathBuf>,
    /// Age from which pages in the zram of `swap on` are compressed again, more strongly.
    #[serde(deserialize_with = "time")]
    pub recompress_older_than: Option<Millis>,
    /// How a reclaim of all tenants chooses tenants.
    pub global: Option<Global>,
    /// The control group of the host at and below which all groups are tenants, too; `none` for no
    /// group.
    pub host: Option<String>,
    /// Whether the host's own groups may be changed and reclaimed from.
    pub manage_host: Option<bool>,
    /// Path patterns of files whose pages no process uses more than once.
    #[serde(deserialize_with = "texts")]
    pub noreuse_paths: Vec<PathPattern>,
    /// Address, or addresses, at which metrics are served.
    #[serde(deserialize_with = "addresses")]
    pub listen: Vec<Address>,
    /// The file with the token for TCP; it is made if it does not exist.
    pub token_file: Option<PathBuf>,
    /// The file that keeps the dashboard's history; `none` for no file.
    pub history: Option<PathBuf>,
    /// Watermarks of the memory available on the host.
    pub pressure: AvailableWatermarks,
    /// Settings of single tenants by path; those that do not exist are made.
    pub tenants: BTreeMap<String, Tenant>,
}

/// How a reclaim of all tenants chooses tenants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Global {
    /// By the memcg LRU: from a few tenants at a time, so that over time all are reclaimed from.
    #[default]
    MemcgLru,
    /// From all tenants each time.
    Iterator,
    /// By heat levels: from tenants that yielded much lately, and from others only if that is not
    /// enough.
    HeatLevel,
}

impl From<Global> for GlobalReclaim {
    fn from(global: Global) -> GlobalReclaim {
        match global {
            Global::MemcgLru => GlobalReclaim::MemcgLru,
            Global::Iterator => GlobalReclaim::Iterator,
            Global::HeatLevel => GlobalReclaim::HeatLevel,
        }
    }
}

/// Watermarks of the memory available on the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct AvailableWatermarks {
    /// Reclaim begins when less memory than this is available; 0 for never.
    #[serde(deserialize_with = "text")]
    pub available_low: Option<Size>,
    /// Reclaim ends when more memory than this is available.
    #[serde(deserialize_with = "text")]
    pub available_high: Option<Size>,
}

/// A tenant's settings. A limit that is set replaces the tenant's earlier one; others stay.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Tenant {
    /// memory.min
    #[serde(deserialize_with = "text")]
    pub memory_min: Option<Size>,
    /// memory.low
    #[serde(deserialize_with = "text")]
    pub memory_low: Option<Size>,
    /// memory.high
    #[serde(deserialize_with = "text")]
    pub memory_high: Option<Size>,
    /// memory.max
    #[serde(deserialize_with = "text")]
    pub memory_max: Option<Size>,
    /// memory.soft_limit
    #[serde(deserialize_with = "text")]
    pub soft_limit: Option<Size>,
    /// memory.swap.max
    #[serde(deserialize_with = "text")]
    pub swap_max: Option<Size>,
    /// Policy of this tenant and of those below it.
    pub policy: Option<Policy>,
    /// Age from which swapped-out pages of this tenant, and of the tenants below it, are written
    /// back to a disk.
    #[serde(deserialize_with = "age")]
    pub write_back_older_than: Option<Age>,
    /// Whether the tenant's files are used only once, so that an access does not predict a later
    /// one. Overrides the setting of the tenants above it.
    pub noreuse: Option<bool>,
    /// Path patterns of those of the tenant's files that are used only once.
    #[serde(deserialize_with = "texts")]
    pub noreuse_paths: Vec<PathPattern>,
}

/// From which age pages are written back to a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Age {
    /// Pages that were not accessed for this time are written back.
    After(Millis),
    /// `never`: no writeback.
    Never,
}

/// A policy: the key `by` (a name or `none`), the key `dry-run`, and the keys of that policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(try_from = "BTreeMap<String, Value>")]
pub struct Policy {
    /// The policy with its values; `None`: no policy reclaims.
    pub by: Option<EvictBy>,
    /// The policy decides and reports why, but reclaims nothing.
    pub dry_run: bool,
}

/// The value of a key of a policy.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// `dry-run`
    Is(bool),
    /// A bare number.
    Number(u64),
    /// Any other text.
    Text(String),
}

impl TryFrom<BTreeMap<String, Value>> for Policy {
    type Error = String;

    fn try_from(mut keys: BTreeMap<String, Value>) -> Result<Policy, String> {
        let dry_run = match keys.remove("dry-run") {
            None => false,
            Some(Value::Is(dry_run)) => dry_run,
            Some(_) => return Err("`dry-run` is true or false".to_owned()),
        };
        let Some(Value::Text(name)) = keys.remove("by") else {
            return Err(
                "a policy is named by its key `by`, e.g. by = \"promotion-rate\"".to_owned(),
            );
        };
        let mut pairs = Vec::new();
        for (key, value) in keys {
            let value = match value {
                Value::Text(text) => text,
                Value::Number(number) => number.to_string(),
                Value::Is(_) => return Err(format!("`{key}` is no yes or no")),
            };
            pairs.push((key, value));
        }
        if name == "none" {
            return match pairs.first() {
                None => Ok(Policy { by: None, dry_run }),
                Some((key, _)) => Err(format!("by = \"none\" has no `{key}`")),
            };
        }
        let pairs = pairs
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()));
        let by = EvictBy::new(&name, pairs).map_err(|error| error.why)?;
        Ok(Policy {
            by: Some(by),
            dry_run,
        })
    }
}

impl Tenant {
    /// Returns the first limit that is set; `None` if none is.
    fn limits(&self) -> Option<Size> {
        let all = [
            self.memory_min,
            self.memory_low,
            self.memory_high,
            self.memory_max,
            self.soft_limit,
            self.swap_max,
        ];
        all.into_iter().flatten().next()
    }

    /// Returns which of the tenant's files are used only once: `None` without a setting,
    /// `Some(None)` for no files. `noreuse = false` is a setting: it overrides the tenants above.
    pub(super) fn noreuse_files(&self) -> Option<Option<NoreuseFiles>> {
        match (self.noreuse, &self.noreuse_paths[..]) {
            (Some(true), _) => Some(Some(NoreuseFiles::All)),
            (None, []) => None,
            (Some(false), []) => Some(None),
            (_, paths) => Some(Some(NoreuseFiles::Like(paths.to_vec()))),
        }
    }
}

impl Config {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// The file cannot be read, or contains a mistake: the message says in which line.
    pub fn read(path: &Path) -> Result<Config, Error> {
        let reported = |why: String| {
            let what = format!("cannot use {}: {why}", path.display());
            let hint = "the sample has every key, with what it does (/etc/pagetide.toml as it was installed; dist/pagetide.toml of the sources)";
            Error::ending(ExitCode::Usage, what, hint)
        };
        let text = std::fs::read_to_string(path).map_err(|error| reported(error.to_string()))?;
        Config::parse(&text).map_err(reported)
    }

    /// Parses the text of a configuration file.
    ///
    /// # Errors
    /// A message that says what is wrong, and in which line.
    pub fn parse(text: &str) -> Result<Config, String> {
        let config: Config = toml::from_str(text).map_err(|error| explain(&error, text))?;
        for (path, tenant) in &config.tenants {
            if let Some(part) = taken_name(path) {
                return Err(format!(
                    "[tenants.\"{}\"]: no tenant can be called `{}`",
                    path.escape_debug(),
                    part.escape_debug()
                ));
            }
            let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
            if !path.split('/').all(is_plain) {
                return Err(format!(
                    "[tenants.\"{path}\"]: a path is names with / between them"
                ));
            }
            if is_of_host(path) && tenant.limits().is_some() {
                return Err(format!(
                    "[tenants.\"{path}\"]: `host` has the host's own groups, whose limits the configuration cannot set: write them to the files below host/"
                ));
            }
        }
        Ok(config)
    }
}

/// Whether a path is of one of the host's own groups.
pub(super) fn is_of_host(path: &str) -> bool {
    path.split('/').next() == Some("host")
}

/// Returns the first part of a path that no tenant may have as its name; `None` if all are allowed.
/// Refused are: names of `run`'s hard-limit cgroups, names that a tenant's files or the root's
/// nodes have in a directory, and names with a line break, as in the kernel.
fn taken_name(path: &str) -> Option<&str> {
    let is_node = |part: &str| {
        let number = part.strip_prefix("node");
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let mut parts = path.split('/').enumerate();
    let found = parts.find(|(depth, part)| {
        let is_file = [true, false].map(|is_root| File::named(part.as_ref(), is_root));
        is_file.iter().any(Option::is_some)
            || (*depth == 0 && is_node(part))
            || part.contains('\n')
            || !Tenants::may_be_called(part)
    });
    found.map(|(_, part)| part)
}

/// Formats the parser's error as one line, with its line in the file and the key that was likely
/// meant.
fn explain(error: &toml::de::Error, text: &str) -> String {
    let message = error.message();
    let mut reported = String::new();
    if let Some(span) = error.span() {
        let before = text.get(..span.start).unwrap_or_default();
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        reported = format!("line {line}: ");
    }
    // serde writes "unknown field `a`, expected `b`" or "... expected one of `b`, `c`".
    let mut quoted = message.split('`').skip(1).step_by(2);
    if let (true, Some(key)) = (message.starts_with("unknown field"), quoted.next()) {
        let nearest = quoted.min_by_key(|known| strsim::levenshtein(key, known));
        reported += &format!("there is no key `{key}`");
        if let Some(nearest) = nearest {
            reported += &format!("; the nearest is `{nearest}`");
        }
        return reported;
    }
    reported + message.lines().next().unwrap_or_default()
}

/// Parses a number, or a text that `T` parses.
fn text<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(u64),
        Text(String),
    }
    let text = match Written::deserialize(from) {
        Ok(Written::Number(number)) => number.to_string(),
        Ok(Written::Text(text)) => text,
        Err(_) => {
            return Err(de::Error::custom(
                "write a size such as \"512M\" or \"50%\"",
            ));
        }
    };
    text.parse().map(Some).map_err(de::Error::custom)
}

/// Parses a list of texts, each of which `T` parses.
fn texts<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    let read = texts.iter().map(|text| text.parse());
    read.collect::<Result<_, _>>().map_err(de::Error::custom)
}

/// Parses one address, or a list of addresses.
fn addresses<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Address>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        One(String),
        Many(Vec<String>),
    }
    let texts = match Written::deserialize(from) {
        Ok(Written::One(text)) => vec![text],
        Ok(Written::Many(texts)) => texts,
        Err(_) => {
            return Err(de::Error::custom(
                "write an address such as \"127.0.0.1:9477\"",
            ));
        }
    };
    let addresses = texts
        .iter()
        .map(|text| text.parse().map_err(de::Error::custom));
    addresses.collect()
}

/// Parses a size in bytes, written as on the command line.
fn size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Bytes>, D::Error> {
    let text = String::deserialize(from)?;
    bytes(&text).map(Some).map_err(de::Error::custom)
}

/// Parses a time, or `never`.
fn age<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Age>, D::Error> {
    let text = String::deserialize(from)?;
    if text == "never" {
        return Ok(Some(Age::Never));
    }
    time(text.into_deserializer()).map(|time| time.map(Age::After))
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Millis>, D::Error> {
    let text = String::deserialize(from)?;
    match millis(&text) {
        Ok(Millis(0)) => Err(de::Error::custom("a period must be longer than nothing")),
        Ok(time) => Ok(Some(time)),
        Err(error) => Err(de::Error::custom(error)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn noreuse_is_true_false_or_not_set() {
        let files = |text: &str| {
            let file = Config::parse(&format!("[tenants.a]\n{text}")).expect("it is right");
            file.tenants["a"].noreuse_files()
        };
        assert_eq!(files("memory-max = \"1G\""), None, "as of the one above");
        assert_eq!(files("noreuse = false"), Some(None));
        assert_eq!(files("noreuse = true"), Some(Some(NoreuseFiles::All)));
        let like = files("noreuse-paths = [\"/a\"]");
        assert!(matches!(like, Some(Some(NoreuseFiles::Like(_)))));
    }

    #[test]
    fn the_sample_has_every_key_and_is_the_defaults() {
        let sample = include_str!("../../../../dist/pagetide.toml");
        assert_eq!(Config::parse(sample), Ok(Config::default()));
        // The sample has a `#` before each key; without these it is a valid file, too.
        let is_key = |line: &&str| line.starts_with("#[") || line.contains(" = ");
        let keys: Vec<&str> = sample.lines().filter(is_key).collect();
        let keys: Vec<&str> = keys
            .iter()
            .map(|line| line.trim_start_matches('#'))
            .collect();
        let config = Config::parse(&keys.join("\n")).expect("it is right");
        let Config {
            mount,
            root,
            memory_max,
            age_every,
            look_budget,
            own_memory,
            policy,
            write_back_older_than,
            write_back_max,
            write_back_from,
            recompress_older_than,
            global,
            host,
            manage_host,
            noreuse_paths,
            listen,
            token_file,
            history,
            pressure,
            tenants,
        } = config;
        assert!(mount.is_some() && root.is_some() && memory_max.is_some() && age_every.is_some());
        assert!(look_budget.is_some_and(|share| share.hundredths() == 1000));
        assert!(own_memory.is_some());
        assert!(policy.is_some_and(|policy| policy.by.is_some()));
        assert!(write_back_older_than.is_some() && write_back_max.is_some());
        assert!(write_back_from.is_some() && recompress_older_than.is_some());
        assert!(global.is_some() && host.is_some() && manage_host.is_some());
        assert!(!noreuse_paths.is_empty());
        assert!(!listen.is_empty() && token_file.is_some() && history.is_some());
        assert!(pressure.available_low.is_some() && pressure.available_high.is_some());
        let all = tenants.values().next().expect("a tenant");
        assert!(all.memory_min.is_some() && all.memory_low.is_some());
        assert!(all.memory_high.is_some() && all.memory_max.is_some() && all.swap_max.is_some());
        assert!(all.noreuse == Some(true) && !all.noreuse_paths.is_empty());
        assert!(all.policy.is_some() && all.write_back_older_than == Some(Age::Never));
    }

    #[test]
    fn policies_are_written_as_on_the_command_line() {
        let text = "policy = { by = \"promotion-rate\", rate = \"0.1%\", dry-run = true }\n\
            [tenants.a]\npolicy = { by = \"none\" }\n[tenants.b.policy]\nby = \"pressure\"\nfloor = 0";
        let config = Config::parse(text).expect("it is right");
        let by = "promotion-rate:rate=0.1%".parse().ok();
        let dry_run = true;
        assert_eq!(config.policy, Some(Policy { by, dry_run }));
        let policy = |name: &str| config.tenants[name].policy.expect("one");
        assert_eq!(policy("a").by, None);
        assert_eq!(policy("b").by, "pressure:floor=0".parse().ok());
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, parts) in [
            (
                "mount = \"/a\"\nmemory-mx = \"1G\"",
                &["line 2", "`memory-mx`", "`memory-max`"][..],
            ),
            (
                "[tenants.a]\nmemory_low = 1",
                &["line 2", "`memory_low`", "`memory-low`"],
            ),
            ("memory-max = \"much\"", &["line 1", "much"]),
            ("memory-max = true", &["line 1", "512M"]),
            ("age-every = \"10\"", &["line 1", "no unit"]),
            ("age-every = \"0s\"", &["line 1", "longer than nothing"]),
            ("look-budget = \"0%\"", &["line 1", "`0%`", "0.01%"]),
            ("look-budget = 10", &["line 1", "`10`", "10%"]),
            ("global = \"fair\"", &["line 1", "memcg-lru", "heat-level"]),
            (
                "listen = \"localhost:1\"",
                &["line 1", "localhost:1", "127.0.0.1:9477"],
            ),
            ("listen = [\"unix:/x\", 1]", &["line 1", "127.0.0.1:9477"]),
            ("write-back-older-than = \"0s\"", &["line 1", "longer"]),
            ("write-back-older-than = \"newer\"", &["line 1", "newer"]),
            ("write-back-max = \"much\"", &["line 1", "much"]),
            ("mount = ", &["line 1"]),
            (
                "\nnoreuse-paths = [\"/a/*\", \"srv/b\"]",
                &["line 2", "`srv/b`", "begin it with /"],
            ),
            (
                "[tenants.a]\nnoreuse-paths = [\"/srv/\"]",
                &["line 2", "`/srv/`", "/**"],
            ),
            ("noreuse-paths = \"/a\"", &["line 1", "sequence"]),
            ("policy = { by = \"fitt\" }", &["line 1", "`fit`"]),
            ("policy = { rate = \"1%\" }", &["line 1", "`by`"]),
            (
                "policy = { by = \"none\", rate = \"1%\" }",
                &["line 1", "`rate`"],
            ),
            (
                "policy = { by = \"fit\", dry-run = 1 }",
                &["line 1", "`dry-run`"],
            ),
            (
                "[tenants.a]\npolicy = { by = \"cold-age\", older = \"1m\" }",
                &["line 2", "`older-than`"],
            ),
            ("[tenants.\"a/../b\"]", &["a/../b", "names"]),
            ("[tenants.\"/a\"]", &["/a", "names"]),
            (
                "[tenants.\"host/a\"]\nmemory-max = \"1G\"",
                &["host", "files below"],
            ),
            ("[tenants.\"memory.low\"]", &["`memory.low`"]),
            ("[tenants.node0]", &["`node0`"]),
            ("[tenants.\"a\\nb\"]", &["`a\\nb`"]),
            ("[tenants.\"a/cgroup.procs\"]", &["`cgroup.procs`"]),
        ] {
            let error = Config::parse(text).expect_err(text);
            for part in parts {
                assert!(error.contains(part), "{text}: {error}");
            }
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }

    /// Regression: a tenant with the name of a file was made, and could neither be entered nor
    /// removed through the mount.
    #[test]
    fn no_tenant_has_the_name_of_another_entry() {
        for path in [
            "memory.stat",
            "node12",
            "a/memory.stat",
            "a/b\nc",
            "a/pagetide-77-4711",
        ] {
            assert!(taken_name(path).is_some(), "{path}");
        }
        for path in ["a/node0", "node", "nodes", "node1a", "memory", "a.b/c"] {
            assert_eq!(taken_name(path), None);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "(\\PC|[\\[\\]=\"\n.#0-9a-z-])*") {
            let _ = Config::parse(&text);
        }
    }
}
