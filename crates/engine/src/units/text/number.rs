//! A decimal number with a suffix, kept exact until it is multiplied by its unit.
//!
//! Invariant: `value = digits / 10^places`, with `digits` of at most [`DIGITS_MAX`] digits, so that
//! multiplying by any unit fits 128 bits.

use alloc::format;

use super::UnitError;

/// Most decimal digits: more than any size or time needs; `10^20 * 2^40` fits a `u128`.
const DIGITS_MAX: usize = 20;

pub(super) struct Number<'a> {
    digits: u128,
    places: u32,
    pub(super) suffix: &'a str,
    text: &'a str,
}

impl<'a> Number<'a> {
    /// Splits `512M` into 512 and `M`. Error messages call the text a `noun`, such as "size".
    pub(super) fn parse(
        text: &'a str,
        noun: &str,
        hint: &'static str,
    ) -> Result<Number<'a>, UnitError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(UnitError::new(format!("the {noun} is empty"), hint));
        }
        if text.starts_with(['-', '+', '\u{2212}']) {
            let why = format!("`{text}`: a {noun} has no sign and is never negative");
            return Err(UnitError::new(why, hint));
        }
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let dangling = number.contains('.') && fraction.is_empty();
        if whole.is_empty() || dangling || fraction.contains('.') {
            let why = format!("`{text}` is no {noun}: it does not start with a number");
            return Err(UnitError::new(why, hint));
        }
        let fraction = fraction.trim_end_matches('0');
        let digits = [whole.trim_start_matches('0'), fraction].concat();
        if digits.len() > DIGITS_MAX {
            let why = format!("`{text}` has too many digits");
            return Err(UnitError::new(why, hint));
        }
        let malformed = |_| UnitError::new(format!("`{text}` is no {noun}"), hint);
        Ok(Number {
            digits: if digits.is_empty() {
                0
            } else {
                digits.parse().map_err(malformed)?
            },
            places: u32::try_from(fraction.len()).unwrap_or(u32::MAX),
            suffix: suffix.trim_start(),
            text,
        })
    }

    pub(super) fn has_fraction(&self) -> bool {
        self.places > 0
    }

    pub(super) fn is_zero(&self) -> bool {
        self.digits == 0
    }

    /// Returns the value times `unit`, rounded down; `None` if that does not fit 64 bits.
    pub(super) fn times(&self, unit: u64) -> Option<u64> {
        let scaled = self.digits.checked_mul(u128::from(unit))?;
        u64::try_from(scaled / 10u128.checked_pow(self.places)?).ok()
    }

    pub(super) fn unknown_suffix(&self, noun: &str, hint: &'static str) -> UnitError {
        let why = format!(
            "`{}` is no {noun}: unknown suffix `{}`",
            self.text, self.suffix
        );
        UnitError::new(why, hint)
    }
}
