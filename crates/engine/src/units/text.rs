//! Sizes, times and shares as users write them: `512M`, `1.5G`, `10s`, `0.2%`.
//!
//! Invariant: parsing never wraps and never guesses a unit. A fraction of a byte or millisecond is
//! cut off. A value that does not fit is an error that says what to write.

use alloc::format;
use alloc::string::String;
use core::fmt;

use super::{Bytes, Millis};

mod number;

use number::Number;

/// Why a text is not a size, time or share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnitError {
    /// What is wrong with the text.
    pub why: String,
    /// What to write instead.
    pub hint: &'static str,
}

impl UnitError {
    /// Creates an error.
    pub fn new(why: impl Into<String>, hint: &'static str) -> Self {
        Self {
            why: why.into(),
            hint,
        }
    }
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.why, self.hint)
    }
}

impl core::error::Error for UnitError {}

const SIZE_HINT: &str = "write a number with K, M, G or T, e.g. 512M or 1.5G";
const TIME_HINT: &str = "write a number with ms, s, m or h, e.g. 500ms, 10s, 2m";

/// Parses a size. Units are powers of 1024 in any spelling: `K`, `KB` and `KiB` are the same, as
/// with cgroup files, `redis.conf` and `docker -m`. A bare number is bytes.
///
/// # Errors
/// What is wrong with the text, and what to write.
pub fn bytes(text: &str) -> Result<Bytes, UnitError> {
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

/// Parses a time in `ms`, `s`, `m` (or `min`), `h` or `d`. A bare number is refused: its unit would
/// be a guess. Only a bare `0` needs none.
///
/// # Errors
/// What is wrong with the text, and what to write.
pub fn millis(text: &str) -> Result<Millis, UnitError> {
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

const SHARE_HINT: &str = "write a share such as 0.2% or 98%";

/// Parses a share such as `0.2%`, and returns it in millionths.
///
/// # Errors
/// What is wrong with the text, and what to write.
pub fn share(text: &str) -> Result<u64, UnitError> {
    let number = Number::parse(text, "share", SHARE_HINT)?;
    if number.suffix != "%" {
        return Err(number.unknown_suffix("share", SHARE_HINT));
    }
    let too_large = || UnitError::new(format!("`{}` is too large", text.trim()), SHARE_HINT);
    number.times(10_000).ok_or_else(too_large)
}

#[cfg(test)]
mod tests;
