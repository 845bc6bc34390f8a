//! A limit: a size, a share of what is used, or none.
//!
//! Invariant: a share stays a share until [`Limit::resolve`] is told of what; it is never turned
//! into bytes by guessing.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::number::Number;
use super::{Bytes, UnitError};

const LIMIT_HINT: &str = "write a size such as 512M, a share such as 50%, or max for no limit";

/// A share in hundredths of a percent, `0..=10_000`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Percent(u16);

impl Percent {
    /// The whole.
    pub const ALL: Percent = Percent(10_000);

    /// A share of whole percents; `None` above 100.
    #[must_use]
    pub fn new(percent: u16) -> Option<Percent> {
        (percent <= 100).then_some(Percent(percent * 100))
    }

    /// This share of `whole`, rounded down.
    #[must_use]
    pub fn of(self, whole: Bytes) -> Bytes {
        let part = u128::from(whole.0) * u128::from(self.0) / 10_000;
        Bytes(u64::try_from(part).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, hundredths) = (self.0 / 100, self.0 % 100);
        match hundredths {
            0 => f.pad(&format!("{whole}%")),
            h if h % 10 == 0 => f.pad(&format!("{whole}.{}%", h / 10)),
            h => f.pad(&format!("{whole}.{h:02}%")),
        }
    }
}

/// One of the `memory.*` limits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Limit {
    /// No limit.
    Max,
    /// So many bytes.
    Bytes(Bytes),
    /// A share of what the target uses in all (resident and stored), or of a whole that the caller
    /// of [`Limit::resolve`] knows better.
    Percent(Percent),
}

impl Limit {
    /// The limit in bytes when the whole is `whole`; `None` is no limit.
    #[must_use]
    pub fn resolve(self, whole: Bytes) -> Option<Bytes> {
        match self {
            Limit::Max => None,
            Limit::Bytes(bytes) => Some(bytes),
            Limit::Percent(percent) => Some(percent.of(whole)),
        }
    }

    /// Whether it is above `other` whatever a share comes to.
    #[must_use]
    pub fn surely_above(self, other: Limit) -> bool {
        match (self, other) {
            (Limit::Bytes(a), Limit::Bytes(b)) => a > b,
            (Limit::Percent(a), Limit::Percent(b)) => a > b,
            (Limit::Max, Limit::Bytes(_) | Limit::Percent(_)) => true,
            _ => false,
        }
    }
}

impl FromStr for Limit {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Limit, UnitError> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("max") {
            return Ok(Limit::Max);
        }
        let Some(share) = text.strip_suffix('%') else {
            let to_limit = |error: UnitError| UnitError::new(error.why, LIMIT_HINT);
            return text.parse().map(Limit::Bytes).map_err(to_limit);
        };
        let number = Number::parse(share, "share", LIMIT_HINT)?;
        if !number.suffix.is_empty() {
            return Err(number.unknown_suffix("share", LIMIT_HINT));
        }
        let hundredths = number.times(100).and_then(|n| u16::try_from(n).ok());
        match hundredths.map(Percent) {
            Some(percent) if percent <= Percent::ALL => Ok(Limit::Percent(percent)),
            _ => Err(UnitError::new(
                format!("`{text}` is more than all of it"),
                "a share goes from 0% to 100%",
            )),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Max => f.pad("max"),
            Limit::Bytes(bytes) => bytes.fmt(f),
            Limit::Percent(percent) => percent.fmt(f),
        }
    }
}

/// Bytes as a number, everything else as the text a user would write: `"max"`, `"50%"`.
impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Limit::Bytes(bytes) => serializer.serialize_u64(bytes.0),
            other => serializer.collect_str(other),
        }
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Limit, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Limit;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes as a number, or a text such as \"512M\", \"50%\", \"max\"")
            }

            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<Limit, E> {
                Ok(Limit::Bytes(Bytes(bytes)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Limit, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
