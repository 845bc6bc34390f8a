//! Parses numbers as the kernel's kstrtoull() and kstrtouint() do with base 0.
//!
//! Invariant: no text makes a parser panic, and each accepted text has exactly one value.

use super::FileError;

/// Parses an unsigned number: an optional `+`, then `0x` and hexadecimal digits, `0` and octal
/// digits, or decimal digits, then an optional line break. Blanks are refused.
///
/// # Errors
/// [`FileError::Invalid`] if the text is not such a number, [`FileError::Range`] if the number has
/// more than 64 bits.
pub fn kstrtoull(text: &str) -> Result<u64, FileError> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let text = text.strip_suffix('\n').unwrap_or(text);
    let (digits, base) = match text.as_bytes() {
        [b'0', b'x' | b'X', digit, ..] if digit.is_ascii_hexdigit() => (&text[2..], 16),
        [b'0', _, ..] => (&text[1..], 8),
        _ => (text, 10),
    };
    let end = digits.find(|c: char| !c.is_digit(base));
    let (digits, trailing) = digits.split_at(end.unwrap_or(digits.len()));
    if digits.is_empty() {
        return Err(FileError::Invalid);
    }
    // As in the kernel, a number that is too large is reported first, even if other text follows
    // it.
    let number = u64::from_str_radix(digits, base).map_err(|_| FileError::Range)?;
    match trailing.is_empty() {
        true => Ok(number),
        false => Err(FileError::Invalid),
    }
}

/// Parses an unsigned number of at most 32 bits, in the form of [`kstrtoull`].
///
/// # Errors
/// As [`kstrtoull`], for 32 bits.
pub fn kstrtouint(text: &str) -> Result<u32, FileError> {
    u32::try_from(kstrtoull(text)?).map_err(|_| FileError::Range)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values are those of the kernel's own tests of kstrtox, and of its comments.
    #[test]
    fn numbers_are_read_as_by_the_kernel() {
        let invalid = Err(FileError::Invalid);
        for (text, expect) in [
            ("0", Ok(0)),
            ("10000", Ok(10_000)),
            ("+5", Ok(5)),
            ("0x7d0", Ok(2000)),
            ("0X7D0\n", Ok(2000)),
            ("010", Ok(8)),
            ("4294967295", Ok(u32::MAX)),
            ("0xffffffff", Ok(u32::MAX)),
            ("4294967296", Err(FileError::Range)),
            ("99999999999999999999", Err(FileError::Range)),
            ("99999999999999999999x", Err(FileError::Range)),
            ("4294967296x", invalid),
            ("", invalid),
            ("\n", invalid),
            ("+", invalid),
            ("++1", invalid),
            ("-0", invalid),
            ("0x", invalid),
            ("0x+1", invalid),
            ("08", invalid),
            (" 1", invalid),
            ("1 ", invalid),
            ("1\n\n", invalid),
            ("1,", invalid),
        ] {
            assert_eq!(kstrtouint(text), expect, "{text:?}");
        }
    }
}
