//! The key `policy` of a tenant: a policy of the engine with its parameters, under the names that
//! users write.
//!
//! Invariant: keys, units and defaults come only from the engine's table
//! ([`PolicySettings::keys`]). A policy that was read is valid.

use super::values::{Share, Size, Time};
use engine::policy::{PolicySettings, Unit};
use serde::Deserialize;
use toml::{Table, Value};

/// A policy: its name (key `by`) and its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Table")]
pub struct PolicyOf(pub PolicySettings);

impl TryFrom<Table> for PolicyOf {
    type Error = String;

    fn try_from(mut keys: Table) -> Result<Self, String> {
        let Some(Value::String(name)) = keys.remove("by") else {
            let names = PolicySettings::NAMES.join("`, `");
            return Err(format!("a policy has a key `by`: one of `{names}`"));
        };
        let mut settings = PolicySettings::named(&name).ok_or_else(|| {
            let names = PolicySettings::NAMES.join("`, `");
            format!("unknown variant `{name}`, expected one of `{names}`")
        })?;
        for (key, value) in keys {
            let known = settings.keys().iter().find(|known| known.name == key);
            let Some(known) = known else {
                let names: Vec<&str> = settings.keys().iter().map(|key| key.name).collect();
                let names = names.join("`, `");
                return Err(format!("unknown field `{key}`, expected one of `{names}`"));
            };
            let number = read(known.unit, value).map_err(|error| format!("{key}: {error}"))?;
            settings.set(known.name, number);
        }
        match settings.check() {
            Ok(()) => Ok(Self(settings)),
            Err((key, must)) => Err(format!("`{key}` of {name} must be {must}")),
        }
    }
}

/// Converts the value of a key to the engine's unit.
fn read(unit: Unit, value: Value) -> Result<u64, toml::de::Error> {
    Ok(match unit {
        Unit::Time => Time::deserialize(value)?.0,
        Unit::Size => Size::deserialize(value)?.0,
        Unit::Share => millionths(Share::deserialize(value)?),
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share is 0 to 1"
)]
fn millionths(share: Share) -> u64 {
    (share.0 * 1e6).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<PolicySettings, String> {
        let table: Table = toml::from_str(text).expect("a table");
        PolicyOf::try_from(table).map(|policy| policy.0)
    }

    #[test]
    fn a_policy_is_its_name_and_its_changed_keys() {
        let plain = read("by = \"fit\"").expect("a policy");
        assert_eq!(Some(plain), PolicySettings::named("fit"));
        let rate =
            read("by = \"promotion-rate\"\nrate = \"0.2%\"\npercentile = 0.5\nwarm-up = \"1m\"");
        let rate = rate.expect("a policy");
        let numbers = ["rate", "percentile", "warm-up"].map(|key| rate.get(key));
        assert_eq!(numbers, [2000, 500_000, 60_000].map(Some));
        let pressure = read("by = \"pressure\"\nfloor = \"64M\"").expect("a policy");
        assert_eq!(pressure.get("floor"), Some(64 << 20));
    }

    #[test]
    fn errors_name_what_is_wrong() {
        for (text, reported) in [
            ("rate = \"1%\"", "`by`"),
            ("by = \"fitt\"", "`fitt`"),
            ("by = \"fit\"\nrat = \"1%\"", "unknown field `rat`"),
            ("by = \"fit\"\nrate = \"much\"", "rate: "),
            ("by = \"cold-age\"\nevery = \"0s\"", "`every`"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(reported), "{text}: {error}");
        }
    }
}
