//! A limit as users write it: a size, a share of what the program uses, or no limit.
//!
//! Invariant: a share remains a share until [`Size::of`] gets the size that is 100%; it is never
//! turned into bytes by guessing.

use std::fmt;
use std::str::FromStr;

use engine::units::{Bytes, Limit};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{UnitError, bytes, share};

const LIMIT_HINT: &str = "write a size such as 512M, a share such as 50%, or max for no limit";

/// A share in hundredths of a percent, `0..=10_000`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Percent(u16);

impl Percent {
    /// 100%.
    pub const ALL: Percent = Percent(10_000);

    /// Returns a share of whole percents; `None` above 100.
    #[must_use]
    pub fn new(percent: u16) -> Option<Percent> {
        (percent <= 100).then_some(Percent(percent * 100))
    }

    /// Returns the share in hundredths of a percent.
    #[must_use]
    pub const fn hundredths(self) -> u16 {
        self.0
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

/// The value of one of the `memory.*` limits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Size {
    /// No limit.
    Max,
    /// A number of bytes.
    Bytes(Bytes),
    /// A share of the bytes that the program uses, resident and swapped out together.
    Share(Percent),
}

impl From<Limit> for Size {
    fn from(limit: Limit) -> Size {
        limit.bytes().map_or(Size::Max, Size::Bytes)
    }
}

impl Size {
    /// Zero bytes.
    pub const ZERO: Size = Size::Bytes(Bytes(0));

    /// Returns the limit, where `whole` is the size that a share of 100% means.
    #[must_use]
    pub fn of(self, whole: Bytes) -> Limit {
        match self {
            Size::Max => Limit::Max,
            Size::Bytes(bytes) => Limit::Bytes(bytes),
            Size::Share(percent) => Limit::Bytes(percent.of(whole)),
        }
    }

    /// Returns the limit in bytes, where `whole` is 100%; `None` for no limit.
    #[must_use]
    pub fn bytes_of(self, whole: Bytes) -> Option<Bytes> {
        self.of(whole).bytes()
    }

    /// Whether the limit is a share.
    #[must_use]
    pub fn is_share(self) -> bool {
        matches!(self, Size::Share(_))
    }

    /// Whether this limit is above `other` for every size that may be 100%.
    #[must_use]
    pub fn surely_above(self, other: Size) -> bool {
        match (self, other) {
            (Size::Bytes(a), Size::Bytes(b)) => a > b,
            (Size::Share(a), Size::Share(b)) => a > b,
            (Size::Max, Size::Bytes(_) | Size::Share(_)) => true,
            _ => false,
        }
    }
}

impl FromStr for Size {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Size, UnitError> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("max") {
            return Ok(Size::Max);
        }
        let of_limit = |error: UnitError| UnitError::new(error.why, LIMIT_HINT);
        if !text.ends_with('%') {
            return bytes(text).map(Size::Bytes).map_err(of_limit);
        }
        let millionths = share(text).map_err(of_limit)?;
        match u16::try_from(millionths / 100).map(Percent) {
            Ok(percent) if percent <= Percent::ALL => Ok(Size::Share(percent)),
            _ => Err(UnitError::new(
                format!("`{text}` is more than all of it"),
                "a share goes from 0% to 100%",
            )),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Size::Max => f.pad("max"),
            Size::Bytes(bytes) => bytes.fmt(f),
            Size::Share(percent) => percent.fmt(f),
        }
    }
}

/// Encodes bytes as a number, everything else as the text that a user would write: `"max"`,
/// `"50%"`.
impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Size::Bytes(bytes) => serializer.serialize_u64(bytes.0),
            other => serializer.collect_str(other),
        }
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Size;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes as a number, or a text such as \"512M\", \"50%\", \"max\"")
            }

            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<Size, E> {
                Ok(Size::Bytes(Bytes(bytes)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
