//! Whole numbers in as few bytes as possible. Each byte has seven bits of the number, the lowest
//! bits first. The highest bit of a byte is set if another byte follows.
//!
//! Invariant: only one encoding of each number is accepted: the shortest, at most ten bytes.

/// Appends the encoding of `value` to `out`.
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the lowest seven bits are meant"
        )]
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    #[expect(clippy::cast_possible_truncation, reason = "below 128")]
    out.push(value as u8);
}

/// Reads a number and removes it from `bytes`; `None` if `bytes` do not begin with a valid
/// encoding.
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for at in 0..10 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        let shifted = bits.checked_shl(7 * at)?;
        if shifted >> (7 * at) != bits {
            return None;
        }
        value |= shifted;
        if byte & 0x80 == 0 {
            let is_needless = *byte == 0 && at > 0;
            return (!is_needless).then_some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_encoded_numbers_can_be_read() {
        for value in [
            0,
            1,
            127,
            128,
            300,
            u64::from(u32::MAX),
            u64::MAX - 1,
            u64::MAX,
        ] {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            let mut left = &bytes[..];
            assert_eq!((take(&mut left), left.len()), (Some(value), 0));
            for cut in 0..bytes.len() {
                assert_eq!(take(&mut &bytes[..cut]), None);
            }
        }
        for bad in [
            &[0x80, 0][..],
            &[0xff; 11],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
        ] {
            assert_eq!(take(&mut &bad[..]), None, "{bad:?}");
        }
    }
}
