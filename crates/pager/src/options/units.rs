//! Sizes, times and limits as users write them: `512M`, `1.5G`, `50%`, `10s`.
//!
//! Invariant: parsing never rounds up, never wraps and never guesses a unit; what cannot be exact
//! to the byte (or millisecond) is cut down, what does not fit is an error that says what to write.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

mod limit;
mod number;

pub use limit::{Limit, Percent};
use number::Number;

/// A number of bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A number of milliseconds.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Millis(pub u64);

/// Why a text is no size, time or share.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{why}; {hint}")]
pub struct UnitError {
    /// What is wrong with the text.
    pub why: String,
    /// What to write instead.
    pub hint: &'static str,
}

const SIZE_HINT: &str = "write a number with K, M, G or T, e.g. 512M or 1.5G";
const TIME_HINT: &str = "write a number with ms, s, m or h, e.g. 500ms, 10s, 2m";

impl UnitError {
    fn new(why: impl Into<String>, hint: &'static str) -> UnitError {
        UnitError {
            why: why.into(),
            hint,
        }
    }
}

impl Bytes {
    /// Whole pages of 4096 bytes in it.
    #[must_use]
    pub const fn pages(self) -> u64 {
        self.0 / 4096
    }
}

/// Powers of 1024 whatever the spelling: `K`, `KB` and `KiB` are one thing, as with cgroup files,
/// `redis.conf` and `docker -m`. A bare number is bytes.
impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Bytes, UnitError> {
        let number = Number::parse(text, "size", SIZE_HINT)?;
        let shift = match number.suffix.to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ => return Err(number.unknown_suffix("size", SIZE_HINT)),
        };
        if shift == 0 && number.has_fraction() {
            let why = format!("`{}` is a fraction of a byte", text.trim());
            return Err(UnitError::new(why, SIZE_HINT));
        }
        number.times(1 << shift).map(Bytes).ok_or_else(|| {
            let why = format!("`{}` is more than 64 bits of bytes", text.trim());
            UnitError::new(why, "16777215T is the largest size")
        })
    }
}

/// `ms`, `s`, `m` (or `min`), `h`, `d`. A bare number is refused: its unit would be a guess. Only a
/// bare `0` needs none.
impl FromStr for Millis {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Millis, UnitError> {
        let number = Number::parse(text, "time", TIME_HINT)?;
        let unit = match number.suffix.to_ascii_lowercase().as_str() {
            "" if number.is_zero() => 1,
            "" => {
                let why = format!("`{}` has no unit", text.trim());
                return Err(UnitError::new(why, TIME_HINT));
            }
            "ms" => 1,
            "s" => 1_000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(number.unknown_suffix("time", TIME_HINT)),
        };
        number.times(unit).map(Millis).ok_or_else(|| {
            let why = format!("`{}` is more than 64 bits of milliseconds", text.trim());
            UnitError::new(why, TIME_HINT)
        })
    }
}

/// For people: at most four digits and a unit, `512 MiB`, `1.5 GiB`, `0 B`. Whole values show no
/// fraction. Not for parsing back.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let mut unit = 0;
        // Step up while the value would print as 1000 or more of this unit.
        while unit + 1 < UNITS.len() && tenths(self.0, unit) >= 10_000 {
            unit += 1;
        }
        let tenths = tenths(self.0, unit);
        if tenths.is_multiple_of(10) || tenths >= 1_000 {
            f.pad(&format!("{} {}", (tenths + 5) / 10, UNITS[unit]))
        } else {
            f.pad(&format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit]))
        }
    }
}

/// `bytes` in tenths of the `unit`-th power of 1024, rounded to the nearest.
fn tenths(bytes: u64, unit: usize) -> u128 {
    let one = 1u128 << (10 * unit);
    (u128::from(bytes) * 10 + one / 2) / one
}

/// For people: the largest unit that divides it, else seconds with a fraction.
impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            ms if ms < 1_000 => format!("{ms}ms"),
            ms if ms % 3_600_000 == 0 => format!("{}h", ms / 3_600_000),
            ms if ms % 60_000 == 0 => format!("{}m", ms / 60_000),
            ms if ms % 1_000 == 0 => format!("{}s", ms / 1_000),
            ms => format!("{}.{}s", ms / 1_000, ms % 1_000 / 100),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests;
