//! Types of the values in an experiment file: sizes, times, rates, shares.
//!
//! Invariant: a parsed value is in its range. The error for a value out of range names the range.

use engine::units::{Bytes, Limit, PAGE_SIZE, text};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;

/// Bytes: `4096`, `"512M"`, `"2G"`; at most 1 PiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

/// Milliseconds: `"500ms"`, `"10s"`, `"2m"`, `"1h"`; at most 10,000 h.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub u64);

/// Touches per second: `1000`. Or bytes per second, with one touch for each page: `"64M/s"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(pub u64);

/// A share of a whole: `0.1` or `"10%"`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(pub f64);

const SIZE_MAX: u64 = 1 << 50;
const TIME_MAX: u64 = 10_000 * 3_600_000;
/// Maximum rate, touches per second: more than any memory can serve.
const RATE_MAX: u64 = 1_000_000_000;

impl Size {
    /// Returns the number of pages, rounded up.
    #[must_use]
    pub const fn pages(self) -> u64 {
        self.0.div_ceil(PAGE_SIZE)
    }

    /// Returns the limit of this size; no size is no limit.
    #[must_use]
    pub fn limit(size: Option<Self>) -> Limit {
        Limit::from(size.map(|size| Bytes(size.0)))
    }

    fn parse(text: &str) -> Option<Self> {
        let bytes = text::bytes(text).ok()?.0;
        (bytes <= SIZE_MAX).then_some(Self(bytes))
    }
}

impl Time {
    fn parse(text: &str) -> Option<Self> {
        let millis = text::millis(text).ok()?.0;
        (millis <= TIME_MAX).then_some(Self(millis))
    }
}

impl Rate {
    fn parse(text: &str) -> Option<Self> {
        let size = Size::parse(text.trim().strip_suffix("/s")?)?;
        Self::new(size.0 / PAGE_SIZE)
    }

    fn new(touches: u64) -> Option<Self> {
        (touches <= RATE_MAX).then_some(Self(touches))
    }
}

impl Share {
    fn parse(text: &str) -> Option<Self> {
        let percent: f64 = text.trim().strip_suffix('%')?.trim().parse().ok()?;
        Self::new(percent / 100.0)
    }

    fn new(part: f64) -> Option<Self> {
        (0.0..=1.0).contains(&part).then_some(Self(part))
    }
}

/// Parses one of the values above from a string or a number.
struct Reader<T> {
    expecting: &'static str,
    text: fn(&str) -> Option<T>,
    integer: fn(u64) -> Option<T>,
    float: fn(f64) -> Option<T>,
}

impl<T> Visitor<'_> for Reader<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.text)(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        let value = u64::try_from(number).ok().and_then(self.integer);
        value.ok_or_else(|| E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        (self.integer)(number).ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        (self.float)(number).ok_or_else(|| E::invalid_value(Unexpected::Float(number), &self))
    }
}

macro_rules! read_as {
    ($type:ty, $expecting:literal, $integer:expr, $float:expr) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_any(Reader {
                    expecting: $expecting,
                    text: <$type>::parse,
                    integer: $integer,
                    float: $float,
                })
            }
        }
    };
}

read_as!(
    Size,
    "a size such as 4096, \"512M\" or \"2G\", at most 1024T",
    |n| (n <= SIZE_MAX).then_some(Size(n)),
    |_| None
);
read_as!(
    Time,
    "a time such as \"500ms\", \"10s\", \"2m\" or \"1h\", at most \"10000h\"",
    |_| None,
    |_| None
);
read_as!(
    Rate,
    "a rate: touches a second such as 1000 (at most 1000000000), or \"64M/s\"",
    Rate::new,
    |_| None
);
const fn whole(n: u64) -> f64 {
    n as f64
}
read_as!(
    Share,
    "a share of 0 to 1, such as 0.1 or \"10%\"",
    |n| Share::new(whole(n)),
    Share::new
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_parsed() {
        let sizes = ["4096", "512M", " 2G", "16MiB", "1.5K"].map(|t| Size::parse(t).map(|s| s.0));
        assert_eq!(sizes, [4096, 512 << 20, 2 << 30, 16 << 20, 1536].map(Some));
        let times = ["500ms", "10s", "2m", "1h"].map(|t| Time::parse(t).map(|t| t.0));
        assert_eq!(times, [500, 10_000, 120_000, 3_600_000].map(Some));
        assert_eq!(Rate::parse("64M/s"), Some(Rate(16_384)));
        assert_eq!(Share::parse("10%"), Some(Share(0.1)));
    }

    #[test]
    fn invalid_values_are_refused() {
        for text in [
            "",
            "M",
            "-1",
            "12Q",
            "99999999999999999999T",
            "1024P",
            "é",
            "2é",
        ] {
            assert_eq!(Size::parse(text), None, "{text}");
            assert_eq!(Time::parse(text), None, "{text}");
            assert_eq!(Rate::parse(text), None, "{text}");
            assert_eq!(Share::parse(text), None, "{text}");
        }
        assert_eq!(Share::parse("NaN%"), None);
        assert_eq!(Time::parse("99999999h"), None);
    }
}
